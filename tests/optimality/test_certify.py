"""What may be certified and what not: models, pipelines, frames, few groups, strange targets, wrong arguments."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from certifying import certify
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from truth import Problem, check_verified, make

import budgetline as bl
from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, Moments

SHORT = 0.02
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6)) @ (np.eye(6) + 0.2 * RNG.standard_normal((6, 6)))
y = X @ np.array([1.0, 2.0, 0.0, 0.5, 1.0, 3.0]) + RNG.standard_normal(60)
ALPHA = 1e-5


def truth(groups, costs, alpha=ALPHA, data=X, target=y):
    return Problem(data, target[:, None], np.ones(len(data)), tuple(map(tuple, groups)), np.array(costs), alpha)


SINGLE = truth([[d] for d in range(6)], np.ones(6))


def holds(certificate, problem):
    best = np.array([problem.best_at(budget) for budget in certificate.budgets])
    return bool(np.all(certificate.bounds >= best - 1e-12 * problem.null_value))


# -- models ----------------------------------------------------------------------------------------------------


def test_a_model_that_ended_early_with_its_moments():
    model = AnytimeRegressor(max_cost=3).fit(X, y)
    certificate = model.certificate(time_limit=SHORT)
    assert certificate.order.tolist() == model.order_.tolist()
    assert certificate.order.size == 3
    assert holds(certificate, SINGLE)
    assert certificate.at(6).bound == pytest.approx(SINGLE.values[-1], rel=1e-6)
    assert certificate.at(6).achieved == pytest.approx(SINGLE.curve(tuple(model.order_.tolist()))[1][-1])
    certificate.verify(model.moments_)


def without_moments(**settings):
    """A model of wide data knows columns, not moments."""
    wide = np.random.default_rng(1).standard_normal((30, 40))
    target = wide @ np.random.default_rng(2).standard_normal(40)
    groups = [list(range(8 * k, 8 * k + 8)) for k in range(5)]
    model = AnytimeRegressor(groups, [1, 2, 3, 4, 5.0], alpha=0.1, **settings).fit(wide, target)
    model.model_ = replace(model.model_, moments=None)
    return model, wide, target, groups


def test_a_model_without_moments_is_certified_from_its_factor():
    model, wide, target, groups = without_moments()
    certificate = model.certificate(time_limit=SHORT)
    assert holds(certificate, truth(groups, [1, 2, 3, 4, 5.0], 0.1, wide, target))
    certificate.verify(Moments.from_data(wide, target))


def test_a_model_without_moments_that_ended_early_is_refused():
    model, wide, target, groups = without_moments(max_cost=6)
    with pytest.raises(ValueError, match="ended early"):
        model.certificate(time_limit=SHORT)
    certificate = certify(Moments.from_data(wide, target), groups, [1, 2, 3, 4, 5.0], sequence=model.sequence_,
                          alpha=0.1, time_limit=SHORT)  # fmt: skip
    assert certificate.order.tolist() == model.order_.tolist()


@pytest.mark.parametrize("make_model", [bl.AnytimeRegressorCV, bl.GroupLassoPath])
def test_other_estimators(make_model):
    model = make_model().fit(X, y)
    certificate = model.certificate(time_limit=SHORT)
    assert certificate.alpha == getattr(model, "alpha_", model.get_params().get("alpha"))
    assert certificate.order.tolist() == model.order_.tolist()
    certificate.verify(Moments.from_data(X, y))
    assert holds(certificate, truth([[d] for d in range(6)], np.ones(6), certificate.alpha))


def test_pipelines_and_searches():
    pipeline = make_pipeline(StandardScaler(), AnytimeRegressor()).fit(X, y)
    certify(pipeline, time_limit=SHORT).verify(Moments.from_data(StandardScaler().fit_transform(X), y))
    search = GridSearchCV(AnytimeRegressor(), {"alpha": [1e-3, 1e-1]}, cv=3).fit(X, y)
    certificate = certify(search, time_limit=SHORT)
    assert certificate.alpha == search.best_params_["alpha"]
    certificate.verify(Moments.from_data(X, y))


def test_what_is_no_fitted_model_is_refused():
    for wrong in (object(), 3, X, None, "model"):
        with pytest.raises(TypeError, match=type(wrong).__name__):
            certify(wrong)
    with pytest.raises(TypeError, match="Ridge"):
        certify(Ridge().fit(X, y))
    for model in (AnytimeRegressor(), AnytimeClassifier()):
        with pytest.raises(NotFittedError):
            certify(model)
        with pytest.raises(NotFittedError):
            model.certificate()


# -- tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [X, pd.DataFrame(X, columns=list("uvwxyz"))], ids=["array", "frame"])
def test_positions_where_other_columns_are_dropped(table):
    groups = FeatureGroups({"a": [5], "b": [3, 1]}, [1, 2], remainder="drop")
    model = AnytimeRegressor(groups).fit(table, y)
    certificate = model.certificate(time_limit=SHORT)
    problem = truth([[0], [2, 1]], [1.0, 2.0], data=X[:, [5, 1, 3]])
    assert holds(certificate, problem)
    certificate.verify(model.moments_)
    certificate.verify(Moments.from_data(table, y))
    direct = certify(Moments.from_data(table, y), groups, time_limit=SHORT)
    direct.verify(Moments.from_data(table, y))
    assert direct.everything == pytest.approx(certificate.everything, rel=1e-12)


def test_names_where_other_columns_are_dropped():
    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    groups = FeatureGroups({"a": ["z"], "b": ["x", "v"]}, [1, 2], remainder="drop")
    model = AnytimeRegressor(groups).fit(frame, y)
    certificate = model.certificate(time_limit=SHORT)
    certificate.verify(model.moments_)
    certificate.verify(Moments.from_data(frame, y))
    certificate.verify(Moments.from_data(frame[list("zyxwvu")], y))  # names count, not places
    with pytest.raises(ValueError, match="'z'"):
        certificate.verify(Moments.from_data(X, y))
    with pytest.raises(ValueError, match="'z'"):
        certificate.verify(Moments.from_data(frame.rename(columns={"z": "q"}), y))


def single_precision(seed, distance, n=100_000):
    """So many rows that products are taken in float32."""
    rng = np.random.default_rng(seed)
    x, z, other = rng.standard_normal((3, n))
    data = np.column_stack([x, x + distance * z, other]).astype(np.float32)
    target = (z + 0.1 * rng.standard_normal(n)).astype(np.float32)
    problem = truth([[0], [1], [2]], np.ones(3), 0.0, data.astype(float), target.astype(float))
    return problem, Moments.from_data(data, target)


@pytest.mark.filterwarnings("ignore:the moments are ill conditioned")
@pytest.mark.parametrize("distance", [0.1, 0.003])
def test_single_precision(distance):
    for seed in range(4):
        problem, moments = single_precision(seed, distance)
        assert moments.eps > 1e-8
        certificate = certify(moments, problem.feature_groups, alpha=0.0, time_limit=SHORT)
        assert holds(certificate, problem)
        check_verified(certificate, moments)


def test_few_rows_in_single_precision():
    data, target = X.astype(np.float32), y.astype(np.float32)
    moments = Moments.from_data(data, target)
    certificate = certify(moments, time_limit=SHORT)
    problem = truth([[d] for d in range(6)], np.ones(6), data=data.astype(float), target=target.astype(float))
    assert holds(certificate, problem)
    certificate.verify(moments)


@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_any_units_of_the_target_and_of_costs(factor):
    few = X[:, :4]
    reference = certify(Moments.from_data(few, y), None, np.arange(1.0, 5.0), time_limit=60.0)
    moments = Moments.from_data(few, y * factor)
    certificate = certify(moments, None, np.arange(1.0, 5.0) * 1e3, time_limit=60.0)
    certificate.verify(moments)
    np.testing.assert_allclose(certificate.ratios, reference.ratios, atol=1e-3)
    assert certificate.timeliness().achieved == pytest.approx(reference.timeliness().achieved, rel=1e-9)


def test_columns_that_are_far_from_zero():
    moments = Moments.from_data(X * [1, 1e-6, 1e6, 1, 1, 1] + [1e6, 0, 0, 5, -1e4, 1], y)
    certificate = certify(moments, time_limit=SHORT)
    certificate.verify(moments)
    assert holds(certificate, SINGLE) or certificate.everything == pytest.approx(SINGLE.values[-1], rel=1e-6)


# -- edges -----------------------------------------------------------------------------------------------------


def test_one_group():
    moments = Moments.from_data(X, y)
    certificate = certify(moments, {"all": list(range(6))}, [2.0], time_limit=SHORT)
    certificate.verify(moments)
    assert certificate.at(2).ratio == pytest.approx(1)
    assert certificate.at(1.9).bound == pytest.approx(0, abs=1e-9)
    assert certificate.timeliness().ratio == 1


def test_all_groups_are_free():
    moments = Moments.from_data(X, y)
    certificate = certify(moments, None, np.zeros(6), time_limit=SHORT)
    certificate.verify(moments)
    assert certificate.budgets.tolist() == [0.0]
    for stop in (None, 0.0, 3.0):
        assert certificate.timeliness(stop).ratio == pytest.approx(1)
    assert certificate.at(0).ratio == pytest.approx(1)
    assert "100.0%" in str(certificate)


def test_a_constant_target():
    target = np.full(60, 2.5)
    for certificate in (certify(Moments.from_data(X, target), time_limit=SHORT),
                        AnytimeRegressor().fit(X, target).certificate(time_limit=SHORT)):  # fmt: skip
        assert certificate.null_value == certificate.everything == 0
        assert np.all(certificate.bounds == 0)
        assert np.all(certificate.ratios == 1)
        assert certificate.timeliness() == (0, 0, 1)
        assert certificate.at(3) == (0, 0, 1)
        certificate.verify(Moments.from_data(X, target))
        str(certificate)


def test_a_constant_column_and_a_constant_group():
    data = X.copy()
    data[:, 2] = 7.0
    moments = Moments.from_data(data, y)
    for alpha in (0.0, 1e-3):
        certificate = certify(moments, {"a": [0, 1], "constant": [2], "b": [3, 4, 5]}, alpha=alpha, time_limit=SHORT)
        certificate.verify(moments)
        assert holds(certificate, truth([[0, 1], [2], [3, 4, 5]], np.ones(3), alpha, data))


def test_the_table_says_what_the_arrays_say():
    certificate = certify(Moments.from_data(X, y), None, np.arange(1.0, 7.0), time_limit=SHORT)
    frame = certificate.to_frame()
    assert frame.columns.tolist() == ["budget", "achieved", "bound", "certified"]
    np.testing.assert_array_equal(frame["bound"], certificate.bounds)
    np.testing.assert_array_equal(frame["certified"], certificate.ratios)
    assert certificate.total_cost == 21
    assert "budget" in str(certificate)
    assert "<table" in certificate._repr_html_()
    assert "Theorem 3.2" in certificate.notes[-1]
    assert f"{certificate.greedy_promise:.1%}" in certificate.notes[-1]
    assert certificate.at(np.inf).bound == certificate.everything
    for wrong in (-1, np.nan):
        with pytest.raises(ValueError, match="budget"):
            certificate.at(wrong)
    for wrong in (-1, np.nan, np.inf, True):
        with pytest.raises(ValueError, match="stop"):
            certificate.timeliness(wrong)


def test_dependent_columns_are_said():
    problem = make(0, "duplicates", J=4, alpha=0.0)
    data = np.column_stack([problem.X, problem.X[:, 0]])
    with pytest.warns(LinAlgWarning, match="ill conditioned"):
        certificate = certify(Moments.from_data(data, problem.Y), alpha=0.0, time_limit=SHORT)
    assert not certificate.blocks.size
    assert "Raise alpha" in certificate.notes[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert certify(Moments.from_data(data, problem.Y), alpha=1e-3, time_limit=SHORT).blocks.size


def test_errors():
    moments = Moments.from_data(X, y)
    for wrong in ([-1], [np.nan], [np.inf], [[1, 2]], "a", [None, "b"]):
        with pytest.raises(ValueError, match="budgets"):
            certify(moments, budgets=wrong)
    for wrong in (-1, np.nan, True, "3", None):
        with pytest.raises(ValueError, match="time_limit"):
            certify(moments, time_limit=wrong)


def test_one_budget_may_be_a_number():
    assert 2.5 in certify(Moments.from_data(X, y), budgets=2.5, time_limit=0.0).budgets


def test_the_certificate_of_raw_columns_can_be_verified_saved_and_reported(tmp_path):
    """It is about the design columns that they become, pairs included."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=200)
    model = AnytimeRegressor({"a": [0, 1], "b": [2], "c": [3]}, encoding=bl.Encoding(interactions=2)).fit(X, y)
    found = model.certificate(time_limit=60)
    found.verify(model.moments_)
    found.save(tmp_path / "a.certificate")
    loaded = bl.Certificate.load(tmp_path / "a.certificate")
    loaded.verify(model.moments_)
    assert "optimum" in bl.make_report(model, X, y, certificate=loaded).to_markdown()


def test_other_losses_are_refused():
    with pytest.raises(
        ValueError, match=r"only for squared error, and this model uses loss 'log_loss': fit an AnytimeRegressor"
    ):
        AnytimeClassifier().fit(X, y > 0).certificate()
