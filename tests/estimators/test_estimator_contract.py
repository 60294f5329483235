"""The estimators keep scikit-learn's contract, with no expected failures.

``check_estimator`` of the installed scikit-learn yields what applies to a regressor; the checks that it leaves out to
third parties (the upper list below) are called here one by one, and so are those that matter most to us, so that a
scikit-learn that stops yielding one of them does not quietly take it away. One is left out on purpose:
``check_dataframe_column_names_consistency`` demands an error for columns in another order. Predictions find columns of
frames by their names, because the columns of groups that were not bought may be missing
(docs/developers/architecture.md).
"""

import io
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    FeatureGroups,
    GroupLassoPath,
    Moments,
)
from budgetline.sequencing import Doubling

ESTIMATORS = [
    AnytimeRegressor(),
    AnytimeRegressor(rule="omp", schedule="doubling"),
    AnytimeRegressorCV(alphas=[1e-5, 1e-2], cv=3),
    GroupLassoPath(),
    GroupLassoPath(refit=False, cost_sensitive=False, n_lambdas=20),
]
IDS = ["regressor", "omp doubling", "CV", "lasso", "lasso shrunken"]
GENERALISED = [
    AnytimeRegressor(loss="poisson"),
    AnytimeClassifier(),
    AnytimeClassifier(rule="omp", schedule="doubling"),
    AnytimeClassifierCV(rule="omp", alphas=[1e-3, 1e-1], cv=2),
]
GENERALISED_IDS = ["poisson", "classifier", "classifier omp doubling", "classifier CV"]

NOT_IN_CHECK_ESTIMATOR = [
    "check_inplace_ensure_writeable",
    "check_param_validation",
]
THAT_MATTER_MOST = [
    "check_dict_unchanged",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_readonly_memmap_input",
    "check_regressor_multioutput",
    "check_regressors_int",
    "check_requires_y_none",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_not_overwritten",
    "check_supervised_y_no_nan",
]

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5))
y = X @ [2.0, 0.0, -1.0, 0.5, 0.0] + rng.normal(size=60)
NAMES = list("abcde")
FRAME = pd.DataFrame(X, columns=NAMES)
GROUPS = FeatureGroups({"p": ["a", "b"], "q": ["c"], "r": ["d", "e"]}, {"p": 1, "q": 3, "r": 2.5})
FULL = [
    AnytimeRegressor(GROUPS, rule="omp", schedule=Doubling(c_min=2.0), alpha=0.1, max_groups=2),
    AnytimeRegressor({"p": ["a", "b"], "q": ["c", "d", "e"]}, costs={"q": 2, "p": 1}, cost_sensitive=False),
    AnytimeRegressor(["p", "p", "q", "q", "q"], costs=np.array([1.0, 2.0]), min_gain=0.01),
    AnytimeRegressorCV(GROUPS, alphas=(1e-3, 1.0), cv=KFold(3, shuffle=True, random_state=0), max_cost=4),
    GroupLassoPath(GROUPS, alpha=0.1, refit=False, n_lambdas=10, lambda_ratio=0.01, tol=1e-6),
]


# -- scikit-learn's own checks -------------------------------------------------------------------------------


@pytest.mark.quick_cases(220)
@parametrize_with_checks(ESTIMATORS + GENERALISED)
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=IDS)
@pytest.mark.parametrize("name", NOT_IN_CHECK_ESTIMATOR + THAT_MATTER_MOST)
def test_checks_by_name(name, estimator):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", GENERALISED, ids=GENERALISED_IDS)
@pytest.mark.parametrize("name", NOT_IN_CHECK_ESTIMATOR)
def test_checks_by_name_of_generalised_models(name, estimator):
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", ESTIMATORS + GENERALISED, ids=IDS + GENERALISED_IDS)
def test_names_are_kept_and_columns_found_by_them(estimator):
    """What ``check_dataframe_column_names_consistency`` asks for, but for the order and for columns that are extra."""
    model, labels = clone(estimator), (y > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(FRAME, labels).predict(FRAME)
    assert model.feature_names_in_.tolist() == NAMES
    expected = model.predict(FRAME)
    np.testing.assert_allclose(model.predict(FRAME[NAMES[::-1]].assign(z=0)), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="column 'b' of group 'b' is missing"):
        model.predict(FRAME.rename(columns={"b": "B"}))
    with pytest.warns(UserWarning, match=f"X does not have valid feature names, but {type(model).__name__}"):
        model.predict(X)
    with pytest.warns(UserWarning, match=f"X has feature names, but {type(model).__name__} was fitted without"):
        clone(estimator).fit(X, labels).predict(FRAME)


@pytest.mark.parametrize("estimator", GENERALISED[1:], ids=GENERALISED_IDS[1:])
def test_a_classifier_and_nothing_else(estimator):
    assert is_classifier(estimator)
    tags = get_tags(estimator)
    assert tags.classifier_tags.multi_class
    assert not tags.classifier_tags.multi_label
    assert tags.regressor_tags is None
    assert tags.transformer_tags is None
    assert tags.input_tags.sparse
    assert tags.target_tags.required
    assert not tags.target_tags.multi_output
    assert has_fit_parameter(estimator, "sample_weight")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=IDS)
