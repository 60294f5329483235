"""Why FR and OMP hardly differ on the generated data: the difference depends on the correlation between groups.

``python experiments/correlation.py --write docs/results/correlation.md`` (about 4 minutes on two cores); ``--quick``
runs a tiny version. Every sentence about who wins is computed from the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import paper_shapes
from matplotlib.figure import Figure
from page import BLUE, ORANGE, Page, panels, run
from paper_shapes import make_agricultural
from scipy.linalg import cholesky
from scipy.stats import norm
from tables import verdict

from budgetline import AnytimeRegressor, FeatureGroups, Moments, budget_curve, stopping_cost, timeliness
from budgetline.datasets import load_heart, load_mfeat, load_nhanes, load_thyroid

RIDGE, STOP = 1e-7, 0.97
NOISE, POSITIVE = 0.03, 0.239
"""The noise of the score behind the labels, and the share of the second label, as in the generator."""


@dataclass(frozen=True)
class Effort:
    """How much to run: the number of training rows (and of test rows), of seeds, and the settings."""

    rows: int = 10_000
    seeds: int = 8
    weights: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
    factors: tuple[int, ...] = (8, 2)
    shares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


QUICK = Effort(rows=1000, seeds=2, weights=(0.0, 4.0), factors=(2,), shares=(0.0, 0.75))


@dataclass(frozen=True)
class Found:
    """For every seed: held-out timeliness of FR and OMP, and the redundancy of groups in OMP's order."""

    forward: np.ndarray
    omp: np.ndarray
    redundancy: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """The difference in timeliness, FR − OMP."""
        return self.forward - self.omp


def shared_factors(seed: int, rows: int, weight: float, factors: int) -> tuple[np.ndarray, np.ndarray, FeatureGroups]:
    """Return data from the generator with a given weight and number of the factors that all groups share."""
    with (
        patch.object(paper_shapes, "SHARED_WEIGHT", weight),
        patch.object(paper_shapes, "N_SHARED_FACTORS", factors),
    ):
        field = make_agricultural(rows, random_state=seed)
    return field.data, field.target.astype(float), field.feature_groups


