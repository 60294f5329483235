"""AnytimeModel: what estimators hold, and how it is found inside pipelines and searches."""

import dataclasses

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import AnytimeClassifier, AnytimeRegressor, AnytimeRegressorCV, FeatureGroups, GroupLassoPath
from budgetline.model import AnytimeModel, as_model
from budgetline.model.anytime import model_and_table

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * [1, 10, 0.1, 3] + 2
Y = X @ np.array([1.0, 0.2, 3.0, 0.0]) + RNG.normal(size=60)
LABELS = np.where(np.median(Y) < Y, "high", "low")


def test_it_is_found_inside_pipelines_and_searches():
    estimator = AnytimeRegressor([[0, 1], [2], [3]])
    pipe = make_pipeline(StandardScaler(), estimator).fit(X, Y)
    search = GridSearchCV(make_pipeline(StandardScaler(), AnytimeRegressor()), {"anytimeregressor__alpha": [1e-3]})
    for fitted in (pipe, search.fit(X, Y)):
        model, seen = model_and_table(fitted, X)
        assert isinstance(model, AnytimeModel)
        assert as_model(fitted) is model
        assert as_model(model) is model
        np.testing.assert_allclose(seen, StandardScaler().fit_transform(X))
        np.testing.assert_allclose(model.result(seen, "predict", stage=2), result(fitted, seen, 2))


def result(fitted, seen, stage):
    inner = fitted.best_estimator_[-1] if hasattr(fitted, "best_estimator_") else fitted[-1]
    return inner.predict(seen, stage=stage)


def test_what_has_no_stages_is_refused():
    with pytest.raises(NotFittedError):
        as_model(AnytimeRegressor())
    for other in (StandardScaler().fit(X), make_pipeline(StandardScaler()).fit(X), 3, None, X):
        with pytest.raises(TypeError, match="a fitted estimator of budgetline is needed"):
            as_model(other)


@pytest.mark.parametrize(
    "estimator",
    [
        AnytimeRegressor([[0, 1], [2], [3]], [1, 2, 3], alpha=1e-2),
        AnytimeRegressor(loss="poisson", rule="omp", alpha=1e-2),
        AnytimeRegressorCV(alphas=[1e-3, 1.0], cv=3),
        AnytimeClassifier(alpha=1e-2),
        GroupLassoPath(n_lambdas=5),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_estimator_is_a_facade_of_its_model(estimator):
    y = LABELS if isinstance(estimator, AnytimeClassifier) else np.abs(Y)
    fitted = estimator.fit(X, y)
    model = fitted.model_
    assert model.estimator == type(estimator).__name__
    assert repr(model) == f"AnytimeModel({model.estimator}, {model.n_stages} of {len(model.groups)} groups)"
    assert model.settings == fitted.get_params(deep=False)
    again = type(estimator).from_model(model)
    assert again.get_params() == fitted.get_params()
    assert {name for name in vars(again) if name.endswith("_")} == {n for n in vars(fitted) if n.endswith("_")}
    np.testing.assert_array_equal(again.predict(X, budget=1.5), fitted.predict(X, budget=1.5))
    assert (model.sequence, model.groups) == (fitted.sequence_, fitted.feature_groups_)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.alpha = 1.0


def test_nothing_of_an_earlier_fit_is_left():
    model = AnytimeRegressor().fit(X, Y)
    assert hasattr(model, "moments_")
    model.set_params(loss="poisson", rule="omp").fit(X, np.abs(Y))
    assert not hasattr(model, "moments_")


def test_a_fit_that_fails_leaves_the_last_one():
    model = AnytimeRegressor().fit(X, Y)
    before = model.model_
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.full(60, np.nan))
    assert model.model_ is before


def test_the_layout_names_positions():
    groups = FeatureGroups({"a": [3], "b": [1, 0]}, remainder="drop")
    layout = AnytimeRegressor(groups).fit(X, Y).model_.layout
    assert layout.read.tolist() == [0, 1, 3]
    assert [position.tolist() for position in layout.position] == [[2], [1, 0]]
    assert layout.by_group.tolist() == [3, 1, 0]
    assert layout.names_read is None
    assert not layout.reads_all