def test_a_regressor_and_nothing_else(estimator):
    """Neither transformer (set_output, get_feature_names_out do not apply) nor classifier nor clusterer."""
    assert is_regressor(estimator)
    tags = get_tags(estimator)
    assert tags.estimator_type == "regressor"
    assert tags.transformer_tags is None
    assert tags.classifier_tags is None
    for method in ("transform", "set_output", "get_feature_names_out", "predict_proba", "decision_function"):
        assert not hasattr(estimator, method)
    assert tags.input_tags.sparse
    assert not tags.input_tags.allow_nan
    assert tags.target_tags.multi_output
    assert tags.target_tags.required
    assert not tags.non_deterministic
    assert has_fit_parameter(estimator, "sample_weight")


@pytest.mark.parametrize("estimator", ESTIMATORS + GENERALISED, ids=IDS + GENERALISED_IDS)
def test_every_parameter_is_constrained_and_documented(estimator):
    parameters = set(estimator.get_params(deep=False))
    assert parameters == set(estimator._parameter_constraints)
    assert all(name in type(estimator).__doc__ for name in parameters)


@pytest.mark.parametrize(
    ("estimator", "parameter", "value"),
    [
        (AnytimeRegressor(), "rule", "best"),
        (AnytimeRegressor(), "schedule", "tripling"),
        (AnytimeRegressor(), "schedule", 3),
        (AnytimeRegressor(), "alpha", -1.0),
        (AnytimeRegressor(), "alpha", np.nan),
        (AnytimeRegressor(), "alpha", np.inf),
        (AnytimeRegressor(), "cost_sensitive", "yes"),
        (AnytimeRegressor(), "max_cost", -1),
        (AnytimeRegressor(), "max_cost", np.nan),
        (AnytimeRegressor(), "max_groups", 0),
        (AnytimeRegressor(), "max_groups", 1.5),
        (AnytimeRegressor(), "min_gain", 1.5),
        (AnytimeRegressor(), "feature_groups", "abc"),
        (AnytimeRegressor(), "costs", 3),
        (AnytimeRegressorCV(), "alphas", []),
        (AnytimeRegressorCV(), "alphas", [1.0, -1.0]),
        (AnytimeRegressorCV(), "alphas", [np.nan]),
        (AnytimeRegressorCV(), "alphas", [[1.0]]),
        (AnytimeRegressorCV(), "alphas", 0.1),
        (AnytimeRegressorCV(), "cv", "five"),
        (AnytimeRegressorCV(), "cv", 1),
        (AnytimeRegressorCV(), "stop_at_best", "yes"),
        (GroupLassoPath(), "alpha", -1.0),
        (GroupLassoPath(), "refit", "yes"),
        (GroupLassoPath(), "n_lambdas", 0),
        (GroupLassoPath(), "lambda_ratio", 1.0),
        (GroupLassoPath(), "tol", 0.0),
    ],
)
def test_bad_parameters_are_found_at_fit(estimator, parameter, value):
    changed = clone(estimator).set_params(**{parameter: value})
    with pytest.raises(ValueError, match=r"."):
        changed.fit(X, y)
    assert not hasattr(changed, "coef_")


def test_a_schedule_class_is_no_schedule():
    with pytest.raises((TypeError, ValueError), match=r"schedule"):
        AnytimeRegressor(schedule=Doubling).fit(X, y)


# -- round trips ---------------------------------------------------------------------------------------------