def derived_groups(seed: int, rows: int, share: float) -> tuple[np.ndarray, np.ndarray, FeatureGroups]:
    """Return data in which each group of one half repeats a group of the other, up to ``share`` of its variance.

    Groups of the generator without shared factors are independent. Half of them, drawn at random, become
    √share · (random combinations of another group's columns) + √(1 − share) · (their own columns). The label is a
    threshold of a linear score with geometrically decreasing weights of the groups, as in the generator.
    """
    X, _, groups = shared_factors(seed, rows, 0.0, 8)
    rng = np.random.default_rng(seed)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    columns = [list(c) for c in groups.columns]
    drawn = rng.permutation(len(columns))
    derived, others = np.split(drawn, [len(columns) // 2])
    for g in derived:
        parent = X[:, columns[rng.choice(others)]]
        repeated = parent @ rng.standard_normal((parent.shape[1], len(columns[g])))
        X[:, columns[g]] = np.sqrt(share) * repeated / repeated.std(axis=0) + np.sqrt(1 - share) * X[:, columns[g]]
    strength = rng.permutation(np.exp(-np.arange(len(columns)) / paper_shapes.FIELD_DECAY))
    score = np.zeros(rows)
    for members, weight in zip(columns, strength, strict=True):
        part = X[:, members] @ rng.standard_normal(len(members))
        score += weight * part / part.std()
    noisy = np.sqrt(1 - NOISE) * score / score.std() + np.sqrt(NOISE) * rng.standard_normal(rows)
    return X, (noisy > norm.isf(POSITIVE)).astype(float), groups


def redundancy(moments: Moments, model: AnytimeRegressor) -> float:
    """Return the share of a group's variance that the groups before it in the order explain, averaged over columns."""
    columns = [c for g in model.order_ for c in model.feature_groups_.columns[g]]
    sizes = [len(model.feature_groups_.columns[g]) for g in model.order_]
    scatter = moments.scatter[np.ix_(columns, columns)]
    scale = np.sqrt(np.diag(scatter))
    kept = scale > 0
    C = (scatter / np.where(kept, np.outer(scale, scale), 1.0))[np.ix_(kept, kept)]
    U = cholesky(C + 1e-9 * np.eye(len(C)))  # the last block of U'U is what is left of a group
    group = np.repeat(np.arange(len(sizes)), sizes)[kept]
    left = np.sum(U**2 * (group[:, None] == group), axis=0)
    return float(1 - left.mean())


def measure(make: Callable[[int], tuple[np.ndarray, np.ndarray, FeatureGroups]], seeds: int) -> Found:
    """Fit both rules on the first half of the rows of every seed and evaluate them on the second."""
    results = []
    for seed in range(seeds):
        X, y, groups = make(seed)
        half = len(y) // 2
        train, test = Moments.from_data(X[:half], y[:half]), Moments.from_data(X[half:], y[half:])
        models = {r: AnytimeRegressor(groups, rule=r, alpha=RIDGE).fit_moments(train) for r in ("forward", "omp")}
        stop = stopping_cost(models["omp"], STOP)
        scores = [timeliness(budget_curve(model, test), stop, interpolation="linear") for model in models.values()]
        results.append([*scores, redundancy(train, models["omp"])])
    return Found(*np.array(results).T)


def in_sample(X: np.ndarray, Y: np.ndarray, groups: FeatureGroups, alpha: float) -> tuple[float, float]:
    """Return the redundancy of real data and FR − OMP on their training curves, over the whole cost."""
    moments = Moments.from_data(X, Y)
    models = {r: AnytimeRegressor(groups, rule=r, alpha=alpha).fit_moments(moments) for r in ("forward", "omp")}
    return redundancy(moments, models["omp"]), timeliness(models["forward"], interpolation="linear") - timeliness(
        models["omp"], interpolation="linear"
    )


def real() -> dict[str, tuple[float, float]]:
    """Return the same two numbers for real data, squared loss, costs as loaded."""
    found = {}
    sets = {
        "NHANES": load_nhanes(),
        "NHANES without DIQ": load_nhanes(drop=("DIQ",)),
        "heart": load_heart(),
        "thyroid": load_thyroid(),
        "mfeat": load_mfeat(),
    }
    for name, data in sets.items():
        labels = np.unique(data.target)
        Y = data.target.astype(float) if "NHANES" in name else (data.target[:, None] == labels).astype(float)
        found[name] = in_sample(data.data, Y, data.feature_groups, 1e-3)
    return found


# -- the page --------------------------------------------------------------------------------------------------

HEAD = """\
# Between-group correlation decides whether FR beats OMP

Made by `python experiments/correlation.py --write docs/results/correlation.md`.

In the paper, the timeliness of FR is 0.002 to 0.012 higher than the timeliness of OMP. On budgetline's generated data,
the difference is less than 0.001 ([tables](tables.md)). The scores of the two rules differ in one matrix. OMP scores a
group by r_g' C_g⁻¹ r_g, and FR by r_g' (C_g − C_gS C_S⁻¹ C_Sg)⁻¹ r_g. FR first removes from each group the part that
the chosen groups S explain. OMP does not do this, so it underestimates groups that depend on the chosen groups.

If groups are independent, the two scores are equal. If the chosen groups explain the same share of every other group,
OMP underestimates all of these groups equally, so the order is again the same. The rules differ when groups depend on
the chosen groups to different degrees and still carry information of their own.

This experiment therefore varies only the dependence between groups. All other settings of the generators keep their
default values, and all generated data have the Agricultural shape. Timeliness is measured on held-out rows, with linear
interpolation, up to OMP's 0.97-stopping cost. *Redundancy* is the share of a group's variance that is explained by the
groups before it in OMP's order, averaged over columns.
"""


def line(label: str, found: Found) -> str:
    """Return a row of a table."""
    return (
        f"| {label} | {found.redundancy.mean():.2f} | {found.omp.mean():.4f} | {found.gap.mean():+.5f} | "
        f"{found.gap.max():+.5f} | {verdict(found.gap)} |"
    )


def table(head: str, rows: dict[str, Found]) -> list[str]:
    """Return a table with one line per setting."""
    lines = [f"| {head} | redundancy | OMP | FR − OMP, mean | largest | FR > OMP |", "|---" * 6 + "|"]
    return [*lines, *(line(label, found) for label, found in rows.items()), ""]


def figure(shared: dict[tuple[int, float], Found], derived: dict[float, Found]) -> Figure:
    """Draw FR − OMP against both settings."""
    picture, axes = panels(2)
    for factors, style in zip(
        dict.fromkeys(k[0] for k in shared), ({"color": BLUE}, {"color": ORANGE, "ls": "--"}), strict=False
    ):
        mine = {w: found for (f, w), found in shared.items() if f == factors}
        _errorbars(axes[0], list(mine), list(mine.values()), label=f"{factors} shared factors", **style)
    _errorbars(axes[1], list(derived), list(derived.values()), color=BLUE)
    axes[0].set(title="All groups share factors", xlabel="weight of the shared factors (1 is the default)")
    axes[1].set(title="Half of the groups repeat another", xlabel="share of their variance that is repeated")
    axes[0].legend()
    for ax in axes:
        ax.axhline(0, color="#bbbbbb", linewidth=0.8, zorder=0)
        ax.set_ylabel("timeliness, FR − OMP")
    return picture


def _errorbars(ax, x: list[float], found: list[Found], **style) -> None:  # type: ignore[no-untyped-def]
    mean = [f.gap.mean() for f in found]
    error = [f.gap.std(ddof=1) / np.sqrt(f.gap.size) for f in found]
    ax.errorbar(x, mean, error, marker="o", markersize=4, capsize=2, **style)


def report(effort: Effort) -> Page:
    """Run everything."""
    rows = 2 * effort.rows
    shared = {
        (f, w): measure(lambda seed, f=f, w=w: shared_factors(seed, rows, w, f), effort.seeds)
        for f in effort.factors
        for w in effort.weights
    }
    derived = {s: measure(lambda seed, s=s: derived_groups(seed, rows, s), effort.seeds) for s in effort.shares}
    peak = max(derived, key=lambda s: derived[s].gap.mean())
    largest = max(found.gap.max() for found in (*shared.values(), *derived.values()))
    top = max(float(found.gap.mean()) for found in (*shared.values(), *derived.values()))
    rows = f"{effort.rows:,} training and {effort.rows:,} test rows"
    page = Page([HEAD, f"Each setting is run with {effort.seeds} random seeds. Each run has {rows}.", ""])
    page.show("correlation", figure(shared, derived), "FR − OMP against the dependence between groups")
    page.add("## All groups share factors (two constants of the generator are varied)", "")
    page.add(*table("factors, weight", {f"{f}, {w:g}": found for (f, w), found in shared.items()}))
    page.add("## Half of the groups repeat another group, up to a share of their variance", "")
    page.add(*table("share", {f"{s:g}": found for s, found in derived.items()}))
    page.add(
        f"With repeated groups, the mean difference is largest at a share of {peak:g} "
        f"({derived[peak].gap.mean():+.4f}), and it is {derived[min(derived)].gap.mean():+.5f} at a share of "
        f"{min(derived):g}. The largest difference on a single data set is {largest:+.4f}. In the paper, the "
        "differences are +0.0019 to +0.0063 (Yahoo!) and +0.0119 (Agricultural). The largest mean difference on this "
        f"page, {top:+.4f}, {'is below' if top < 0.0019 else 'falls within' if top <= 0.0063 else 'is above'} the "
        f"paper's range for Yahoo! {'but' if 0.0019 <= top < 0.0119 else 'and'} is "
        f"{'smaller' if top < 0.0119 else 'not smaller'} than the paper's difference for Agricultural.",
        "",
        "It is not known how much the groups in the paper's Agricultural data depend on each other. If their features "
        "are computed from the same measurements, the groups repeat each other to different degrees, but this is only "
        "a guess.",
        "",
        "## Real data: squared error on the training rows, up to the total cost",
        "",
        "| data | redundancy | FR − OMP |",
        "|---|---|---|",
        *(f"| {name} | {redundant:.2f} | {gap:+.5f} |" for name, (redundant, gap) in real().items()),
        "",
    )
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__)
