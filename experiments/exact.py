"""How close greedy sequences come to the best sequence, and their prefixes to the best sets.

``python experiments/exact.py --write docs/results/exact.md``; ``--quick`` runs a tiny version. Every sentence about who
wins is computed from the numbers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from exact_search import best_sequence, best_values
from paper_shapes import make_agricultural, make_yahoo
from sklearn import datasets

from budgetline import AnytimeRegressor, FeatureGroups, Moments
from budgetline.datasets import load_heart, load_nhanes, load_thyroid
from budgetline.evaluation import stopping_cost, timeliness
from budgetline.sequencing import GroupSequence

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from core import print_report

METHODS: dict[str, dict[str, Any]] = {
    "forward": {"rule": "forward"},
    "omp": {"rule": "omp"},
    "doubling": {"rule": "forward", "schedule": "doubling"},
    "static": {"rule": "static"},
    "cheapest": {"rule": "forward", "schedule": "cheapest"},
    "no-cost": {"rule": "forward", "cost_sensitive": False},
}
INTERPOLATIONS = ("step", "linear")
STOPS = ("the total cost", "97 % of omp")
SETTINGS = [(interpolation, stop) for stop in STOPS for interpolation in INTERPOLATIONS]
BUDGETS = (0.10, 0.25, 0.50)
EXACT, REPLANNED = "the best sequence", "forward, a new plan for each budget"
SAME = 1e-9
"""Ratios above 1 − SAME count as optimal: forward regression and the search agree to about that many digits."""
DRAWS = 3


# -- problems ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Moments and priced groups, at most 18 of them."""

    data: str
    variant: str
    moments: Moments
    groups: FeatureGroups

    @property
    def name(self) -> str:
        """Name of the data and of their modifications."""
        return f"{self.data}: {self.variant}"


def indicators(labels: np.ndarray) -> np.ndarray:
    """Return one 0/1 column per class, as targets of a linear classifier that minimises squared error."""
    return (labels[:, None] == np.unique(labels)).astype(float)


def some(groups: FeatureGroups, kept: np.ndarray) -> FeatureGroups:
    """Return the groups at these positions; the columns of the others are left out."""
    columns = {groups.names[g]: groups.columns[g] for g in kept}
    return FeatureGroups(columns, groups.costs[kept], remainder="drop")


def by_size(groups: FeatureGroups) -> FeatureGroups:
    """Return the same groups at a cost of 1 per column."""
    return groups.with_costs([len(columns) for columns in groups.columns])


def drawn(groups: FeatureGroups, count: int, seed: int) -> FeatureGroups:
    """Return some of the groups, drawn at random, in their own order."""
    rng = np.random.default_rng(seed)
    return some(groups, np.sort(rng.choice(len(groups), count, replace=False)))


def priced(data: str, X: np.ndarray, Y: np.ndarray, groups: Any) -> Iterator[Problem]:
    """Yield data without prices, with costs of 1 and with random costs between 1 and 100 (log-uniform)."""
    moments = Moments.from_data(X, Y)
    same = FeatureGroups.singletons(X.shape[1]) if groups is None else FeatureGroups(groups)
    yield Problem(data, "cost 1 each", moments, same)
    for seed in range(DRAWS):
        costs = np.exp(np.random.default_rng(seed).uniform(0.0, np.log(100.0), size=len(same)))
        yield Problem(data, f"costs 1–100, draw {seed}", moments, same.with_costs(costs))


def heart() -> Iterator[Problem]:
    """Yield the patients of one hospital and of all, in dollars and at a cost of 1 per column."""
    for sites in ("cleveland", "all"):
        data = load_heart(sites=sites)
        moments = Moments.from_data(data.data, data.target)
        yield Problem("heart", f"{sites}, dollars", moments, data.feature_groups)
        yield Problem("heart", f"{sites}, 1 per column", moments, by_size(data.feature_groups))


def thyroid() -> Iterator[Problem]:
    """Yield each class against the rest, all three, and the label as a number."""
    data = load_thyroid()
    classes = indicators(data.target)
    targets = {f"class {k + 1}, dollars": classes[:, k] for k in range(3)}
    targets |= {"all classes, dollars": classes, "label, dollars": data.target.astype(float)}
    for variant, y in targets.items():
        yield Problem("thyroid", variant, Moments.from_data(data.data, y), data.feature_groups)
    yield Problem("thyroid", "label, 1 per column", Moments.from_data(data.data, y), by_size(data.feature_groups))


