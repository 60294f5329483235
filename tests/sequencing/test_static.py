"""The rule ``static`` scores every group on its own, whatever comes first."""

import numpy as np
import pytest

from budgetline import AnytimeClassifier, AnytimeRegressor


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [False, True])
def test_one_group_that_comes_first_does_not_change_the_order_of_the_others(seed, classes):
    """Before, nothing was scored for a first step without a choice, and the scores were those after it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 6)) @ (np.eye(6) + 0.6 * rng.normal(size=(6, 6)))
    y = X @ rng.normal(size=6) + rng.normal(size=200)
    model = AnytimeClassifier(rule="static") if classes else AnytimeRegressor(rule="static")
    target = y > 0 if classes else y
    alone = [np.corrcoef(column, target)[0, 1] ** 2 for column in X.T]
    expected = np.argsort(alone)[::-1].tolist()
    assert model.fit(X, target).order_.tolist() == expected
    first = expected[-1]
    model.set_params(start=[first])
    assert model.fit(X, target).order_.tolist() == [first, *expected[:-1]]
