"""A page of results: its Markdown, its figures, and the command line that all experiments share.

``--quick`` runs a tiny version. ``--write FILE`` stores the page and its figures. Experiments on data of the Yahoo
shape also accept ``--data`` and ``--costs``, see ``ranking.py``.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from budgetline import BudgetCurve
from budgetline.files import write_atomically

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from core import conditions, opened, typeset
from ranking import Web, read_web

# Okabe and Ito's colours, which colour-blind readers can distinguish; lines also differ in their dashes.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#333333",
)  # fmt: skip
GREY = "#8a8a8a"
STYLES: dict[str, dict[str, Any]] = {
    "CS-G-FR": {"color": BLUE, "linestyle": "-", "linewidth": 2.0},
    "CS-G-OMP": {"color": ORANGE, "linestyle": "--", "linewidth": 2.0},
    "FR Oracle": {"color": GREY, "linestyle": "-", "linewidth": 1.0},
    "Single": {"color": GREEN, "linestyle": "-.", "linewidth": 1.5},
    "No-Whiten": {"color": PURPLE, "linestyle": ":", "linewidth": 2.0},
    "G-OMP": {"color": RED, "linestyle": (0, (5, 1, 1, 1, 1, 1)), "linewidth": 1.5},
    "Sparse": {"color": BLACK, "linestyle": (0, (1, 2)), "linewidth": 1.8},
    "Cheapest first": {"color": SKY, "linestyle": (0, (6, 2)), "linewidth": 1.3},
}
matplotlib.rcParams |= {
    "svg.hashsalt": "budgetline",  # the names of SVG elements stay the same from run to run
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.title_fontsize": 9.0,
}


@dataclass
class Page:
    """Lines of Markdown, and figures (of matplotlib, or SVG) by name; ``show`` adds a figure and its description."""

    lines: list[str]
    figures: dict[str, Figure | str] = field(default_factory=dict)
    measured: str | None = None
    """When and where the scores were measured, if the page is drawn from stored scores."""

    def add(self, *lines: str) -> None:
        """Add lines."""
        self.lines += lines

    def show(self, name: str, figure: Figure | str, alt: str) -> None:
        """Add a figure that is stored next to the page as ``name.svg``."""
        self.figures[name] = figure
        self.lines += [f"![{alt}]({name}.svg)", ""]

    def write(self, path: Path) -> None:
        """Write the page and its figures."""
        path.parent.mkdir(parents=True, exist_ok=True)
        for name, figure in self.figures.items():
            content = figure.encode() if isinstance(figure, str) else svg_of(figure)
            write_atomically(path.with_name(f"{name}.svg"), content)
        write_atomically(path, opened(self.text(), path).encode())

    def text(self) -> str:
        """Return the page, with machine, date and versions at its end."""
        versions = (self.measured or conditions()).removesuffix(".") + f", matplotlib {matplotlib.__version__}."
        return typeset("\n".join([*self.lines, versions, ""]))


def panels(count: int, *, width: float = 8.4, height: float = 3.3, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return an empty figure and its axes, row by row."""
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    axes = figure.subplots(rows, count // rows, squeeze=False)
    return figure, [ax for row in axes for ax in row]


def svg_of(figure: Figure) -> bytes:
    """Return a figure as SVG, without a date, so that the same figure always gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def draw_curves(ax: Axes, curves: dict[str, BudgetCurve], stop: float, *, steps: bool = False) -> None:
    """Draw mean curves up to a cost; the band is one standard error."""
    grid = np.linspace(0.0, stop, 400)
    for name, curve in curves.items():
        each = np.array([c.at(grid, interpolation="step" if steps else "linear") for c in curve.folds or (curve,)])
        mean = each.mean(axis=0)
        style = STYLES.get(name, {"color": GREY})
        ax.plot(grid, mean, label=name, **style)
        if len(each) > 1:
            error = each.std(axis=0, ddof=1) / np.sqrt(len(each))
            ax.fill_between(grid, mean - error, mean + error, color=style["color"], alpha=0.15, linewidth=0)
    ax.set_xlim(0, stop)


def run(report: Callable[..., Page], full: Any, quick: Any, description: str | None, *, web: bool = False) -> None:
    """Run an experiment from the command line; with ``web``, users can pass their own ranking data."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny version, for the test suite")
    parser.add_argument("--write", type=Path, help="write the page here, and its figures next to it")
    if web:
        parser.add_argument("--data", type=Path, nargs="+", help="svmlight files with qid, instead of generated data")
        parser.add_argument("--costs", type=Path, help="costs of their features: one per line, or lines 'feature cost'")
    args = parser.parse_args()
    effort, extra = quick if args.quick else full, ()
    if web:
        if bool(args.data) != bool(args.costs):
            parser.error("--data and --costs go together")
        extra = (read_web(args.data, args.costs) if args.data else None,)
    page = report(effort, *extra)
    print(page.text())
    if args.write:
        page.write(args.write)


def whose(web: Web | None) -> str:
    """Return the name of the ranking data in titles."""
    return "Yahoo shape (generated)" if web is None else web.name
