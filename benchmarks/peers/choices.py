"""Which groups everyone buys at a budget: the peers as people would use them where groups have costs.

An *order* of groups is read in two ways: as a prefix (buy until the first group that no longer fits, as an anytime
predictor must) or filled (pass over what does not fit, as one may when the budget is fixed). Columns are mapped to
groups by buying a group when its first column enters. Classes are coded as 0/1 indicators for methods that know squared
error only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    GroupLassoPath,
)
from peers import abess, celer, fastcan, lightgbm, scikit_learn
from peers.problem import Problem, lambda_grid, triangle

MOST_COLUMNS = 120
"""How many columns fastcan selects at most: it is slow, and groups enter early."""


@dataclass(frozen=True)
class Training:
    """Training rows: standardised columns, groups being neighbours, and the target as given and as numbers."""

    A: np.ndarray
    y: np.ndarray
    sizes: np.ndarray
    costs: np.ndarray
    budgets: np.ndarray
    alpha: float
    classes: bool
    """Whether the model is logistic; if not, squared error on the numbers."""
    seconds: float = 3.0
    """Time limit of the search for the best set; only mfeat reaches it."""

    @property
    def numbers(self) -> np.ndarray:
        """The target as numbers (n, P): itself, 0 and 1 for two classes, or one indicator per class; centred."""
        values = np.unique(self.y)
        if self.y.dtype.kind == "f":
            T = self.y[:, None]
        else:
            T = (self.y[:, None] == (values[1:] if values.size == 2 else values)).astype(float)
        return np.asarray(T - T.mean(axis=0))

    @property
    def problem(self) -> Problem:
        return Problem(self.A, self.numbers[:, 0], self.sizes, self.costs)

    @property
    def single(self) -> bool:
        return self.numbers.shape[1] == 1

    @cached_property
    def searched(self) -> AnytimeRegressorCV | AnytimeClassifierCV:
        """budgetline, with the ridge constant and the correction that cross-validation on the training rows chooses."""
        kind = AnytimeClassifierCV if self.classes else AnytimeRegressorCV
        return kind(self.problem.groups, self.costs).fit(self.A, self.y if self.classes else self.numbers)


Order = list[int]
Sets = list[list[int]]


# -- orders ----------------------------------------------------------------------------------------------------


def model(train: Training, **params: Any) -> Any:
    """Fit budgetline."""
    kind = AnytimeClassifier if train.classes else AnytimeRegressor
    target = train.y if train.classes else train.numbers
    return kind(train.problem.groups, train.costs, alpha=train.alpha, **params).fit(train.A, target)


def ours(rule: str) -> Callable[[Training], Order]:
    return lambda train: model(train, rule=rule).order_.tolist()


def ours_by_cv(train: Training) -> Order:
    return train.searched.order_.tolist()


def groups_of(columns: Iterable[int], train: Training) -> Order:
    """Return groups in the order of their first columns."""
    return list(dict.fromkeys(int(g) for g in train.problem.labels[list(columns)]))


def merged(orders: list[list[int]]) -> list[int]:
    """Merge orders of columns, one per class, by the earliest step."""
    first: dict[int, int] = {}
    for order in orders:
        for step, column in enumerate(order):
            first[column] = min(step, first.get(column, step))
    return sorted(first, key=lambda column: first[column])


def by_omp(train: Training) -> Order:
    return by_columns(scikit_learn.omp_path, train)


def by_lars(train: Training) -> Order:
    return by_columns(partial(scikit_learn.lars_steps, ridge=train.alpha), train)


def by_columns(path: Callable[[np.ndarray, np.ndarray, int], np.ndarray], train: Training) -> Order:
    """Return the order of groups from a path of single columns, for each class on its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both say that columns are dependent, and stop there
        paths = [path(train.A, t, train.A.shape[1]) for t in train.numbers.T]
    return groups_of(merged([scikit_learn.entry_order(p) for p in paths]), train)


def forward_columns(train: Training) -> Order:
    """Forward selection of single columns: what SequentialFeatureSelector does, evaluated on the training rows."""
    found = AnytimeRegressor(alpha=train.alpha).fit(train.A, train.numbers)
    return groups_of(found.order_, train)