def by_joblib(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


@pytest.mark.parametrize("estimator", FULL)
@pytest.mark.parametrize("trip", [lambda m: pickle.loads(pickle.dumps(m)), by_joblib], ids=["pickle", "joblib"])
def test_saved_models_predict_the_same(estimator, trip):
    model = clone(estimator).fit(FRAME, y)
    back = trip(model)
    for keywords in ({}, {"budget": 2}, {"stage": 1}, {"available": [model.sequence_.groups[-1]]}):
        assert np.array_equal(back.predict(FRAME, **keywords), model.predict(FRAME, **keywords))
    assert back.sequence_.groups == model.sequence_.groups
    assert str(back.sequence_) == str(model.sequence_)
    unfitted = trip(estimator)
    assert np.array_equal(clone(unfitted).fit(FRAME, y).coef_path_, model.coef_path_)


@pytest.mark.parametrize("estimator", FULL)
def test_clones_are_equal_and_unfitted(estimator):
    model = clone(estimator).fit(FRAME, y)
    copied = clone(model)
    assert not hasattr(copied, "coef_")
    for name, value in model.get_params(deep=False).items():
        assert np.all(getattr(copied, name) == value) or repr(getattr(copied, name)) == repr(value)
    assert np.array_equal(copied.fit(FRAME, y).coef_path_, model.coef_path_)


def test_set_params_takes_every_parameter():
    source = FULL[0]
    target = AnytimeRegressor().set_params(**source.get_params(deep=False))
    assert target.get_params(deep=False) == source.get_params(deep=False)
    assert target.schedule == Doubling(c_min=2.0)
    assert target.feature_groups == GROUPS
    with pytest.raises(ValueError, match="Invalid parameter 'groups'"):
        target.set_params(groups=GROUPS)


@pytest.mark.parametrize("estimator", FULL)
def test_fit_twice_is_fit_once(estimator):
    model = clone(estimator)
    first = model.fit(FRAME, y).coef_path_.copy()
    other = model.fit(FRAME[::-1], -y[::-1]).coef_path_
    assert not np.array_equal(first, other)
    assert np.array_equal(model.fit(FRAME, y).coef_path_, first)


# -- composition ---------------------------------------------------------------------------------------------


def test_grid_search_over_alpha_and_rule():
    search = GridSearchCV(AnytimeRegressor(GROUPS), {"alpha": [1e-4, 1e2], "rule": ["forward", "omp"]}, cv=3).fit(
        FRAME, y
    )
    assert search.best_params_["alpha"] == 1e-4
    assert search.best_score_ > 0.5
    assert search.best_estimator_.feature_groups == GROUPS
    assert search.cv_results_["mean_test_score"].shape == (4,)


def test_grid_search_over_groups():
    grid = {"feature_groups": [GROUPS, None, ["p", "p", "q", "q", "q"]], "schedule": ["greedy", Doubling(c_min=3.0)]}
    search = GridSearchCV(AnytimeRegressor(), grid, cv=3).fit(FRAME, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=IDS)
def test_pipeline_and_cross_validation(estimator):
    pipeline = make_pipeline(StandardScaler(), clone(estimator))
    scores = cross_val_score(pipeline, X, y, cv=4)
    assert scores.shape == (4,)
    assert scores.min() > 0.4
    np.testing.assert_allclose(pipeline.fit(X, y).predict(X), clone(estimator).fit(X, y).predict(X), rtol=1e-8)
    np.testing.assert_allclose(pipeline.predict(X, stage=0), y.mean())


def test_pandas_output_keeps_names_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), AnytimeRegressor(GROUPS)).fit(FRAME, y)
    assert pipeline[-1].feature_names_in_.tolist() == NAMES
    assert pipeline.predict(FRAME, budget=1).shape == (60,)


def test_the_budget_can_be_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = AnytimeRegressor(GROUPS).set_predict_request(budget=True).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.set_params(standardscaler=StandardScaler().set_output(transform="pandas"))
        pipeline[0].set_fit_request(sample_weight=False)
        pipeline.fit(FRAME, y, sample_weight=np.ones(60))
        at_budget = pipeline.predict(FRAME, budget=1)
        assert np.array_equal(at_budget, pipeline[-1].predict(pipeline[:-1].transform(FRAME), budget=1))
        assert not np.array_equal(at_budget, pipeline.predict(FRAME))
        requests = pipeline[-1].get_metadata_routing().predict.requests
        assert requests == {"budget": True, "stage": None, "available": None}


def test_score_is_r2_and_takes_weights():
    model = AnytimeRegressor(GROUPS).fit(FRAME, y)
    residual = y - model.predict(FRAME)
    np.testing.assert_allclose(model.score(FRAME, y), 1 - residual.var() / y.var(), rtol=1e-6)
    assert model.score(FRAME, y, sample_weight=np.arange(60)) != model.score(FRAME, y)


