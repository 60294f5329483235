"""The doubling schedule: the corrected theorem, the counterexample to the paper's, and the hard instance."""

from itertools import accumulate, pairwise
from math import exp

import numpy as np
import pytest
import reference
import theory_instances as ti

pytestmark = pytest.mark.quick_cases(1)

RANDOM = 150
CLIMBERS = 48
STEPS = 150
COST_FACTORS = (4.001, 4.5, 5, 6, 8, 12, 20, 50)
TRAP_SIZES = (1,) * 7


@pytest.mark.parametrize("rule", ["omp", "forward"])
def test_corrected_theorem_holds_on_random_problems(rule):
    rng = np.random.default_rng(0)
    for sizes in ti.GROUP_SIZES:
        for targets in (1, 2):
            batch = ti.random_batch(rng, RANDOM, sizes, targets)
            c_min = batch.costs[:, 0]  # somewhere between the least and the largest
            for first in (None, c_min):
                order = batch.run(rule, "doubling", first)
                for c0 in COST_FACTORS:
                    assert np.max(ti.doubling_ratio(batch, order, c0, first)) <= 1 + ti.ROUNDING


@pytest.mark.parametrize("c0", [5, pytest.param(6, marks=pytest.mark.slow), pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", ["omp", "forward"])
def test_corrected_theorem_holds_under_attack(rule, c0):
    """Climb from traps: doubling is short of S there, by not much less than the claim allows."""
    rng = np.random.default_rng(1)

    def ratio(batch):
        return ti.doubling_ratio(batch, batch.run(rule, "doubling"), c0, measure="exponent")

    result = ti.climb(rng, ti.trap_genes(rng, CLIMBERS, c0), TRAP_SIZES, STEPS, ratio)
    unguided = ratio(ti.random_batch(rng, 500, TRAP_SIZES))
    assert max(result.visited, np.max(unguided)) <= 1 + ti.ROUNDING
    assert np.max(result.end) > 0.95 * (c0 - 4) / (c0 - c0 / 4)  # the ideal trap
    assert np.max(result.end) * c0 / (c0 - 4) > 1.2  # with γ·c0/2, without the −2, the claim would be false
    assert np.max(result.end) > np.max(unguided)


def test_only_the_least_budget_of_each_set_matters():
    """Looking at B = c0·c(S) alone gives the worst over a fine grid of B with both sides of every step."""
    rng = np.random.default_rng(2)
    c0 = 5.0
    for _ in range(20):
        batch = ti.random_instance(rng, (1, 2, 1, 1)).batch()
        order = batch.run("forward", "doubling")
        F, cost = batch.F[0], batch.subset_costs[0]
        edges = np.concatenate([np.cumsum(batch.costs[0][order[0]]), c0 * cost[1:]])
        top = c0 * cost.max()
        budgets = np.concatenate([edges, edges * (1 - 1e-9), edges * (1 + 1e-9), np.linspace(0, top, 500)])
        best = np.array([F[cost <= B / c0 * (1 + 1e-12)].max() for B in budgets])
        achieved = ti.explained_at(batch, order, budgets[None])[0]
        bound = -np.expm1(-batch.gamma[0] * (c0 / 2 - 2)) * best
        worst = np.max(bound / (achieved + ti.FLOOR * F[-1]))
        np.testing.assert_allclose(ti.doubling_ratio(batch, order, c0)[0], worst, rtol=1e-6)


def test_corrected_theorem_needs_the_budget_to_reach_c_min():
    """A first group that costs c_min leaves nothing below it, whatever a cheap group would have explained."""
    instance = ti.Instance(np.eye(2), np.array([[1.0], [100.0]]), ((0,), (1,)), np.array([1.0, 99.0]), 0.0)
    batch, c_min = instance.batch(), np.array([99.0])
    order = batch.run("forward", "doubling", c_min)
    assert order[0].tolist() == [1, 0]
    assert ti.doubling_ratio(batch, order, 5.0) > 1e3  # every B: false
    assert ti.doubling_ratio(batch, order, 5.0, c_min) <= 1  # B ≥ c_min: true
    assert ti.doubling_ratio(batch, batch.run("forward", "doubling"), 5.0) <= 1  # no c_min: true for every B


@pytest.mark.parametrize("eps", [0.05, 0.005, 0.0005])
def test_counterexample_to_the_papers_doubling_theorem(eps):
    instance = ti.counterexample(eps)
    batch, c_min = instance.batch(), np.array([99.0])
    X, Y = instance.data()
    out = reference.sequence(
        X, Y, instance.groups, instance.costs, rule="forward", schedule="doubling-literal", c_min=99, alpha=0
    )
    names = [ti.COUNTEREXAMPLE_NAMES[g] for g in out["order"]]
    assert names == ["junk1", "junk2", "tiny", "z", "x"]  # and it never stopped: doubling capable
    order = batch.run("forward", "doubling", c_min)
    assert order[0].tolist() == out["order"]

    # At B = 4 c(x) the sequence holds junk1, junk2 and tiny; x alone, at B/4, explains 1.
    budget = 4 * instance.costs[3]
    spent = np.cumsum(instance.costs[out["order"]])
    assert spent[2] <= budget < spent[3]
    np.testing.assert_allclose(batch.F[0, 1 << 3], 1)
    ratio = sum(out["gains"][:3]) / batch.F[0, 1 << 3]
    np.testing.assert_allclose(ti.explained_at(batch, order, np.array([[budget]]))[0, 0], ratio)
    np.testing.assert_allclose(ratio, 0.0011 * eps / 0.005, rtol=0.01)

    # The spectral γ is ½ and promises 0.1535; the paper's own γ is 0 here and promises nothing.
    np.testing.assert_allclose(batch.gamma, 0.5)
    np.testing.assert_allclose(1 - exp(-(0.5**2) / 1.5), 0.1535, atol=5e-5)
    assert ti.paper_doubling_ratio(batch, order, batch.gamma, c_min) > 0.1535 / 0.0012 * 0.005 / eps
    assert ti.submodularity_ratio(batch) == pytest.approx(0, abs=1e-12)

    for c0 in COST_FACTORS:
        assert ti.doubling_ratio(batch, order, c0, c_min) <= 1
        assert ti.doubling_ratio(batch, batch.run("forward", "doubling"), c0) <= 1


def test_hard_instance():
    """F(S) = Σ e^x at cost x: doubling is always about to pay four times what its best item cost."""
    costs = {x: float(x) for x in range(1, 385)}
    options = {"schedule": "doubling", "c_min": 2, "max_groups": 10}
    order = reference.set_sequence(lambda S: sum(exp(x) for x in S), costs, **options)["order"]
    assert order == [2, 1, *(3 * 2**k for k in range(8))]
    spent = list(accumulate(order))
    largest = list(accumulate(order, max))
    ratios = [after / best for best, (_, after) in zip(largest, pairwise(spent), strict=False)]
    assert ratios == [1.5, 3, *[4] * 7]  # B/m(B) just before each next item


def test_hard_instance_as_a_regression():
    instance = ti.hard_instance(24)
    X, Y = instance.data()
    s = reference.standardise(X, Y)
    for i in (1, 2, 12, 24):
        np.testing.assert_allclose(2 * reference.F(s.Xs, s.Yc, s.w, [i - 1], 0), np.exp(i), rtol=1e-4)
    options = {"schedule": "doubling", "c_min": 2, "alpha": 0, "max_groups": 6}
    for rule in ("forward", "omp"):
        out = reference.sequence(X, Y, instance.groups, instance.costs, rule=rule, **options)
        assert [g + 1 for g in out["order"]] == [2, 1, 3, 6, 12, 24]
