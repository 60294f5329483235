"""Plans of models of squared error, against all sets: with a correction, shared costs, requirements and conditions."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from reference_shared import Shop
from truth import SINGULAR, Problem, check_verified, make

from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, FixedOrder
from budgetline.optimality import next_groups, plan, plans

pytestmark = pytest.mark.quick_cases(2)

LONG = 120.0
KINDS = ("plain", "targets", "weights", "equal costs", "wide costs", "free", "huge", "tiny", "unrelated", "explained",
         "suppressors", "correlated", "xor")  # fmt: skip
CLOSE = 1e-8


@dataclass(frozen=True)
class Question:
    """A problem with penalties, a budget, and conditions; groups are numbers."""

    problem: Problem
    shop: Shop
    penalties: np.ndarray | None
    budget: float
    included: tuple[int, ...]
    excluded: tuple[int, ...]

    @property
    def groups(self):
        names = self.problem.names
        return FeatureGroups(
            self.problem.feature_groups,
            costs=list(self.shop.own),
            shared={f"s{k}": (cost, [names[g] for g in sorted(own)]) for k, (cost, own) in enumerate(self.shop.shared)},
            requires={names[g]: [names[h] for h in sorted(needed)] for g, needed in self.shop.requires.items()},
        )

    def values(self):
        """F less the penalties, of all sets."""
        lost = 0.0 if self.penalties is None else self.problem.sets @ self.penalties
        return self.problem.values - lost

    def allowed(self):
        """Which sets may be bought: they hold what they require, and meet the conditions."""
        sets = self.problem.sets
        found = self.problem.set_costs <= self.budget * (1 + 1e-12)
        for g, needed in self.shop.requires.items():
            found &= ~sets[:, g] | sets[:, sorted(needed)].all(axis=1)
        return found & self.problem.between(self.included, self.excluded)


def named(groups):
    return [f"g{g}" for g in groups]


def draw_shop(rng, own):
    """Own costs, and for half of the problems shared costs and requirements."""
    J, shared, requires = own.size, [], {}
    if rng.random() < 0.5:
        for _ in range(rng.integers(1, 3)):
            members = rng.choice(J, size=rng.integers(2, max(3, J // 2 + 1)), replace=False)
            shared.append((float(own.max() * rng.uniform(0.2, 2)), frozenset(members.tolist())))
    if rng.random() < 0.5:
        for g in rng.choice(np.arange(1, J), size=min(J - 1, int(rng.integers(1, 4))), replace=False).tolist():
            requires[g] = frozenset(rng.choice(g, size=rng.integers(1, min(g, 2) + 1), replace=False).tolist())
    return Shop(own.tolist(), shared, requires)


def draw(seed, J=None):
    """Return a random question that some set answers."""
    rng = np.random.default_rng([seed, 7])
    J = int(rng.integers(3, 9)) if J is None else J
    plain = make(seed + 1000, KINDS[seed % len(KINDS)], J=J, alpha=(1e-5, 1e-3, 1e-1)[seed % 3])
    shop = draw_shop(rng, plain.costs)
    problem = replace(plain, cost=lambda mask: shop.cost(np.flatnonzero(mask).tolist()))
    penalties = None
    if seed % 4:  # from hardly any to more than most groups explain
        penalties = problem.null_value * rng.uniform(0, 1, J) * 10 ** rng.uniform(-3, -0.5)
        penalties[rng.random(J) < 0.2] = 0.0
    state = rng.random(J)
    included = tuple(np.flatnonzero(state < 0.12).tolist()) if rng.random() < 0.5 else ()
    excluded = tuple(np.flatnonzero(state > 0.85).tolist()) if rng.random() < 0.5 else ()
    budget = float(problem.set_costs[-1] * rng.choice([0.1, 0.3, 0.6, 1.0, 2.0]))
    question = Question(problem, shop, penalties, budget, included, excluded)
    return question if question.allowed().any() else replace(question, included=(), excluded=(), budget=budget)


def planned(question, time_limit):
    problem = question.problem
    model = AnytimeRegressor(question.groups, alpha=problem.alpha).fit(problem.X, problem.Y, problem.w)
    model.model_ = replace(model.model_, penalties=question.penalties)
    return model, model.plan(
        question.budget, include=named(question.included), exclude=named(question.excluded), time_limit=time_limit,
    )  # fmt: skip


def check(question):
    problem = question.problem
    model, plan = planned(question, LONG)
    chosen = np.isin(problem.names, plan.groups)
    index = int(chosen @ 2 ** np.arange(problem.J))
    values, allowed, unit = question.values(), question.allowed(), problem.null_value
    best = values[allowed].max()
    assert allowed[index]
    assert plan.cost == pytest.approx(problem.set_costs[index], rel=1e-12)
    assert plan.value * unit == pytest.approx(values[index], abs=CLOSE * unit)
    assert plan.explained * unit == pytest.approx(problem.values[index], abs=CLOSE * unit)
    assert values[index] >= best - CLOSE * unit
    assert plan.bound * unit >= best - 1e-12 * unit
    assert plan.optimal
    plan.certificate.verify(model.moments_)
    return model, plan


@pytest.mark.parametrize("block", range(2))
def test_no_allowed_set_is_better(block):
    for seed in range(10 * block, 10 * block + 10):
        check(draw(seed))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(48))
def test_no_allowed_set_is_better_in_many_problems(block):
    for seed in range(100 + 10 * block, 110 + 10 * block):
        check(draw(seed))


@pytest.mark.slow
@pytest.mark.parametrize("J", [10, 11, 12, 13, 14])
def test_no_allowed_set_of_many_groups_is_better(J):
    for seed in range(4):
        check(draw(7000 + 10 * J + seed, J))


@pytest.mark.filterwarnings("ignore:the moments are ill conditioned")
@pytest.mark.parametrize("kind", ["plain", *SINGULAR])
def test_bounds_hold_without_time_and_where_columns_are_dependent(kind):
    """There may be no proof but the trivial one; the set is allowed all the same."""
    for seed in range(4):
        question = draw(seed + 300, J=4)
        plain = make(seed, kind, J=4, alpha=0.0 if kind in SINGULAR else 1e-3)
        problem = replace(plain, costs=question.problem.costs, cost=question.problem.cost)
        penalties = problem.null_value * 0.05 * np.arange(4)
        question = replace(question, problem=problem, penalties=penalties, included=())
        model, plan = planned(question, 0.0)
        index = int(np.isin(problem.names, plan.groups) @ 2 ** np.arange(4))
        values, allowed = question.values(), question.allowed()
        assert allowed[index]
        assert plan.value * problem.null_value == pytest.approx(values[index], abs=1e-6 * problem.null_value)
        assert plan.bound * problem.null_value >= values[allowed].max() - 1e-9 * problem.null_value
        if plan.optimal:
            assert values[index] >= values[allowed].max() - 1e-6 * problem.null_value
        check_verified(plan.certificate, model.moments_)


def test_plans_are_functions_of_a_fitted_model():
    problem = make(3, "plain", J=5, alpha=1e-3)
    fitted = AnytimeRegressor(problem.feature_groups, problem.priced, alpha=1e-3).fit(problem.X, problem.Y)
    budget = float(problem.set_costs[-1]) / 2
    conditions = {"exclude": ["g0"], "time_limit": LONG}
    found = fitted.plan(budget, **conditions)
    for model in (fitted, fitted.model_):
        assert plan(model, budget, **conditions).groups == found.groups
        assert [each.groups for each in plans(model, [budget, 0.0], **conditions)] == [found.groups, ()]
        assert next_groups(model, ["g1"]).groups == fitted.next_groups(["g1"]).groups


LOSSES = ("squared_error", "log_loss", "softmax", "poisson")


def fitted(loss, seed, correction):
    """Return a model of seven groups of related columns, some of which share a cost, and its data."""
    rng = np.random.default_rng([seed, 11])
    X = rng.normal(size=(90, 10)) @ (np.eye(10) + 0.5 * rng.normal(size=(10, 10)))
    X[:, 5:] = np.exp(X[:, 5:] / 2)  # skewed, so that quadratic models of the risk are poor
    scores = X @ rng.normal(size=(10, 3)) * 0.6
    parts = {"a": [0, 5], "b": [1], "c": [2, 6], "d": [3], "e": [4, 7], "f": [8], "g": [9]}
    shared = {"visit": (float(rng.integers(1, 4)), ["b", "d", "f"])}
    groups = FeatureGroups(parts, rng.integers(1, 6, size=7).astype(float), shared=shared, requires={"e": ["b"]})
    y = {
        "squared_error": scores[:, 0] + rng.normal(size=90),
        "log_loss": (scores[:, 0] - np.median(scores[:, 0]) + rng.logistic(size=90) > 0).astype(int),
        "softmax": np.argmax(scores + rng.gumbel(size=scores.shape), axis=1),
        "poisson": rng.poisson(np.exp(np.clip(scores[:, 0] / 2, -3, 2))).astype(float),
    }[loss]
    kind = AnytimeClassifier if loss in ("log_loss", "softmax") else AnytimeRegressor
    given = {"loss": loss} if loss == "poisson" else {}
    return kind(groups, alpha=1e-2, correction=correction, **given).fit(X, y), X, y


def values_of(model, X, y, sets):
    """Return what a plan maximises of every set of names, from a fit to its groups."""
    penalties, place = model.model_.penalties, {name: g for g, name in enumerate(model.model_.groups.names)}
    found = []
    for names in sets:
        only = type(model)(**model.get_params() | {"schedule": FixedOrder(names), "correction": 0}).fit(X, y).sequence_
        lost = 0.0 if penalties is None else penalties[[place[name] for name in names]].sum() / only.null_value
        found.append(only.explained[-1] - lost)
    return found


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_larger_budget_never_gets_a_worse_set(loss, refit):
    for seed in (3, 5, 9, 83):
        model, X, y = fitted(loss, seed, float(seed % 2))
        rows = {"X": X, "y": y} if refit else {}
        for conditions in ({}, {"exclude": ["c"]}):
            found = model.plans([9, 0, 3, 4, 2, 7, 12, 6, 5], time_limit=0, **conditions, **rows)
            values = [each.value for each in (found[k] for k in (1, 4, 2, 3, 8, 7, 5, 0, 6))]
            assert (np.diff(values) >= -1e-12).all()
            assert all(plan.cost <= budget for plan, budget in zip(found, (9, 0, 3, 4, 2, 7, 12, 6, 5), strict=True))


@pytest.mark.parametrize("loss", LOSSES)
def test_plans_are_no_worse_than_the_order_and_the_best_single_group(loss):
    for seed in (0, 9):
        model, X, y = fitted(loss, seed, float(seed % 2))
        for budget in (4, 6, 10):
            plan = model.plan(budget, X=X, y=y)
            singles = model.next_groups(budget=budget)
            best = int(np.argmax(singles.gains))
            simple = [(*singles.along[best], singles.groups[best])]
            if stage := model.sequence_.stage_at(budget):
                simple.append(model.sequence_.groups[:stage])
            assert plan.value >= max(values_of(model, X, y, simple)) - 1e-8
