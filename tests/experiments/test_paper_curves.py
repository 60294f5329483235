"""The paper's Oracle sorts the steps of a curve, and is no upper bound; plateaus are found by its rule."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_curves import oracle_curve, plateau
from set_functions import greedy_sequence

from budgetline import AnytimeRegressor, BudgetCurve, timeliness


@pytest.mark.quick_cases(1)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=6))
def test_the_oracle_is_the_best_permutation_of_the_steps(steps):
    costs, gains = np.array(steps, dtype=float).T
    curve = BudgetCurve([0, *np.cumsum(costs)], [0, *np.cumsum(gains)], groups=("", *map(str, range(len(steps)))))
    oracle = oracle_curve(curve)
    for interpolation in ("step", "linear"):
        best = max(
            timeliness(
                BudgetCurve([0, *np.cumsum(costs[list(p)])], [0, *np.cumsum(gains[list(p)])]),
                interpolation=interpolation,
            )
            for p in permutations(range(len(steps)))
        )
        assert timeliness(oracle, interpolation=interpolation) == pytest.approx(best, rel=1e-12)
    assert oracle.values[-1] == pytest.approx(curve.values[-1])
    assert oracle.total_cost == curve.total_cost
    np.testing.assert_array_equal(np.diff(oracle.costs), costs[[int(g) for g in oracle.groups[1:]]])
    assert "heuristic" in oracle.label


def test_free_and_harmful_steps_of_the_oracle():
    # steps: cost 2 gain 1, free gain 2, free loss 1, cost 1 gain 0
    curve = BudgetCurve([0, 2, 2, 2, 3], [0, 1, 3, 2, 2], groups=("", "a", "b", "c", "d"))
    oracle = oracle_curve(curve)
    assert oracle.groups == ("", "b", "a", "d", "c")
    assert oracle.costs.tolist() == [0, 0, 2, 3, 3]
    assert oracle.values.tolist() == [0, 2, 3, 3, 2]
    falling = oracle_curve(BudgetCurve([0, 1, 2], [5, 4, 1], "mse", greater_is_better=False))
    assert falling.values.tolist() == [5, 2, 1]
    assert not falling.greater_is_better


def test_the_oracle_is_no_upper_bound():
    """A greedy sequence that buys a redundant cheap group first: the best sequence beats its oracle."""
    value = {"": 0.0, "a": 4.0, "b": 9.0, "c": 0.0, "ab": 9.5, "ac": 4.0, "bc": 10.0, "abc": 10.0}
    costs = {"a": 1.0, "b": 2.5, "c": 6.0}

    def F(S):
        return value["".join(sorted(S))]

    oracle = timeliness(oracle_curve(greedy_sequence(F, costs)), interpolation="linear")
    best = max(
        timeliness(
            BudgetCurve([0, *np.cumsum([costs[g] for g in p])], [F(set(p[:k])) / 10 for k in range(len(p) + 1)]),
            interpolation="linear",
        )
        for p in permutations("abc")
    )
    assert best > oracle + 1e-3


def test_on_regressions_the_best_sequence_may_beat_the_oracle():
    """Brute force over all orders of real least-squares problems."""
    beaten = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 4))
        y = X @ rng.standard_normal(4) + rng.standard_normal(40)
        Xc, yc = X - X.mean(0), y - y.mean()
        costs = rng.uniform(1, 3, 4)
        known = {}

        def explained(S, Xc=Xc, yc=yc, known=known):
            if S not in known:
                left = yc - Xc[:, sorted(S)] @ np.linalg.lstsq(Xc[:, sorted(S)], yc, rcond=None)[0] if S else yc
                known[S] = 1 - left @ left / (yc @ yc)
            return known[S]

        best = max(
            timeliness(
                BudgetCurve([0, *np.cumsum(costs[list(p)])], [explained(frozenset(p[:k])) for k in range(5)]),
                interpolation="linear",
            )
            for p in permutations(range(4))
        )
        model = AnytimeRegressor(costs=costs, alpha=0.0).fit(X, y)
        assert timeliness(model, interpolation="linear") <= best + 1e-9
        beaten += best > timeliness(oracle_curve(model), interpolation="linear") + 1e-6
    assert beaten > 0


@pytest.mark.parametrize("cost", [2.0**900, 2.0**-900])
@pytest.mark.parametrize("unit", [2.0**-900, 2.0**900])
def test_neither_depends_on_units(cost, unit):
    ours = BudgetCurve([0, 1, 1, 3, 7.5, 8], [0.0, 0.3, 0.2, 0.65, 0.9, 1.0])
    theirs = BudgetCurve(ours.costs * cost, ours.values * unit)
    assert np.array_equal(oracle_curve(theirs).costs, cost * oracle_curve(ours).costs)
    assert plateau(theirs) == plateau(ours)


def test_plateaus_by_hand():
    # cost(α) for α = 0.95…1: the curve reaches v at the cost given; 20 % of the total 100 is 20
    for at, expected in [(0.955, 0.95), (0.965, 0.96), (0.975, 0.97), (0.985, 0.98), (0.995, 0.99)]:
        assert plateau(BudgetCurve([0, 10, 100], [0, at, 1])) == expected
    # no percent takes more than 20 %
    assert plateau(BudgetCurve([0, 70, 80, 90, 100], [0, 0.96, 0.97, 0.99, 1])) == 1
    # exactly 20 % is not more than 20 %; a little more is
    assert plateau(BudgetCurve([0, 80, 100], [0, 0.995, 1])) == 1
    assert plateau(BudgetCurve([0, 79.99, 100], [0, 0.995, 1])) == 0.99
    # the same in tenths, which are not exact: 0.8 + 0.2
    assert plateau(BudgetCurve([0, 0.8, 0.8 + 0.2], [0, 0.995, 1])) == 1
    # values exactly on the grid of α: 0.97 is reached at 10, 0.98 only at 100
    assert plateau(BudgetCurve([0, 10, 100], [0, 0.97, 1])) == 0.97
    assert plateau(BudgetCurve([0, 10, 100], [0, 0.97 * 0.3, 0.3])) == 0.97
    # the first of two plateaus
    assert plateau(BudgetCurve([0, 10, 50, 100], [0, 0.955, 0.985, 1])) == 0.95
    assert plateau(BudgetCurve([0], [0])) == plateau(BudgetCurve([0, 0], [0, 1])) == 1
    assert plateau(BudgetCurve([0, 1, 10], [100, 4.5, 0], "mse", greater_is_better=False)) == 0.95
