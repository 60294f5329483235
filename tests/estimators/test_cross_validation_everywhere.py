"""Cross-validating estimators can do what plain ones can: losses, sources, moments, certificates."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    open_data,
)
from budgetline.data.sources import Chunk
from budgetline.moments.passes import InFold

pytestmark = pytest.mark.quick_cases(1)

GROUPS, COSTS = [[0, 1], [2], [3, 4]], [1.0, 2.0, 0.5]
ALPHAS = [1e-3, 1e-1, 1.0]


def problem(kind, seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    eta = X @ np.array([1.0, -0.5, 0.8, 0.3, 0.0])
    if kind == "squared":
        return X, eta + rng.normal(size=n)
    if kind == "poisson":
        return X, rng.poisson(np.exp(0.4 * eta)).astype(float)
    scores = np.column_stack([eta, -eta, 0.5 * X[:, 1]])[:, : 2 if kind == "binary" else 3]
    return X, np.array(["a", "b", "c"])[np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)]


def search_of(kind, **settings):
    if kind in ("binary", "softmax"):
        return AnytimeClassifierCV(GROUPS, COSTS, alphas=ALPHAS, rule="omp", **settings)
    loss = {"loss": "poisson", "rule": "omp"} if kind == "poisson" else {}
    return AnytimeRegressorCV(GROUPS, COSTS, alphas=ALPHAS, **loss, **settings)


def folds_of(X, y, n_folds):
    """Return the fold of every row of a source, found one row at a time."""
    return np.array([fold_of_row(x, value, n_folds) for x, value in zip(X, y, strict=True)])


def fold_of_row(x, y, n_folds):
    chunk = Chunk.of(x[None], np.array([y]), None, None, "here")
    found = [k for k in range(n_folds) if InFold(lambda c: c.n_rows, n_folds, k, held=True)(chunk)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("kind", ["squared", "poisson"])
def test_a_source_is_cross_validated_as_its_rows_are(kind):
    X, y = problem(kind)
    number = folds_of(X, y, 3)
    splits = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(3)]
    known = search_of(kind, cv=splits).fit(X, y)
    found = search_of(kind, cv=3).fit(open_data((X, y), chunk_rows=17))
    np.testing.assert_allclose(found.cv_scores_, known.cv_scores_, rtol=1e-6, atol=1e-9)
    assert found.alpha_ == known.alpha_
    np.testing.assert_allclose(found.coef_path_, known.coef_path_, rtol=1e-6, atol=1e-9)
    assert found.n_passes_ == 1 if kind == "squared" else found.n_passes_ > 9


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ["binary", "softmax"])
def test_classifiers_are_cross_validated_over_a_source(kind):
    X, y = problem(kind)
    whole = search_of(kind, cv=3).fit(open_data((X, y)))
    # neither chunks nor the order of the rows matter: a row is in a fold by its values
    order = np.random.default_rng(1).permutation(len(X))
    found = search_of(kind, cv=3).fit(open_data((X[order], y[order]), chunk_rows=11))
    np.testing.assert_allclose(found.cv_scores_, whole.cv_scores_, rtol=1e-6, atol=1e-9)
    assert found.alpha_ == whole.alpha_
    chosen = {"alpha": whole.alpha_, "correction": whole.correction_}
    plain = AnytimeClassifier(GROUPS, COSTS, rule="omp", **chosen).fit(X, y)
    np.testing.assert_allclose(found.coef_path_, plain.coef_path_, rtol=1e-5, atol=1e-7)
    assert (found.classes_ == plain.classes_).all()


def test_losses_other_than_squared_error():
    X, y = problem("poisson")
    search = search_of("poisson", cv=3).fit(X, y)
    for k, (train, test) in enumerate(KFold(3).split(X)):
        for a, alpha in enumerate(ALPHAS):
            model = AnytimeRegressor(GROUPS, COSTS, loss="poisson", rule="omp", alpha=alpha).fit(X[train], y[train])
            curve = budgetline.budget_curve(model, X[test], y[test])
            assert search.cv_scores_[a, k] == pytest.approx(budgetline.timeliness(curve), rel=1e-9)


def test_splitters_are_for_tables():
    X, y = problem("squared")
    with pytest.raises(ValueError, match="cv, the number of folds for sources, must be an integer ≥ 2"):
        AnytimeRegressorCV(cv=KFold(3)).fit(open_data((X, y)))
    few = open_data((X[:2], np.abs(y[:2])))
    with pytest.raises(ValueError, match=r"fold \d of 5 has no row"):
        AnytimeRegressorCV().fit(few)
    with pytest.raises(ValueError, match=r"fold \d.* holds no rows of positive weight"):
        search_of("poisson").fit(few)


def test_a_class_that_a_fold_lacks_is_named():
    X, y = problem("binary")
    y = np.where(np.arange(len(y)) == 3, "rare", y)
    with pytest.raises(ValueError, match="class 'rare' is missing in the training set of fold"):
        AnytimeClassifierCV(GROUPS, COSTS, rule="omp", cv=4).fit(open_data((X, y)))


def test_a_certificate_of_the_chosen_model():
    X, y = problem("squared")
    search = AnytimeRegressorCV(GROUPS, COSTS, alphas=ALPHAS).fit(X, y)
    certificate = search.certificate(time_limit=10)
    assert certificate.alpha == search.alpha_
    certificate.verify(search.moments_)
    plain = AnytimeRegressor(GROUPS, COSTS, alpha=search.alpha_).fit(X, y).certificate(time_limit=10)
    np.testing.assert_allclose(certificate.bounds, plain.bounds, rtol=1e-9)


@pytest.mark.parametrize("kind", ["squared", "binary"])
def test_scores_at_a_budget(kind):
    X, y = problem(kind)
    model = search_of(kind).fit(pd.DataFrame(X, columns=list("abcde")), y)
    names = model.sequence_.groups
    for choice in ({}, {"budget": 1.6}, {"stage": 1}, {"stage": 0}, {"available": names[1:]}):
        predicted = model.predict(pd.DataFrame(X, columns=list("abcde")), **choice)
        truth = np.mean(predicted == y) if kind == "binary" else 1 - np.mean((predicted - y) ** 2) / y.var()
        assert model.score(pd.DataFrame(X, columns=list("abcde")), y, **choice) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("kind", ["squared", "poisson", "binary"])
def test_rows_that_are_not_finite_are_named_by_their_place_in_the_data(kind):
    X, y = problem(kind)
    X[117, 2] = np.nan
    with pytest.raises(ValueError, match="rows 100 to 119: Input X contains NaN: column '2', first in row 17"):
        search_of(kind, cv=3).fit(open_data((X, y), chunk_rows=100))


@pytest.mark.parametrize("wide", [False, True])
def test_training_sets_of_weight_zero(wide):
    X, y = problem("poisson")
    X = np.random.default_rng(0).normal(size=(120, 1200)) if wide else X
    search = AnytimeRegressorCV(cv=2, rule="omp", max_groups=2, loss="squared_error" if wide else "poisson")
    with pytest.raises(ValueError, match="a training set has no sample of positive weight"):
        search.fit(X, y, np.repeat([1.0, 0.0], 60))
