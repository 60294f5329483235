"""Figure 3 of the paper: the plateau, the α-stopping costs, and what is lost if costs are ignored.

``python experiments/figure3.py --write docs/results/figure3.md`` (about a minute on two cores); ``--quick`` runs a tiny
version; ``--data FILE … --costs FILE`` reads the real Yahoo! files, see ``ranking.py``. Every sentence is computed from
the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from page import GREY, STYLES, Page, draw_curves, panels, run
from paper_curves import plateau
from ranking import Web, generated
from sklearn.model_selection import GroupKFold
from tables import verdict

from budgetline import AnytimeRegressor, BudgetCurve, compare, stopping_cost, timeliness
from budgetline.evaluation import Comparison

RIDGE, SIZE = 1e-5, 10
FRACTIONS = (0.95, 0.96, 0.97, 0.98, 0.99, 1.0)
STOP = 0.97


@dataclass(frozen=True)
class Effort:
    """How much to run."""

    rows: int = 100_000
    folds: int = 5


QUICK = Effort(rows=2000, folds=2)


def at_every_budget(above: BudgetCurve, below: BudgetCurve, stop: float, points: int = 1000) -> float:
    """Return the share of budgets up to the stop at which the mean of the first curve is not below the second's."""
    grid = np.linspace(0, stop, points)
    gap = above.at(grid, interpolation="linear") - below.at(grid, interpolation="linear")
    return float(np.mean(gap >= -1e-12))


def timeliness_gap(found: Comparison, above: str, below: str) -> np.ndarray:
    """Return paired differences of timeliness, fold by fold."""
    by = {m: np.array([row["timeliness"] for row in found.rows if row["method"] == m]) for m in (above, below)}
    return np.asarray(by[above] - by[below])


def stated(gap: np.ndarray) -> str:
    """Return the verdict on paired differences as the end of a sentence that begins with "The claim"."""
    found = verdict(gap).replace("**equal**", "is open: both are **equal**")
    return f"is {found}" if found.startswith("**undecided") else found


def figure(training: BudgetCurve, stops: dict[float, float], found: Comparison, stop: float) -> Figure:
    """Draw the training curve with its stopping costs, and both methods up to the stop."""
    picture, (left, right) = panels(2)
    left.plot(training.costs, training.values, **STYLES["CS-G-OMP"])
    left.xaxis.set_major_locator(MaxNLocator(5))
    for k, (fraction, cost) in enumerate(stops.items()):
        left.axvline(cost, color=GREY, linewidth=0.8)
        place = (cost, (0.08 + 0.08 * k) * training.values.max())
        left.annotate(
            f"{fraction:g}",
            place,
            (-3, 0),
            textcoords="offset points",
            fontsize=8.5,
            ha="right",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )
    left.set(title="(a) α-stopping costs, CS-G-OMP, training", xlabel="cost", ylabel="explained variance, F/R(∅)")
    left.set_ylim(0, None)
    draw_curves(right, {m: found.curves[m] for m in ("CS-G-OMP", "G-OMP")}, stop)
    right.set(title="(b) With and without costs, held-out", xlabel="cost", ylabel="explained variance, F/R(∅)")
    right.set_ylim(0, None)
    right.legend(loc="lower right")
    return picture


HEAD = """\
# Figure 3: the plateau, and why costs matter

Made by `python experiments/figure3.py --write docs/results/figure3.md`.

**The paper** reports for Yahoo! that "the last one percent of total improvement is bought by half of the total
feature cost", and that "CS-G-OMP achieves a better overall prediction at every budget" than G-OMP, which ignores
costs.
"""


def report(effort: Effort, web: Web | None) -> Page:
    """Run everything."""
    data = web or generated(effort.rows)
    groups = data.groups(SIZE, 0)
    methods = {
        "CS-G-OMP": AnytimeRegressor(groups, rule="omp", alpha=RIDGE),
        "G-OMP": AnytimeRegressor(groups, rule="omp", alpha=RIDGE, cost_sensitive=False),
    }
    whole = methods["CS-G-OMP"].fit(data.data, data.target)
    training = BudgetCurve.of(whole)
    stops = {fraction: stopping_cost(whole, fraction) for fraction in FRACTIONS}
    cv = list(GroupKFold(effort.folds).split(data.data, data.target, data.qid))
    found = compare(methods, data.data, data.target, cv=cv, fraction=STOP, interpolation="linear")
    stop = stops[STOP]
    page = Page(
        [
            HEAD,
            f"The data are {'generated with the shape of the Yahoo! data' if web is None else web.name}: n = "
            f"{len(data.target):,} rows and groups of {SIZE} columns. They are split into {effort.folds} folds, "
            "and all rows of a query are in the same fold.",
            "",
        ]
    )
    page.show("figure3", figure(training, stops, found, stop), "Plateau and stopping costs; CS-G-OMP and G-OMP")
    page.add(
        "| method | α | stopping cost | share of the total cost | α-timeliness, training |", "|---|---|---|---|---|"
    )
    for fraction, cost in stops.items():
        page.add(
            f"| CS-G-OMP | {fraction:g} | {cost:,.0f} | {cost / training.total_cost:.1%} | "
            f"{timeliness(training, cost, interpolation='linear'):.4f} |"
        )
    last = 1 - stops[0.99] / training.total_cost
    begins = plateau(whole)
    share = at_every_budget(found.curves["CS-G-OMP"], found.curves["G-OMP"], stop)
    grid = np.linspace(0, stop, 1000)
    gap = found.curves["CS-G-OMP"].at(grid, interpolation="linear") - found.curves["G-OMP"].at(
        grid, interpolation="linear"
    )
    page.add(
        "",
        f"- The last percent takes {last:.0%} of the total cost (half in the paper). The claim that the curve "
        f"has a plateau, by the paper's definition, **{'holds' if begins < 1 else 'does not hold'}**."
        + (f" The plateau begins at α = {begins:g} (0.99 in the paper)." if begins < 1 else ""),
        f"- On held-out rows, CS-G-OMP is at least as good as G-OMP at {share:.1%} of the budgets up to the "
        f"{STOP}-stopping cost (smallest difference {gap.min():+.4f}, largest {gap.max():+.4f}). The claim that it is "
        f"at least as good at every budget **{'holds' if share == 1 else 'does not hold'}**.",
        f"- The claim that CS-G-OMP has a higher {STOP}-timeliness than G-OMP "
        f"{stated(timeliness_gap(found, 'CS-G-OMP', 'G-OMP'))}.",
        "",
    )
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__, web=True)