def nhanes() -> Iterator[Problem]:
    """Yield the 18 cheapest components, and 15 drawn at random, with and without the questions about diabetes."""
    for drop, label in (((), "with DIQ"), (("DIQ",), "without DIQ")):
        data = load_nhanes(drop=drop)
        moments, groups = Moments.from_data(data.data, data.target), data.feature_groups
        cheapest = some(groups, np.sort(np.argsort(groups.costs, kind="stable")[:18]))
        yield Problem("NHANES", f"{label}, 18 cheapest", moments, cheapest)
        yield Problem("NHANES", f"{label}, 18 cheapest, 1 per column", moments, by_size(cheapest))
        for seed in range(2 * DRAWS):
            yield Problem("NHANES", f"{label}, 15 drawn, draw {seed}", moments, drawn(groups, 15, seed))


def scikit_learn(name: str) -> Callable[[], Iterator[Problem]]:
    """Return a source of one of scikit-learn's tables, each column a group, classes as indicators."""

    def problems() -> Iterator[Problem]:
        data = getattr(datasets, f"load_{name}")()
        Y = data.target if name in ("diabetes", "linnerud") else indicators(data.target)
        return priced(name, data.data, Y, None)

    return problems


def breast_cancer() -> Iterator[Problem]:
    """Yield ten properties of cell nuclei, each with its mean, its standard error and its worst value."""
    data = datasets.load_breast_cancer()
    groups = {str(data.feature_names[k]).removeprefix("mean "): [k, k + 10, k + 20] for k in range(10)}
    return priced("breast cancer", data.data, data.target.astype(float), groups)


def digits() -> Iterator[Problem]:
    """Yield 8 × 8 images, read row by row or column by column."""
    data = datasets.load_digits()
    pixels = np.arange(64).reshape(8, 8)
    yield from priced("digits, rows", data.data, indicators(data.target), pixels.tolist())
    yield from priced("digits, columns", data.data, indicators(data.target), pixels.T.tolist())


def generated() -> Iterator[Problem]:
    """Yield 15 groups, drawn from generated data of the paper's shapes, with the generators' costs."""
    for data, make in (("agricultural", make_agricultural), ("yahoo", make_yahoo)):
        for seed in range(DRAWS):
            bunch = make(5000, random_state=seed)
            groups = drawn(bunch.feature_groups, 15, seed)
            yield Problem(
                f"{data} (synthetic)", f"15 drawn, draw {seed}", Moments.from_data(bunch.data, bunch.target), groups
            )


QUICK = (heart, scikit_learn("iris"), scikit_learn("linnerud"))
TABLES = map(scikit_learn, ("diabetes", "wine", "iris", "linnerud"))
SOURCES = (heart, thyroid, nhanes, *TABLES, breast_cancer, digits, generated)


# -- measurements ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """The results of one problem. Ratios are NaN where not even the best explains anything.

    ``optimum`` is the timeliness of the best sequences, shape (settings,); ``ratios`` is that of each method over it,
    and ``at_budgets`` F of its prefix over F of the best set, shape (budgets,).
    """

    problem: Problem
    best: dict[tuple[str, str], GroupSequence]
    sequences: dict[str, GroupSequence]
    optimum: np.ndarray
    ratios: dict[str, np.ndarray]
    at_budgets: dict[str, np.ndarray]
    seconds: float


def explained_at(sequence: GroupSequence, budget: float) -> float:
    """Return F of the longest prefix that the budget pays for."""
    return float(sequence.gains[: sequence.stage_at(budget)].sum())


def measure(problem: Problem) -> Result:
    """Find the best sequences and sets of one problem and compare every method with them."""
    moments, groups = problem.moments, problem.groups
    fitted = {m: AnytimeRegressor(groups, **params).fit_moments(moments).sequence_ for m, params in METHODS.items()}
    total = float(groups.costs.sum())
    stops = dict(zip(STOPS, (total, stopping_cost(fitted["omp"], 0.97)), strict=True))
    start = time.perf_counter()
    best = {(r, s): best_sequence(moments, groups, stop=stops[s], interpolation=r) for r, s in SETTINGS}
    most = best_values(moments, groups, budgets=[share * total for share in BUDGETS])
    seconds = time.perf_counter() - start
    optimum = np.array([timeliness(best[r, s], stops[s], interpolation=r) for r, s in SETTINGS])
    compared = {**fitted, EXACT: best[SETTINGS[0]]}
    ratios, at_budgets = {}, {}
    for method, sequence in compared.items():
        own = np.array([timeliness(sequence, stops[s], interpolation=r) for r, s in SETTINGS])
        explained = np.array([explained_at(sequence, share * total) for share in BUDGETS])
        ratios[method], at_budgets[method] = ratio(own, optimum), ratio(explained, most)
    plans = [AnytimeRegressor(groups, max_cost=share * total).fit_moments(moments).sequence_ for share in BUDGETS]
    at_budgets[REPLANNED] = ratio(np.array([plan.gains.sum() for plan in plans]), most)
    return Result(problem, best, compared, optimum, ratios, at_budgets, seconds)


def ratio(own: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return own/best, NaN where both are zero; an error if a value exceeds the best."""
    found = np.divide(own, best, out=np.full(best.shape, np.nan), where=best > 0)
    if np.any(found > 1 + SAME):
        raise RuntimeError(f"a ratio of {np.nanmax(found)} to what should be the best")
    return found


