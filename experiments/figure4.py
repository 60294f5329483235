"""Figure 4 of the paper: whitened groups compared with features that are normalised one by one.

``python experiments/figure4.py --write docs/results/figure4.md`` (about a minute on two cores); ``--quick`` runs a tiny
version; ``--data FILE … --costs FILE`` reads the real Yahoo! files, see ``ranking.py``. Every sentence is computed from
the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from figure3 import at_every_budget, stated, timeliness_gap
from matplotlib.figure import Figure
from page import Page, draw_curves, panels, run, whose
from paper_shapes import make_agricultural
from ranking import Web, generated
from sklearn.model_selection import GroupKFold, KFold

from budgetline import AnytimeRegressor, FeatureGroups, compare
from budgetline.evaluation import Comparison

STOP, SIZE = 0.97, 10
NAMES = {"CS-G-OMP": "omp", "No-Whiten": "no-whiten"}


@dataclass(frozen=True)
class Effort:
    """How much to run."""

    rows: int = 100_000
    folds: int = 5


QUICK = Effort(rows=2000, folds=2)


@dataclass(frozen=True)
class Panel:
    """One data set: its comparison, the mean stopping cost, and the mean correlation of columns within groups."""

    title: str
    unit: str
    found: Comparison
    stop: float
    within: float


def panel(title: str, unit: str, X: np.ndarray, y: np.ndarray, groups: FeatureGroups, ridge: float, cv: list) -> Panel:  # type: ignore[type-arg]
    """Compare selection with and without whitening on one data set."""
    methods = {name: AnytimeRegressor(groups, rule=rule, alpha=ridge) for name, rule in NAMES.items()}
    found = compare(methods, X, y, cv=cv, fraction=STOP, interpolation="linear")
    stop = float(np.mean([row["stop_cost"] for row in found.rows]))
    return Panel(title, unit, found, stop, within_groups(X, groups))


def within_groups(X: np.ndarray, groups: FeatureGroups) -> float:
    """Return the mean absolute correlation of two columns of one group."""
    C = np.abs(np.corrcoef(X[:20_000], rowvar=False))
    pairs = [C[np.ix_(c, c)][np.triu_indices(len(c), 1)] for c in map(list, groups.columns) if len(c) > 1]
    return float(np.mean(np.concatenate(pairs)))


def figure(shown: list[Panel]) -> Figure:
    """Draw one panel per data set."""
    picture, axes = panels(len(shown))
    for ax, p in zip(axes, shown, strict=True):
        draw_curves(ax, p.found.curves, p.stop)
        ax.set(title=p.title, xlabel=f"cost{p.unit}", ylabel="explained variance, F/R(∅)")
        ax.set_ylim(0, None)
    axes[0].legend(loc="lower right")
    return picture


HEAD = """\
# Figure 4: group whitening

Made by `python experiments/figure4.py --write docs/results/figure4.md`.

**The paper** reports that "group whitening consistently results in the better predictions" on both data sets. This is
expected when groups contain correlated features, because whitening "prevents [the] selection step from overestimating
the predictive power of feature groups of repeated good features". CS-G-OMP scores a group by r_g' C_g⁻¹ r_g. No-Whiten
scores it by ‖r_g‖², after each column has been scaled to unit variance. Both methods then fit the same kind of model to
the chosen groups.
"""


def report(effort: Effort, web: Web | None) -> Page:
    """Run everything."""
    shown = []
    if web is None:
        field = make_agricultural(effort.rows, random_state=0)
        folds = list(KFold(effort.folds, shuffle=True, random_state=0).split(field.data))
        shown.append(
            panel("(a) Agricultural shape", " (seconds)", field.data, field.target, field.feature_groups, 1e-7, folds)
        )
    data = web or generated(effort.rows)
    folds = list(GroupKFold(effort.folds).split(data.data, data.target, data.qid))
    title = f"(b) {whose(web).removesuffix(' (generated)')}, groups of {SIZE}"
    shown.append(panel(title, "", data.data, data.target, data.groups(SIZE, 0), 1e-5, folds))
    where = f"on the held-out rows of {effort.folds} folds, up to the {STOP}-stopping cost"
    page = Page([HEAD, f"The figure shows curves {where}. The table shows the timeliness of these curves.", ""])
    page.show("figure4", figure(shown), "Whitened and not whitened")
    page.add("| method | " + " | ".join(p.title for p in shown) + " |", "|---" * (1 + len(shown)) + "|")
    for name in NAMES:
        page.add(f"| {name} | " + " | ".join(f"{p.found.summary()[name]['timeliness']:.4f}" for p in shown) + " |")
    within = " | ".join(f"{p.within:.2f}" for p in shown)
    page.add(f"| mean absolute correlation within groups | {within} |", "")
    for p in shown:
        share = at_every_budget(p.found.curves["CS-G-OMP"], p.found.curves["No-Whiten"], p.stop)
        gap = timeliness_gap(p.found, "CS-G-OMP", "No-Whiten")
        page.add(
            f"- {p.title}: the claim that CS-G-OMP has a higher {STOP}-timeliness than No-Whiten {stated(gap)}. "
            f"CS-G-OMP is at least as good as No-Whiten at {share:.0%} of the budgets."
        )
    page.add("")
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__, web=True)
