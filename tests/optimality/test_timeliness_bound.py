"""No order of the groups is timelier than the certificate says, up to any cost."""

import numpy as np
import pytest
from best_sets import best_set
from certifying import certify
from truth import make

from budgetline import Moments

KINDS = ("plain", "suppressors", "free", "wide costs", "equal costs", "correlated", "targets", "duplicates", "weights",
         "xor")  # fmt: skip

# Where columns are dependent and alpha is 0, certify warns that digits are lost.
pytestmark = pytest.mark.filterwarnings("ignore:the moments are ill conditioned")


def certificate_of(problem, time_limit):
    moments = Moments.from_data(problem.X, problem.Y, problem.w)
    return certify(moments, problem.feature_groups, problem.priced, alpha=problem.alpha, time_limit=time_limit)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("kind", KINDS)
def test_no_order_is_timelier(kind):
    for seed in range(5):
        problem = make(seed + 200, kind, J=1 + seed)
        certificate = certificate_of(problem, (0.0, 0.02)[seed % 2])
        total, scale = problem.set_costs[-1], problem.null_value
        for stop in (None, 0.0, 0.2 * total, 1.7 * total):
            end = total if stop is None else stop
            found = certificate.timeliness(stop)
            best = problem.best_timeliness(end, "step") / scale
            own = problem.timeliness(tuple(certificate.order.tolist()), end, "step") / scale
            assert found.bound >= best - 1e-12
            assert found.achieved == pytest.approx(own, abs=1e-8)
            assert found.bound >= found.achieved - 1e-12
            assert 0 <= found.ratio <= 1
            if best > 1e-3:
                assert found.ratio <= own / best + 1e-8  # at least this share of the best is reached


def test_six_groups():
    problem = make(300, "suppressors", J=6, alpha=1e-3)
    certificate = certificate_of(problem, 2.0)
    total = problem.set_costs[-1]
    for stop in (0.3 * total, total):
        found = certificate.timeliness(stop)
        best = problem.best_timeliness(stop, "step") / problem.null_value
        assert best - 1e-12 <= found.bound <= 1.5 * best


def test_the_curve_of_bounds_is_above_the_best_sets():
    """The curve is read as steps: from each cost on, its value bounds what any budget up to the next cost buys."""
    for seed, kind in enumerate(KINDS):
        problem = make(seed + 400, kind, J=4)
        certificate = certificate_of(problem, 0.02)
        curve = certificate.curve()
        rng = np.random.default_rng(seed)
        for budget in [0.0, *problem.set_costs, *(problem.set_costs * 0.999), *rng.uniform(0, curve.total_cost, 20)]:
            value = curve.values[np.flatnonzero(curve.costs <= budget)[-1]]
            assert value * problem.null_value >= problem.best_at(float(budget)) - 1e-12 * problem.null_value


def test_beyond_the_budget_of_a_best_set_the_bound_is_everything():
    problem = make(3, "plain", J=4, alpha=1e-3)
    moments = Moments.from_data(problem.X, problem.Y)
    total = problem.set_costs[-1]
    found = best_set(moments, problem.feature_groups, problem.priced, budget=total / 2, alpha=1e-3)
    for stop in (total / 4, total / 2, total):
        bound = found.certificate.timeliness(stop).bound
        assert bound >= problem.best_timeliness(stop, "step") / problem.null_value - 1e-12


def test_a_greedy_promise_is_kept():
    """Theorem 3.2 at the cost of a prefix says no more than is so."""
    for seed in range(20):
        problem = make(seed, "plain", J=5, alpha=1e-2)
        certificate = certificate_of(problem, 0.0)
        costs, values = problem.curve(tuple(certificate.order.tolist()))
        for cost, value in zip(costs, values, strict=True):
            assert value >= certificate.greedy_promise * problem.best_at(float(cost)) - 1e-12 * problem.null_value
    assert certificate.greedy_promise == pytest.approx(1 - np.exp(-certificate.gamma))


def test_gamma_is_the_smallest_eigenvalue_of_the_whitened_covariance():
    for seed in range(10):
        problem = make(seed, "correlated", J=4, alpha=1e-2)
        columns = [d for group in problem.groups for d in group]
        Z = (problem.X - problem.X.mean(axis=0))[:, columns] / problem.X.std(axis=0)[columns]
        C = Z.T @ Z / len(Z) + problem.alpha * np.eye(len(columns))
        white, start = np.zeros_like(C), 0
        for group in problem.groups:
            here = slice(start, start + len(group))
            values, vectors = np.linalg.eigh(C[here, here])
            white[here, here] = (vectors / np.sqrt(values)) @ vectors.T
            start += len(group)
        assert certificate_of(problem, 0.0).gamma == pytest.approx(np.linalg.eigvalsh(white @ C @ white)[0], rel=1e-6)
