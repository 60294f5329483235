"""Certificates, best sets and best sequences against the enumeration of all sets and orders."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from exact_search import best_sequence
from shops import CASES, Bundled, bundled
from truth import KINDS, Problem, best_by_programming, check_verified, make

from budgetline import AnytimeRegressor, Certificate, FeatureGroups, FixedOrder, Moments, certify
from budgetline.bounds.problem import Conditions
from budgetline.bounds.search import best_sets
from budgetline.optimality import set_values
from fuzz.trials import Case

ROUNDING = 1e-11
"""The error of enumeration itself, as a share of R(∅)."""
CLOSE = 1e-8
"""The error of values computed from moments, as a share of R(∅)."""


def draw(seed: int) -> Case:
    """Return a random problem and the questions about it."""
    rng = Random(seed)
    shared = rng.random() < 0.35
    kind = rng.choice(CASES) if shared else rng.choice(KINDS)
    alphas = [1e-5, 1e-3, 0.1] if shared or kind in ("ill", "xor") else [0.0, 1e-5, 1e-2, 0.3]
    J = rng.randint(4, 6) if shared else rng.randint(1, 7)
    return {
        "seed": rng.randrange(10**6),
        "kind": kind,
        "shared": shared,
        "J": J,
        "alpha": rng.choice(alphas),
        "asked": rng.choice(["certify", "certify", "model", "best set", "best set", "best sequence"]),
        "given": rng.random() < 0.4,
        "time_limit": rng.choice([0.0, 0.0, 0.01, 0.05, 2.0]),
        "share": rng.choice([0.0, 1.0, rng.random(), rng.random()]),
        "included": [g for g in range(J) if rng.random() < 0.15],
        "excluded": [g for g in range(J) if rng.random() < 0.15],
        "penalty": rng.choice([0.0, 0.0, 0.01, 0.1]),
    }


def problem_of(case: Case) -> Problem:
    """Return the problem that a case describes."""
    made = bundled if case["shared"] else make
    return made(case["seed"], case["kind"], J=case["J"], alpha=case["alpha"])


def groups_of(problem: Problem) -> FeatureGroups:
    """Return the groups as the library accepts them."""
    if isinstance(problem, Bundled):
        return problem.bundle
    return FeatureGroups(problem.feature_groups, problem.priced)


def check(case: Case) -> None:
    """Compare the library's results with the enumeration of all sets and orders."""
    problem = problem_of(case)
    moments = Moments.from_data(problem.X, problem.Y, problem.w)
    ASKED[case["asked"]](case, problem, moments, groups_of(problem))


def _valid_order(case: Case, problem: Problem) -> list[int]:
    """Return a random order in which nothing comes before what it requires."""
    rng = np.random.default_rng(case["seed"])
    if isinstance(problem, Bundled):
        return list(problem.orders[rng.integers(len(problem.orders))])
    return [int(g) for g in rng.permutation(problem.J)]


def _certify(case: Case, problem: Problem, moments: Moments, groups: FeatureGroups) -> None:
    given = {"schedule": FixedOrder([problem.names[g] for g in _valid_order(case, problem)])} if case["given"] else {}
    asked = [case["share"] * float(problem.set_costs[-1])]
    model = AnytimeRegressor(groups, alpha=case["alpha"], **given).fit_moments(moments)
    certificate = certify(model, time_limit=case["time_limit"], budgets=asked)
    check_statements(problem, certificate)
    check_verified(certificate, moments)
    _check_trip(certificate)


def _model(case: Case, problem: Problem, moments: Moments, groups: FeatureGroups) -> None:
    model = AnytimeRegressor(groups, alpha=case["alpha"]).fit(problem.X, problem.Y, sample_weight=problem.w)
    certificate = model.certificate(time_limit=case["time_limit"])
    assert certificate.order.tolist() == model.order_.tolist()
    check_statements(problem, certificate)
    check_verified(certificate, moments)


def check_statements(problem: Problem, certificate: Certificate) -> None:
    """Raise an error if a statement of a certificate is not true."""
    scale = problem.null_value
    assert abs(certificate.null_value - scale) <= 1e-9 * scale
    order = tuple(certificate.order.tolist())
    costs, values = problem.curve(order)
    assert np.all(np.diff(certificate.bounds) >= 0), "bounds decrease"
    for budget in [*certificate.budgets.tolist(), *(0.37 * costs).tolist(), 2 * float(costs[-1])]:
        found = certificate.at(budget)
        best = problem.best_at(budget)
        assert found.bound >= best - ROUNDING * scale, f"at {budget} the best set explains {best}, bound {found.bound}"
        bought = values[np.flatnonzero(costs <= budget * (1 + 1e-12))[-1]]
        assert abs(found.achieved - bought) <= CLOSE * scale, f"at {budget}: {found.achieved}, not {bought}"
        assert 0 <= found.ratio <= 1
    mean = certificate.timeliness()
    if problem.J <= 6 and costs[-1] > 0:
        best = problem.best_timeliness(float(costs[-1]), "step")
        bound = mean.bound * scale
        assert bound >= best - ROUNDING * scale, f"the best order has timeliness {best}, bound {bound}"