# -- tables ------------------------------------------------------------------------------------------------------


def summary(ratios: np.ndarray, names: list[str]) -> list[str]:
    """Return cells: the mean, the worst ratio and its problem, and the number of problems with a ratio of 1."""
    known = ~np.isnan(ratios)
    worst = int(np.nanargmin(ratios))
    hits = int(np.sum(ratios[known] >= 1 - SAME))
    return [f"{ratios[known].mean():.4f}", f"{ratios[worst]:.4f}", names[worst], f"{hits} of {known.sum()}"]


def table(column: dict[str, np.ndarray], names: list[str]) -> list[str]:
    """Return the table of one setting; ``column`` has the ratios (problems,) of every method."""
    lines = ["| method | mean | worst | worst on | optimal on |", "|---|---|---|---|---|"]
    return [*lines, *(f"| {m} | {' | '.join(summary(r, names))} |" for m, r in column.items())]


def versus(column: dict[str, np.ndarray], others: Iterable[str]) -> list[str]:
    """Return the number of problems on which forward is ahead of, behind, or equal to each other method."""
    lines = ["| forward compared with | ahead | behind | equal |", "|---|---|---|---|"]
    for other in others:
        gap = (column["forward"] - column[other])[~np.isnan(column["forward"])]
        ahead, behind = int(np.sum(gap > SAME)), int(np.sum(gap < -SAME))
        lines.append(f"| {other} | {ahead} | {behind} | {gap.size - ahead - behind} |")
    return [*lines, ""]


def verdict(column: dict[str, np.ndarray]) -> list[str]:
    """Return the methods with the best mean and the best worst case, and the losses of forward."""
    means = {m: float(np.nanmean(r)) for m, r in column.items()}
    worsts = {m: float(np.nanmin(r)) for m, r in column.items()}
    by_mean, by_worst = max(means, key=means.__getitem__), max(worsts, key=worsts.__getitem__)
    loss = (1 - column["forward"][~np.isnan(column["forward"])]) * 100
    worst = f"the best worst case ({worsts[by_worst]:.4f})"
    return [
        f"`{by_mean}` has the best mean ({means[by_mean]:.4f})"
        + (f" and {worst}. " if by_mean == by_worst else f", and `{by_worst}` has {worst}. ")
        + f"On average, the timeliness of `forward` is {loss.mean():.2f} % lower than the timeliness of the best "
        f"sequence (median {np.median(loss):.2f} %). It is more than 1 % lower on {np.sum(loss > 1)} of {len(loss)} "
        "problems.",
        "",
        *versus(column, [other for other in METHODS if other != "forward"]),
    ]


def timeliness_section(results: list[Result]) -> list[str]:
    """Return a table and a verdict for every stop and interpolation."""
    names = [r.problem.name for r in results]
    lines = []
    for k, (interpolation, stop) in enumerate(SETTINGS):
        column = {m: np.array([r.ratios[m][k] for r in results]) for m in METHODS}
        lines += [f"### Up to {stop}, {interpolation} interpolation", "", *table(column, names), ""]
        if empty := int(np.isnan(column["forward"]).sum()):
            which = "problem is" if empty == 1 else "problems are"
            lines += [f"{empty} {which} left out, because every sequence has an area of 0 in this range.", ""]
        if late := int(np.sum(column["forward"] == 0)):
            lines += [
                f"On {late} problem{'s' * (late > 1)}, `forward` completes its first group only at the end of this "
                "range, so the area under its curve is 0.",
                "",
            ]
        lines += verdict(column)
    return lines


def budget_section(results: list[Result]) -> list[str]:
    """Return how much prefixes explain, as a share of what the best set for the same budget explains."""
    names = [r.problem.name for r in results]
    lines = []
    for k, share in enumerate(BUDGETS):
        column = {m: np.array([r.at_budgets[m][k] for r in results]) for m in (*METHODS, EXACT, REPLANNED)}
        lines += [f"### {share * 100:.0f} % of the total cost", "", *table(column, names), ""]
        if empty := int(np.isnan(column["forward"]).sum()):
            which = "problem is" if empty == 1 else "problems are"
            lines += [f"{empty} {which} left out, because nothing can be bought within this budget.", ""]
        ranked = sorted(METHODS, key=lambda m: -float(np.nanmean(column[m])))
        lines += [f"Among the sequences, `{ranked[0]}` has the best mean.", "", *versus(column, (EXACT, REPLANNED))]
    return lines


