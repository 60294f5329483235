"""The library's own sequences on the theory's instances: same orders, and every bound holds for them."""

import numpy as np
import pytest
import theory_instances as ti

from budgetline import AnytimeRegressor
from budgetline.sequencing import Doubling

pytestmark = pytest.mark.quick_cases(2)

INSTANCES = 40


def library_order(instance, rule, schedule):
    X, Y = instance.data()
    groups = [list(g) for g in instance.groups]
    model = AnytimeRegressor(groups, instance.costs, rule=rule, schedule=schedule, alpha=instance.alpha)
    return model.fit(X, Y).order_


@pytest.mark.parametrize("schedule", ["greedy", "doubling"])
@pytest.mark.parametrize("rule", ["forward", "omp"])
def test_bounds_hold_for_the_library(rule, schedule):
    rng = np.random.default_rng(0)
    for _ in range(INSTANCES):
        instance = ti.random_instance(rng)
        order = library_order(instance, rule, schedule)
        if schedule == "greedy":
            for statement in ("lemma", "theorem"):
                assert ti.worst_ratio(instance, order, statement) <= 1 + ti.ROUNDING
        else:
            for c0 in (4.5, 6, 12):
                assert ti.worst_ratio(instance, order, "doubling", c0=c0) <= 1 + ti.ROUNDING


@pytest.mark.parametrize("rule", ["forward", "omp"])
def test_bounds_hold_for_the_library_under_attack(rule):
    """Instances on which Lemma 3.1 is nearly attained, found by hill-climbing."""
    rng = np.random.default_rng(3)
    for sizes in ((1, 1), (2, 1, 2, 1)):
        result = ti.climb(rng, ti.random_genes(rng, 16, sizes), sizes, 200, lambda b: ti.lemma_ratio(b, b.run(rule)))
        assert np.max(result.end) > 0.9
        for i in range(len(result.batch)):
            instance = result.batch[i]
            order = library_order(instance, rule, "greedy")
            assert ti.worst_ratio(instance, order, "lemma") <= 1 + ti.ROUNDING


def test_counterexample_to_the_papers_doubling_theorem():
    instance = ti.counterexample(0.005)
    order = library_order(instance, "forward", Doubling(c_min=99))
    names = np.array(["junk1", "junk2", "tiny", "x", "z"])
    assert names[order].tolist() == ["junk1", "junk2", "tiny", "z", "x"]
    for c0 in (4.5, 5, 8, 20):
        assert ti.worst_ratio(instance, order, "doubling", c0=c0, c_min=99) <= 1 + ti.ROUNDING


def test_hard_instance():
    order = library_order(ti.hard_instance(24), "forward", Doubling(c_min=2))
    assert (order[:6] + 1).tolist() == [2, 1, 3, 6, 12, 24]