def by_fastcan(train: Training) -> Order:
    most = min(MOST_COLUMNS, int(np.linalg.matrix_rank(train.A)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return groups_of(fastcan.selected(train.A, train.numbers, most), train)


def entries(solve: Callable[[float], np.ndarray], lambdas: np.ndarray, train: Training) -> Order:
    """Return groups by the λ at which they enter; of those that enter together the one of the largest norm."""
    ends = np.cumsum(train.sizes) - train.sizes
    order: dict[int, None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in lambdas:
            norms = np.sqrt(np.add.reduceat(solve(value) ** 2, ends))
            order |= dict.fromkeys(int(g) for g in np.argsort(-norms, kind="stable") if norms[g] > 0)
    return list(order)


def by_celer(train: Training) -> Order:
    problem = train.problem
    small = triangle(train.A, problem.y)  # the same problem, sooner
    return entries(celer.solver(problem, *small), lambda_grid(*small, problem), train)


def by_our_lasso(train: Training) -> Order:
    found = GroupLassoPath(train.problem.groups, train.costs, alpha=train.alpha).fit(train.A, train.numbers)
    return found.order_.tolist()


def cheapest(train: Training) -> Order:
    return np.argsort(train.costs, kind="stable").tolist()


def shuffled(seed: int) -> Callable[[Training], Order]:
    return lambda train: np.random.default_rng(seed).permutation(train.sizes.size).tolist()


ORDERS: dict[str, tuple[str, Callable[[Training], Order]]] = {
    "forward": ("budgetline", ours("forward")),
    "forward, by CV": ("budgetline", ours_by_cv),
    "omp": ("budgetline", ours("omp")),
    "score": ("budgetline", ours("score")),
    "group lasso, celer": ("celer", by_celer),
    "group lasso, budgetline": ("budgetline", by_our_lasso),
    "scikit-learn OMP, columns": ("sklearn", by_omp),
    "scikit-learn LassoLars, columns": ("sklearn", by_lars),
    "forward selection, columns": ("budgetline", forward_columns),
    "fastcan, columns": ("fastcan", by_fastcan),
    "cheapest first": ("budgetline", cheapest),
}
SINGLE_TARGET = ("group lasso, celer",)


def prefix(order: Order, costs: np.ndarray, budget: float) -> list[int]:
    """Buy until the first group that no longer fits."""
    spent = np.cumsum(costs[order])
    return order[: int(np.searchsorted(spent, budget * (1 + 1e-12), side="right"))]


def filled(order: Order, costs: np.ndarray, budget: float) -> list[int]:
    """Buy what fits, and pass over what does not."""
    bought: list[int] = []
    for g in order:
        if costs[[*bought, g]].sum() <= budget * (1 + 1e-12):
            bought.append(g)
    return bought


# -- sets for a fixed budget -----------------------------------------------------------------------------------


def ours_planned(train: Training) -> Sets:
    """The plan for each budget, with the ridge constant and the correction that cross-validation chooses."""
    data = {"X": train.A, "y": train.y} if train.classes else {}  # candidates of classifiers are refitted
    plans = train.searched.plans(train.budgets.tolist(), time_limit=train.seconds * train.budgets.size, **data)
    return [list(map(int, plan.groups)) for plan in plans]


def ours_limited(train: Training) -> Sets:
    """budgetline with ``max_cost``: a sequence for each budget."""
    return [model(train, rule="forward", max_cost=float(b)).order_.tolist() for b in train.budgets]


def ours_best(train: Training) -> Sets:
    """The best set for each budget, of squared error on the numbers, also for logistic models."""
    fitted = AnytimeRegressor(train.problem.groups, train.costs, alpha=train.alpha).fit(train.A, train.numbers)
    plans = (fitted.plan(float(b), time_limit=train.seconds) for b in train.budgets)
    return [list(map(int, plan.groups)) for plan in plans]


def by_abess(train: Training) -> Sets:
    """The best set of each number of groups; at a budget, of those that fit the one that fits the data best."""
    kind = "LinearRegression" if train.single else "MultiTaskRegression"
    target = train.numbers[:, 0] if train.single else train.numbers
    if train.classes and train.single:
        kind, target = "LogisticRegression", (train.numbers[:, 0] > 0).astype(float)
    sets: list[tuple[float, list[int]]] = []
    for size in range(1, train.sizes.size + 1):
        # A little ridge: columns that repeat others have no least-squares solution.
        found = abess.best_subset(train.problem.labels, [size], kind, alpha=train.alpha).fit(
            train.A, target, is_normal=False
        )
        coef = np.asarray(found.coef_).reshape(train.A.shape[1], -1)
        sets.append((float(found.train_loss_), groups_of(np.flatnonzero(coef.any(axis=1)), train)))
    return [best_affordable(sets, train.costs, b) for b in train.budgets]


def best_affordable(sets: list[tuple[float, list[int]]], costs: np.ndarray, budget: float) -> list[int]:
    affordable = [(loss, chosen) for loss, chosen in sets if costs[chosen].sum() <= budget * (1 + 1e-12)]
    return min(affordable, key=lambda pair: pair[0])[1] if affordable else []


SETS: dict[str, tuple[str, Callable[[Training], Sets]]] = {
    "plan, by CV": ("budgetline", ours_planned),
    "forward with max_cost": ("budgetline", ours_limited),
    "best set": ("budgetline", ours_best),
    "abess, groups": ("abess", by_abess),
}


# -- trees -----------------------------------------------------------------------------------------------------


def boosted(train: Training, held: np.ndarray, tradeoffs: int, rounds: int) -> list[tuple[np.ndarray | None, float]]:
    """Return LightGBM's own predictions for held-out rows and the cost of its groups, at every budget.

    Of the trade-offs whose groups fit into the budget, the one with the smallest training loss.
    """
    values, codes = np.unique(train.y, return_inverse=True)
    real = train.y.dtype.kind == "f"
    target = train.y if real else codes
    objective = "regression" if real else "binary" if values.size == 2 else "multiclass"
    more = {"num_class": values.size} if objective == "multiclass" else {}
    shares = np.repeat(train.costs / train.sizes, train.sizes)
    scale = float(train.y.var()) if real else 1.0
    found = []
    for tradeoff in scale * np.geomspace(1e-4, 10, tradeoffs):
        trees = lightgbm.booster(train.A, target, shares, tradeoff, objective, rounds, num_threads=1, **more)
        cost = float(train.costs[groups_of(lightgbm.columns_used(trees), train)].sum())
        found.append((boosted_loss(trees.predict(train.A), target, objective), cost, trees))
    best = []
    for budget in train.budgets:
        fitting = [f for f in found if 0 < f[1] <= budget * (1 + 1e-12)]
        chosen = min(fitting, key=lambda f: f[0]) if fitting else None
        best.append((np.asarray(chosen[2].predict(held)), chosen[1]) if chosen else (None, 0.0))
    return best


def boosted_loss(predicted: np.ndarray, target: np.ndarray, objective: str) -> float:
    if objective == "regression":
        return float(np.mean((predicted - target) ** 2))
    of_class = np.where(target == 1, predicted, 1 - predicted) if predicted.ndim == 1 else None
    chosen = predicted[np.arange(len(target)), target] if of_class is None else of_class
    return float(-np.mean(np.log(np.maximum(chosen, 1e-15))))