def worst_section(results: list[Result]) -> list[str]:
    """Return both orders for the problems on which forward regression loses most."""
    lines = ["| problem | forward / best | order of forward | best order |", "|---|---|---|---|"]
    for r in sorted(results, key=lambda r: float(r.ratios["forward"][0]))[:5]:
        orders = [" ".join(s.groups) for s in (r.sequences["forward"], r.best[SETTINGS[0]])]
        lines.append(f"| {r.problem.name} | {r.ratios['forward'][0]:.4f} | {orders[0]} | {orders[1]} |")
    return lines


def problem_section(results: list[Result]) -> list[str]:
    """Return all problems, for the first setting."""
    lines = [
        f"| problem | groups | columns | best timeliness | {' | '.join(METHODS)} |",
        "|---" * (4 + len(METHODS)) + "|",
    ]
    for r in results:
        groups = r.problem.groups
        size = f"{len(groups)} | {sum(map(len, groups.columns))}"
        cells = " | ".join(f"{r.ratios[m][0]:.4f}" for m in METHODS)
        lines.append(f"| {r.problem.name} | {size} | {r.optimum[0]:.4f} | {cells} |")
    return lines


# -- the report --------------------------------------------------------------------------------------------------

HEAD = """\
# Greedy compared with the exact optimum

Made by `python experiments/exact.py --write docs/results/exact.md`.

For up to 18 groups, the best sequence and the best set at every budget can be found exactly. All 2^J sets of J groups
are evaluated, and dynamic programming over the sets finds the sequence with the largest area under the curve of F (the
reduction of the loss) against cost. All figures are ratios to this optimum, so 1 is optimal. They are measured on
training data and say nothing about new data.

The loss is squared error, and `alpha` is 1e-5. Classes are coded as 0/1 indicators, unless the name of the problem says
that the target is a single class, or the class label treated as a number. The methods `doubling`, `cheapest` and
`no-cost` use the rule `forward`.

Heart and thyroid (dollars) and NHANES (scores of inconvenience) have real costs. The costs of agricultural and yahoo
are generated together with the data. Other data have made-up costs: 1 per group, 1 per column if groups differ in size,
or random costs between 1 and 100 (log-uniform). "15 drawn" means that 15 groups were selected at random. The number of
a draw is its random seed. Problems from the same data set are not independent, and data sets with many problems have
more weight in the means.

The following argument explains why `forward` is so close to optimal with step interpolation. Suppose that the groups g
and h are bought, in this order, directly after the set S. Exchanging them changes the area under the curve by c(g) c(h)
(r_h − r_g), where r_g = (F(S ∪ g) − F(S))/c(g). A sequence that always buys the group with the best rate r therefore
cannot be improved by exchanging neighbours, but only by larger changes to the order. With linear interpolation,
exchanging neighbours may improve the sequence.
"""


def report(sources: tuple[Callable[[], Iterator[Problem]], ...]) -> list[str]:
    """Run everything and return the lines of the report."""
    results = [measure(problem) for source in sources for problem in source()]
    slowest = max(results, key=lambda r: r.seconds)
    return [
        HEAD,
        f"There are {len(results)} problems with {min(len(r.problem.groups) for r in results)} to "
        f"{max(len(r.problem.groups) for r in results)} groups. For each problem, the exact search finds the best "
        "sequence in each of the four settings below, and the best set at each budget. This took "
        f"{np.median([r.seconds for r in results]):.2f} s for the median problem and {slowest.seconds:.1f} s for the "
        f"slowest problem, “{slowest.problem.name}”.",
        "",
        "## Timeliness relative to the best sequence",
        "",
        "Step interpolation keeps the value of a stage until the next stage is complete. Linear interpolation, as in "
        "the paper, connects stages with straight lines. Timeliness is measured up to the total cost, and up to the "
        "cost at which `omp` has reached 97 % of what it finally explains.",
        "",
        *timeliness_section(results),
        "## F at a budget relative to the best set",
        "",
        "A budget buys the longest affordable prefix of a sequence. The best set for one budget need not contain the "
        "best set for a smaller budget, so in general no sequence is best at every budget. The tables also show two "
        f"methods for reference. “{EXACT.capitalize()}” has the largest area with step interpolation up to the total "
        f"cost. “{REPLANNED.removeprefix('forward, ').capitalize()}” is not an anytime method, and it skips groups "
        "that do not fit into the budget.",
        "",
        *budget_section(results),
        "## Where forward regression is furthest from the best sequence (step interpolation, total cost)",
        "",
        *worst_section(results),
        "",
        "## All problems (step interpolation, total cost)",
        "",
        *problem_section(results),
        "",
    ]


if __name__ == "__main__":
    print_report(report, SOURCES, QUICK, __doc__)
