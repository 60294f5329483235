"""AnytimeClassifier and AnytimeClassifierCV: labels, weights, probabilities, choice of alpha, and hard inputs."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.class_weight import compute_sample_weight

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    FeatureGroups,
    Moments,
    budget_curve,
    compare,
    cross_val_budget_curve,
    open_data,
)

GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4]}
COSTS = {"a": 1.0, "b": 2.0, "c": 4.0}
LABELS = {2: np.array(["no", "yes"]), 3: np.array(["cat", "dog", "eel"])}


def data(P, n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) + np.arange(5)
    scores = (X - np.arange(5)) @ rng.standard_normal((5, P))
    codes = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    codes[:P] = range(P)
    return X, LABELS[P][codes]


def fitted(P, **settings):
    X, y = data(P)
    settings = {"alpha": 1e-2, **settings}
    return AnytimeClassifier(GROUPS, COSTS, **settings).fit(X, y), X, y


# -- what is predicted ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [{}, {"stage": 0}, {"stage": 2}, {"budget": 3}, {"available": ["c", "b"]}])
@pytest.mark.parametrize("P", [2, 3])
def test_predictions_agree_with_each_other(P, choice):
    model, X, _ = fitted(P)
    assert model.classes_.tolist() == LABELS[P].tolist()
    scores = model.decision_function(X, **choice)
    p = model.predict_proba(X, **choice)
    assert p.shape == (len(X), P)
    assert scores.shape == ((len(X),) if P == 2 else (len(X), P))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(np.log(p), model.predict_log_proba(X, **choice), rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X, **choice), model.classes_[p.argmax(axis=1)])
    if P == 2:
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-scores)), rtol=1e-12)
    else:
        np.testing.assert_allclose(p, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), rtol=1e-12)
        np.testing.assert_allclose(scores.sum(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("P", [2, 3])
def test_staged_predictions_are_those_of_the_stages(P):
    model, X, _ = fitted(P)
    for name in ("predict", "predict_proba", "decision_function"):
        staged = list(getattr(model, f"staged_{name}")(X))
        assert len(staged) == 3
        for j, found in enumerate(staged):
            expected = getattr(model, name)(X, stage=j + 1)
            if name == "predict":
                np.testing.assert_array_equal(found, expected)
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_staged_log_probabilities():
    model, X, _ = fitted(3)
    for j, found in enumerate(model.staged_predict_log_proba(X)):
        np.testing.assert_allclose(found, model.predict_log_proba(X, stage=j + 1), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("P", [2, 3])
def test_stage_0_is_the_class_frequencies(P, weighted):
    X, y = data(P)
    weight = np.random.default_rng(1).uniform(0, 2, len(X)) if weighted else None
    model = AnytimeClassifier(GROUPS, COSTS).fit(X, y, sample_weight=weight)
    shares = [np.average(y == label, weights=weight) for label in LABELS[P]]
    np.testing.assert_allclose(model.predict_proba(X, stage=0), np.tile(shares, (len(X), 1)), rtol=1e-10)
    np.testing.assert_array_equal(model.predict_proba(X, budget=0.5), model.predict_proba(X, stage=0))


def test_log_probabilities_far_out_are_finite():
    for P in (2, 3):
        model, X, _ = fitted(P)
        found = model.predict_log_proba(1e6 * X)
        assert np.isfinite(found).all()
        assert found.min() < -1000


def test_probabilities_of_both_classes_keep_their_digits():
    """1 − p has none left when p is near one."""
    model, X, _ = fitted(2)
    far = X * 40
    np.testing.assert_allclose(model.predict_proba(far), np.exp(model.predict_log_proba(far)), rtol=1e-9)


@pytest.mark.parametrize("P", [2, 3])
def test_shapes(P):
    model, X, y = fitted(P)
    extra = () if P == 2 else (P,)
    assert model.coef_path_.shape == (3, *extra, 5)
    assert model.intercept_path_.shape == (3, *extra)
    assert model.coef_.shape == (*extra, 5)
    assert np.shape(model.intercept_) == extra
    assert model.score(X, y) == np.mean(model.predict(X) == y)


@pytest.mark.parametrize(
    "labels", [[False, True], [-1, 1], [3, 7], [1.0, 2.0], ["b", "a"], np.array(["x", "y"], dtype=object)]
)
def test_labels_of_every_kind(labels):
    X, y = data(2)
    coded = np.asarray(labels)[(y == "yes").astype(int)]
    model = AnytimeClassifier(GROUPS, COSTS).fit(X, coded)
    assert set(model.predict(X)) == set(np.asarray(labels).tolist())
    assert model.predict(X).dtype == coded.dtype
    assert model.classes_.tolist() == sorted(np.asarray(labels).tolist())
    sign = 1 if model.classes_[1] == np.asarray(labels)[1] else -1
    np.testing.assert_allclose(model.coef_, sign * AnytimeClassifier(GROUPS, COSTS).fit(X, y).coef_, rtol=1e-7)


# -- weights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("class_weight", ["balanced", {"cat": 2.0, "dog": 0.5, "eel": 1.0}])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_weights_are_sample_weights(class_weight, weighted):
    X, y = data(3)
    weight = np.random.default_rng(1).uniform(0.1, 2, len(X)) if weighted else None
    by_class = compute_sample_weight(class_weight, y)
    model = AnytimeClassifier(GROUPS, COSTS, class_weight=class_weight).fit(X, y, sample_weight=weight)
    other = AnytimeClassifier(GROUPS, COSTS).fit(X, y, sample_weight=by_class if weight is None else by_class * weight)
    assert model.order_.tolist() == other.order_.tolist()
    np.testing.assert_allclose(model.coef_path_, other.coef_path_, rtol=1e-9, atol=1e-12)
    if class_weight == "balanced" and not weighted:
        np.testing.assert_allclose(model.predict_proba(X[:1], stage=0), [[1 / 3] * 3], rtol=1e-12)


@pytest.mark.parametrize("rule", ["forward", "omp", "score"])
@pytest.mark.parametrize("P", [2, 3])
def test_weights_are_repetitions(P, rule):
    X, y = data(P, n=60)
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    counts[:P] = 1
    weighted = AnytimeClassifier(GROUPS, COSTS, rule=rule).fit(X, y, sample_weight=counts)
    repeated = AnytimeClassifier(GROUPS, COSTS, rule=rule).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert weighted.order_.tolist() == repeated.order_.tolist()
    np.testing.assert_allclose(weighted.coef_path_, repeated.coef_path_, rtol=1e-6, atol=1e-8)


def test_a_class_without_weight_is_an_error():
    X, y = data(3)
    with pytest.raises(ValueError, match=r"class 'dog' has no sample of positive weight"):
        AnytimeClassifier(GROUPS).fit(X, y, sample_weight=(y != "dog").astype(float))
    with pytest.raises(ValueError, match="positive weight"):
        AnytimeClassifier(GROUPS, class_weight={"cat": 1, "dog": 0, "eel": 1}).fit(X, y)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_a_bad_class_weight_is_named(value):
    X, y = data(3)
    with pytest.raises(ValueError, match=r"weight"):
        AnytimeClassifier(GROUPS, class_weight={"cat": 1, "dog": value, "eel": 1}).fit(X, y)


# -- cross-validation -----------------------------------------------------------------------------------------


def by_hand(X, y, alpha, splits, weight=None, **settings):
    """Mean over budgets of 1 − loss/loss_0 on the held-out rows: a step curve from cost 0 to the total."""
    out = []
    for train, test in splits:
        w = None if weight is None else weight[train]
        model = AnytimeClassifier(GROUPS, COSTS, alpha=alpha, **settings).fit(X[train], y[train], sample_weight=w)
        codes = np.searchsorted(model.classes_, y[test])

        def loss(stage, model=model, codes=codes, test=test):
            log_p = model.predict_log_proba(X[test], stage=stage)[np.arange(len(test)), codes]
            return -np.average(log_p, weights=None if weight is None else weight[test])

        losses = np.array([loss(j) for j in range(4)])
        ends = np.append(np.cumsum(model.sequence_.costs), 7.0)
        starts = np.concatenate([[0], ends[:-1]])
        out.append(np.sum((1 - losses / losses[0]) * (ends - starts)) / 7.0)
    return out


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("P", [2, 3])
def test_cross_validation_equals_refits_fold_by_fold(P, weighted):
    X, y = data(P)
    weight = np.random.default_rng(1).uniform(0.1, 2, len(X)) if weighted else None
    alphas = [1e-4, 1e-2, 1.0]
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    search = AnytimeClassifierCV(GROUPS, COSTS, alphas=alphas, cv=cv, rule="omp").fit(X, y, sample_weight=weight)
    truth = [by_hand(X, y, a, cv.split(X, y), weight, rule="omp") for a in alphas]
    np.testing.assert_allclose(search.cv_scores_, truth, rtol=1e-6, atol=1e-9)
    assert search.alpha_ == alphas[int(np.argmax(np.mean(truth, axis=1)))]
    whole = AnytimeClassifier(GROUPS, COSTS, alpha=search.alpha_, rule="omp").fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(search.coef_path_, whole.coef_path_)
    np.testing.assert_array_equal(search.predict_proba(X, budget=3), whole.predict_proba(X, budget=3))


def test_a_class_missing_in_a_training_fold_is_an_error():
    X, y = data(2, n=30)
    y = np.where(np.arange(30) == 4, "yes", "no")
    with pytest.raises(ValueError, match=r"class 'yes' is missing in the training set of fold 0"):
        AnytimeClassifierCV(GROUPS, cv=KFold(3)).fit(X, y)


def test_a_class_missing_in_a_held_out_fold_is_no_error():
    X, y = data(3, n=60)
    y = np.where(y == "eel", "cat", y)
    y[[5, 30]] = "eel"
    search = AnytimeClassifierCV(GROUPS, cv=KFold(3), alphas=[1e-2, 1e-1]).fit(X, y)
    assert np.isfinite(search.cv_scores_).all()


def test_cross_validation_with_class_weights():
    X, y = data(2)
    weight = compute_sample_weight("balanced", y)
    ours = AnytimeClassifierCV(GROUPS, COSTS, class_weight="balanced", cv=KFold(3), alphas=[1e-3, 1e-1]).fit(X, y)
    other = AnytimeClassifierCV(GROUPS, COSTS, cv=KFold(3), alphas=[1e-3, 1e-1]).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.cv_scores_, other.cv_scores_, rtol=1e-8)


# -- hard inputs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["forward", "omp", "score", "no-whiten", "single"])
@pytest.mark.parametrize("P", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_perfect_separation_without_ridge_warns_and_stays_finite(P, rule, seed):
    X = np.random.default_rng(seed).standard_normal((100 * (1 + seed), 4))
    y = LABELS[P][X[:, :P].argmax(axis=1)]
    with pytest.warns(ConvergenceWarning, match="separable"):
        model = AnytimeClassifier(alpha=0.0, rule=rule).fit(X, y)
    assert np.isfinite(model.coef_path_).all()
    losses = [log_loss(y, model.predict_proba(X, stage=stage)) for stage in range(5)]
    assert np.isfinite(losses).all()
    assert np.diff(losses).max() <= 1e-9  # a step at the tolerance made stage 4 worse than stage 3
    assert model.score(X, y) == 1


def test_separation_of_wide_data_without_ridge_warns():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 40)), rng.integers(0, 2, 20)
    with pytest.warns(ConvergenceWarning, match="separable"):
        model = AnytimeClassifier(np.arange(40).reshape(8, 5).tolist(), alpha=0.0).fit(X, y)
    assert np.isfinite(model.coef_path_).all()


@pytest.mark.parametrize("alpha", [1e-5, 1e-8])
def test_perfect_separation_with_ridge_is_an_ordinary_problem(alpha):
    X = np.random.default_rng(0).standard_normal((100, 4))
    y = X[:, 0] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AnytimeClassifier(alpha=alpha).fit(X, y)
    Xs = (X - X.mean(axis=0)) / X.std(axis=0)
    p = model.predict_proba(X)[:, 1]
    assert np.abs(Xs.T @ (p - y) / 100 + alpha * model.coef_ * X.std(axis=0)).max() < 1e-9
    assert model.score(X, y) == 1


def test_one_class_only_is_an_error():
    X, _ = data(2)
    for estimator in (AnytimeClassifier(GROUPS), AnytimeClassifierCV(GROUPS)):
        with pytest.raises(ValueError, match="only one class, 'no'"):
            estimator.fit(X, ["no"] * len(X))
        with pytest.raises(NotFittedError):
            estimator.predict(X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (lambda X: X[:, 0], "continuous"),
        (lambda X: np.column_stack([X[:, 0] > 0, X[:, 1] > 0]), "1d array"),
        (lambda X: np.where(X[:, 0] > 0, np.nan, 1.0), "NaN"),
        (lambda X: np.where(X[:, 0] > 0, None, "a"), r"y"),
        (lambda X: np.array(["a", 1] * (len(X) // 2), dtype=object), r"y"),
        (lambda X: (X[:, 0] > 0)[:-1], "inconsistent numbers of samples"),
        (lambda X: None, "requires y"),
    ],
    ids=["continuous", "two columns", "nan", "None", "mixed", "short", "no y"],
)
def test_labels_of_the_wrong_kind(y, message):
    X, _ = data(2)
    with pytest.raises(ValueError, match=message):
        AnytimeClassifier(GROUPS).fit(X, y(X))


def with_label(label, row=7):
    _, y = data(2)
    y = y.astype(object)
    y[row] = label
    return y


MISSING = {
    "None": lambda: with_label(None),
    "NaN": lambda: with_label(np.nan),
    "NA": lambda: with_label(pd.NA),
    "NaT": lambda: with_label(pd.NaT),
    "list with None": lambda: with_label(None).tolist(),
    "list with NaN": lambda: with_label(float("nan")).tolist(),
    "pandas objects": lambda: pd.Series(with_label(None), dtype=object),
    "pandas strings": lambda: pd.Series(with_label(None), dtype="string"),
    "pandas categories": lambda: pd.Series(with_label(None), dtype="category"),
    "pandas flags": lambda: pd.Series([True, False] * 60, dtype="boolean").mask(np.arange(120) == 7),
    "pandas whole numbers": lambda: pd.Series([1, 2] * 60, dtype="Int64").mask(np.arange(120) == 7),
    "polars": lambda: pl.Series(with_label(None).tolist()),
    "arrow": lambda: pa.chunked_array([pa.array(with_label(None).tolist())]),
    "numbers": lambda: np.where(np.arange(120) == 7, np.nan, np.arange(120) % 2),
    "dates": lambda: np.where(np.arange(120) == 7, np.datetime64("NaT", "D"), np.datetime64("2020-01-01", "D")),
    "masked": lambda: np.ma.array(data(2)[1], mask=np.arange(120) == 7),
    "masked numbers": lambda: np.ma.array(np.arange(120) % 2, mask=np.arange(120) == 7),
}


@pytest.mark.parametrize("kind", MISSING)
def test_a_label_that_is_missing_is_an_error_that_names_its_row(kind):
    X, y = data(2)
    missing = MISSING[kind]()
    fits = [
        lambda: AnytimeClassifier(GROUPS).fit(X, missing),
        lambda: AnytimeClassifierCV(GROUPS, cv=2).fit(X, missing),
        lambda: AnytimeClassifier(rule="omp").fit(open_data((X, missing), chunk_rows=50)),
        lambda: AnytimeClassifier(rule="omp").fit(open_data(lambda: iter([(X, missing)]))),
        lambda: cross_val_budget_curve(AnytimeClassifier(GROUPS), X, missing, cv=2),
        lambda: compare({"forward": AnytimeClassifier(GROUPS)}, X, missing, cv=2),
        lambda: budget_curve(AnytimeClassifier(GROUPS, alpha=0.1).fit(X, y), X, missing, metric="accuracy"),
    ]
    for fit in fits:
        with pytest.raises(ValueError, match=r"Input y contains (None|NaN|NaT|<NA>|a masked value), first in row 7$"):
            fit()


def test_rows_of_missing_labels_are_counted_from_the_start_of_the_data():
    X, _ = data(2)
    source = open_data((X, with_label(None, 77)), chunk_rows=50)
    with pytest.raises(ValueError, match="rows 50 to 99: Input y contains None, first in row 77"):
        AnytimeClassifier(rule="omp").fit(source)


def test_an_empty_text_in_an_array_is_a_label():
    """Arrays have other ways to say that a label is missing."""
    X, y = data(2)
    y = np.where(y == "no", "", "yes")
    assert AnytimeClassifier(GROUPS, alpha=0.1).fit(X, y).classes_.tolist() == ["", "yes"]
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    found = AnytimeClassifier(rule="omp", alpha=0.1).fit(open_data(frame, "y"))
    assert found.classes_.tolist() == ["", "yes"]


def test_targets_and_weights_that_are_masked_are_missing():
    X, _ = data(2)
    y, mask = X[:, 0] + X[:, 1], np.arange(120) == 7
    masked = np.ma.array(y, mask=mask)
    for fit in (AnytimeRegressor().fit, Moments.from_data, lambda X, y: AnytimeRegressor().fit(open_data((X, y)))):
        with pytest.raises(ValueError, match="Input y contains a masked value, first in row 7"):
            fit(X, masked)
    weight = np.ma.array(np.ones(120), mask=mask)
    for fit in (AnytimeRegressor().fit, lambda *parts: AnytimeRegressor().fit(open_data(parts))):
        with pytest.raises(ValueError, match="sample_weight is a masked array with masked values"):
            fit(X, y, weight)
    with pytest.raises(ValueError, match="X is a masked array with masked values"):
        open_data((np.ma.array(X, mask=X > 3), y))


def test_a_query_that_is_missing_is_an_error_that_names_its_row():
    X, _ = data(2)
    grades = (X[:, 0] > 0).astype(float)
    model = AnytimeRegressor().fit(X, grades)
    for qid in (np.where(np.arange(120) == 7, np.nan, 1.0), np.array([None if k == 7 else "q" for k in range(120)])):
        with pytest.raises(ValueError, match=r"Input qid contains (NaN|None), first in row 7"):
            budget_curve(model, X, grades, metric="ndcg@5", qid=qid)


def test_counts():
    X, _ = data(2)
    rng = np.random.default_rng(0)
    model = AnytimeRegressor(GROUPS, loss="poisson")
    with pytest.raises(ValueError, match="negative"):
        model.fit(X, rng.poisson(1.0, len(X)) - 1)
    with pytest.raises(ValueError, match="zero everywhere"):
        model.fit(X, np.zeros(len(X)))
    last = np.arange(len(X)) == 0
    with pytest.raises(ValueError, match="zero"):
        model.fit(X, last.astype(float), sample_weight=(~last).astype(float))
    with pytest.raises(ValueError, match="squared error only"):
        model.fit_moments(Moments.from_data(X, np.ones(len(X))))
    y = np.where(rng.random(len(X)) < 0.9, 0.0, rng.poisson(2.0, len(X)))
    assert np.isfinite(model.fit(X, y).coef_path_).all()
    np.testing.assert_allclose(model.predict(X, stage=0), y.mean(), rtol=1e-9)
    np.testing.assert_allclose(model.predict(X).mean(), y.mean(), rtol=1e-8)


def test_fit_moments_after_a_poisson_fit_predicts_squared_error():
    X, _ = data(2)
    y = np.random.default_rng(0).poisson(2.0, len(X)).astype(float)
    model = AnytimeRegressor(GROUPS, loss="poisson").fit(X, y).set_params(loss="squared_error")
    expected = AnytimeRegressor(GROUPS).fit(X, y).predict(X)
    np.testing.assert_allclose(model.fit_moments(Moments.from_data(X, y)).predict(X), expected, rtol=1e-8)


def test_a_changed_loss_does_not_change_a_fitted_model():
    X, _ = data(2)
    y = np.random.default_rng(0).poisson(2.0, len(X)).astype(float)
    model = AnytimeRegressor(GROUPS, loss="poisson").fit(X, y)
    before = model.predict(X)
    np.testing.assert_array_equal(model.set_params(loss="squared_error").predict(X), before)


def test_a_failed_fit_leaves_the_old_model():
    model, X, _ = fitted(2)
    before = model.predict_proba(X)
    for bad in (["no"] * len(X), np.linspace(0, 1, len(X))):
        with pytest.raises(ValueError, match=r"."):
            model.fit(X, bad)
        np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_refit_on_other_classes():
    model, X, _ = fitted(3)
    X, y = data(2)
    model.fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.predict_proba(X).shape == (len(X), 2)
    assert model.coef_.shape == (5,)


def test_columns_that_a_budget_does_not_need_may_be_missing():
    for P in (2, 3):
        model, X, _ = fitted(P)
        first = model.sequence_.groups[0]
        price = model.sequence_.costs[0]
        holes = np.full_like(X, np.nan)
        holes[:, GROUPS[first]] = X[:, GROUPS[first]]
        np.testing.assert_array_equal(model.predict_proba(holes, budget=price), model.predict_proba(X, stage=1))
        np.testing.assert_array_equal(model.predict(holes, available=[first]), model.predict(X, stage=1))
        with pytest.raises(ValueError, match="NaN"):
            model.predict_proba(holes)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames(make):
    X, y = data(3)
    names = list("pqrst")
    frame = make({name: X[:, d] for d, name in enumerate(names)})
    groups = FeatureGroups({k: [names[d] for d in v] for k, v in GROUPS.items()}, COSTS)
    labels = pd.Series(y) if make is pd.DataFrame else pl.Series(y)
    model = AnytimeClassifier(groups, alpha=1e-2).fit(frame, labels)
    plain, _, _ = fitted(3)
    np.testing.assert_allclose(model.coef_path_, plain.coef_path_, rtol=1e-12, atol=1e-14)
    first = model.sequence_.groups[0]
    part = frame[[names[d] for d in GROUPS[first]]]
    np.testing.assert_allclose(model.predict_proba(part, stage=1), plain.predict_proba(X, stage=1), rtol=1e-12)


def test_pandas_categories_as_labels():
    X, y = data(3)
    model = AnytimeClassifier(GROUPS).fit(X, pd.Series(y, dtype="category"))
    assert model.classes_.tolist() == LABELS[3].tolist()


def test_sparse_input():
    X, y = data(3)
    model = AnytimeClassifier(GROUPS, alpha=1e-2).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(model.predict_proba(sparse.csc_array(X)), model.predict_proba(X), rtol=1e-10)


def test_many_classes_with_one_sample_each():
    X, _ = data(2)
    model = AnytimeClassifier(GROUPS).fit(X[:6], list("abcdef"))
    assert model.predict(X[:6]).tolist() == list("abcdef")
    assert np.isfinite(model.coef_path_).all()


def test_conjugate_gradients_find_the_same_model(monkeypatch):
    X, y = data(3)
    direct = AnytimeClassifier(GROUPS, COSTS, alpha=1e-3, rule="omp").fit(X, y)
    monkeypatch.setattr("budgetline.glm.newton.DIRECT_SIZE", 1)
    iterative = AnytimeClassifier(GROUPS, COSTS, alpha=1e-3, rule="omp").fit(X, y)
    np.testing.assert_allclose(iterative.coef_path_, direct.coef_path_, atol=1e-7)


def test_a_tolerance_that_would_be_ignored_is_refused():
    X, _ = data(2)
    for fit in (lambda m: m.fit(X, X[:, 0]), lambda m: m.fit_moments(Moments.from_data(X, X[:, 0]))):
        with pytest.raises(ValueError, match="tol=1e-06 would be ignored"):
            fit(AnytimeRegressor(tol=1e-6))