def _check_trip(certificate: Certificate) -> None:
    with TemporaryDirectory(prefix="fuzz-") as folder:
        certificate.save(f"{folder}/c")
        again = Certificate.load(f"{folder}/c")
    for name in ("budgets", "achieved", "bounds", "order"):
        assert np.array_equal(getattr(certificate, name), getattr(again, name)), f"{name} is not the same in the file"
    assert str(again) == str(certificate)


def _best_set(case: Case, problem: Problem, moments: Moments, groups: FeatureGroups) -> None:
    included = case["included"]
    if isinstance(problem, Bundled):
        included = sorted(problem.shop.closed(included))
    excluded = [g for g in case["excluded"] if g not in included]
    inside = np.isin(np.arange(problem.J), included)
    budget = problem.cost_of(inside) + case["share"] * float(problem.set_costs[-1])
    about = Conditions.of(groups, [f"g{g}" for g in included], [f"g{g}" for g in excluded])
    quadratic = set_values.problem_of(AnytimeRegressor(groups, alpha=case["alpha"]).fit_moments(moments).model_)
    lost = case.get("penalty", 0.0) * problem.null_value * (1 + np.arange(problem.J) % 3)
    if lost.any():
        quadratic = replace(quadratic, penalties=lost)
    found = best_sets(quadratic, about, [budget], case["time_limit"], None)[0]
    chosen, names = found.chosen, np.array(problem.names)[found.chosen].tolist()
    assert chosen[included].all(), f"{names} lacks a group that must be in"
    assert not chosen[excluded].any(), f"{names} holds a group that must not be in"
    index = int(chosen @ 2 ** np.arange(problem.J))
    scale = problem.null_value
    values, cost = problem.values - problem.sets @ lost, problem.set_costs[index]
    allowed = problem.between(tuple(included), tuple(excluded)) & (problem.set_costs <= budget * (1 + 1e-12))
    if isinstance(problem, Bundled):
        allowed &= problem.complete
    assert allowed[index], f"{names} is not allowed"
    value, best = values[index], values[allowed].max()
    assert cost <= budget * (1 + 1e-9), f"{names} costs {cost}, more than {budget}"
    assert abs(found.value - value) <= CLOSE * scale, f"{names} explains {value}, not {found.value}"
    bound = float(found.certificate.bounds[0])
    assert bound >= best - ROUNDING * scale, f"the best set explains {best}, bound {bound}"
    if found.optimal:
        assert value >= best - CLOSE * scale, f"{names} is not the best: {value} of {best}"
    if not (lost.any() and included):  # the bound of nearly dependent columns is then below R(∅)
        check_verified(found.certificate, moments)


def _best_sequence(case: Case, problem: Problem, moments: Moments, groups: FeatureGroups) -> None:
    stop = max(case["share"], 0.05) * float(problem.set_costs[-1])
    found = best_sequence(moments, groups, alpha=case["alpha"], stop=stop)
    order = tuple(found.order.tolist())
    scale = problem.null_value
    assert sorted(order) == list(range(problem.J))
    if isinstance(problem, Bundled):
        assert problem.is_valid(order), f"a group comes before what it requires: {order}"
    costs, values = problem.curve(order)
    assert np.allclose(np.cumsum(found.gains), values[1:], rtol=0, atol=CLOSE * scale)
    assert np.allclose(found.cumulative_costs, costs[1:], rtol=1e-9, atol=1e-12)
    if stop == 0:
        return
    reached = problem.timeliness(order, stop, "step")
    best = problem.best_timeliness(stop, "step") if problem.J <= 5 else _programmed(problem, stop)
    assert reached >= best - CLOSE * scale, f"{order} has timeliness {reached}, the best order {best}"


def _programmed(problem: Problem, stop: float) -> float:
    return problem.best_timeliness(stop, "step") if isinstance(problem, Bundled) else best_by_programming(problem, stop)


ASKED = {
    "certify": _certify,
    "model": _model,
    "best set": _best_set,
    "best sequence": _best_sequence,
}