def test_cross_validate_hands_out_fitted_models():
    found = cross_validate(AnytimeRegressorCV(GROUPS, alphas=[1e-3, 1.0], cv=2), FRAME, y, cv=3, return_estimator=True)
    assert [e.alpha_ for e in found["estimator"]] == [1e-3] * 3


@pytest.mark.parametrize("cv", [None, 3, KFold(4), [(np.arange(30), np.arange(30, 60))]], ids=repr)
def test_cv_takes_what_scikit_learn_takes(cv):
    model = AnytimeRegressorCV(GROUPS, alphas=[1e-4, 10.0], cv=cv).fit(FRAME, y)
    folds = {None: 5}.get(cv, 3) if cv is None or cv == 3 else cv.get_n_splits() if hasattr(cv, "split") else 1
    assert model.cv_scores_.shape == (2, folds)
    assert model.alpha_ == 1e-4
    np.testing.assert_allclose(model.coef_path_, AnytimeRegressor(GROUPS, alpha=1e-4).fit(FRAME, y).coef_path_)


# -- representations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *FULL])
def test_reprs_of_estimators(estimator):
    assert repr(estimator).startswith(type(estimator).__name__ + "(")
    for model in (clone(estimator), clone(estimator).fit(FRAME, y)):
        page = model._repr_html_()
        assert type(estimator).__name__ in page
    assert "Doubling(c_min=2.0" in repr(FULL[0])


def test_reprs_of_sequences_are_escaped():
    groups = FeatureGroups({"<b>bold</b>": ["a", "b"], 'q"&': ["c"], "r": ["d", "e"]}, [1, 2, 3])
    model = AnytimeRegressor(groups).fit(FRAME, y)
    page = model.sequence_._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "q&quot;&amp;" in page
    assert page.count("<tr>") == 4
    assert "<b>bold</b>" in str(model.sequence_)
    assert "<b>bold" not in model._repr_html_()
    assert repr(model.sequence_).startswith("GroupSequence(3 stages, total cost 6)")


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_sequences_become_frames(backend):
    sequence = AnytimeRegressor(GROUPS).fit(FRAME, y).sequence_
    frame = sequence.to_frame(backend)
    assert type(frame).__module__.split(".")[0] == backend
    columns = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert columns == ["step", "group", "cost", "cumulative_cost", "gain", "explained"]
    assert np.asarray(frame["group"]).tolist() == list(sequence.groups)
    np.testing.assert_allclose(np.asarray(frame["cumulative_cost"]), np.cumsum(sequence.costs))


def test_fitted_models_keep_their_groups_and_costs():
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = AnytimeRegressor({"a": [2, 0], "b": [1]}, costs={"a": 2.0, "b": 3.0}).fit(X, X[:, 0])
    assert model.feature_groups_ == FeatureGroups({"a": [2, 0], "b": [1]}, costs=[2, 3])
    alone = AnytimeRegressor().fit(X, X[:, 0])
    assert alone.feature_groups_.names == ("0", "1", "2")


def test_subclasses_keep_attributes_of_their_own():
    class Mine(AnytimeRegressor):
        def fit(self, X, y=None, sample_weight=None):
            self.scale_ = np.abs(X).max()
            return super().fit(X / self.scale_, y, sample_weight)

    X = np.random.default_rng(0).normal(size=(30, 3))
    model = Mine().fit(X, X[:, 0])
    assert model.scale_ == np.abs(X).max()
    assert model.set_params(loss="poisson").fit(X, np.exp(X[:, 0])).scale_ == np.abs(X).max()
    assert not hasattr(model, "moments_")


def test_warnings_are_at_the_line_of_the_caller():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model, labels = AnytimeRegressor(max_groups=1).fit(X, X[:, 0]), X[:, 1] > 0
    copied = np.hstack([X, X * (1 + 1e-13)])
    calls = [
        lambda: model.predict(X, available=["2"]),
        lambda: model.score(X, X[:, 0], available=["2"]),
        lambda: AnytimeRegressor(alpha=0).partial_fit(copied, X[:, 0]),
        lambda: GroupLassoPath(alpha=0).fit_moments(Moments.from_data(copied, X[:, 0])),
        lambda: AnytimeClassifier().fit(X, labels, np.append(1e17, np.ones(29))),
        lambda: AnytimeClassifierCV(alphas=[0.0], cv=2).fit(X, labels),
    ]
    for call in calls:
        with pytest.warns(Warning) as seen:  # noqa: PT030
            call()
        assert {warning.filename for warning in seen} == {__file__}, seen[0].message
