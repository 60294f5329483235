"""Draw the pictures of docs/benchmarks.md from the tables of docs/results: ``python tools/benchmark_pictures.py``."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "experiments"))
from field_drawings import Drawing  # noqa: E402

RESULTS, IMAGES = ROOT / "docs" / "results", ROOT / "docs" / "images"
WIDTH, LABELS, TOP, STEP = 560, 238, 92, 21
SHAPES = {"Agricultural": ("ours", "circle"), "Yahoo": ("peer", "square"), "Wide:": ("green", "triangle")}
PEERS = {
    "adelie, `gaussian_cov`, X'X given": "adelie, X'X given to both",
    "adelie, `gaussian_cov`, X'X counted": "adelie, X'X counted",
    "adelie, `grpnet`": "adelie from rows",
    "celer on the triangle of X": "celer on our X'X = R'R",
    "skglm on the triangle of X": "skglm on our X'X = R'R",
    "SPAMS on the triangle of X": "SPAMS on our X'X = R'R",
    "celer, `GroupLasso`": "celer",
    "skglm, `GroupBCD`": "skglm",
    "SPAMS, `fistaFlat` group-lasso-l2": "SPAMS",
    "abess, `LinearRegression(group=…)`": "abess",
    "scikit-learn, `orthogonal_mp_gram`": "OMP of columns",
    "scikit-learn, `lars_path_gram`": "LARS of columns",
    "fastcan, `FastCan`": "fastcan, of columns",
}
"""Rows of the pages of peers that compute a path, and their labels."""
GIVEN = "budgetline, `forward` from given `Moments`"


OWN = ("forward", "forward, by CV", "omp", "random")
"""Rows of the page on choices that are no other way to choose."""


@dataclass(frozen=True)
class Mark:
    """A value in a row of a picture; ``least`` says that the true one is larger."""

    value: float
    kind: str
    shape: str = "circle"
    least: bool = False


def tables(page: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield every table of a page of results: the heading above it, and its rows by column."""
    text = (RESULTS / page).read_text(encoding="utf-8").replace("−", "-").replace(" %", "%")
    for found in re.finditer(r"(?:^\|.*\n)+", text, re.MULTILINE):
        columns, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in found[0].splitlines()]
        heading = re.findall(r"^## (.*)", text[: found.start()], re.MULTILINE)
        yield (heading or [""])[-1], [dict(zip(columns, row, strict=False)) for row in rows]


def picture(
    title: str, marks: dict[str, list[Mark]], scale: Callable[[float], float], ticks: list[float],
    legend: list[tuple[str, str, str]],
) -> str:  # fmt: skip
    """Draw a row of marks for every label, on a scale with a line at its first tick."""
    bottom = TOP + STEP * len(marks)
    values = [scale(mark.value) for row in marks.values() for mark in row] + list(map(scale, ticks))
    drawn = Drawing((WIDTH, bottom + 34), (LABELS, TOP, WIDTH - 24, bottom), (min(values), max(values)), (0, 1), title)
    for k, (text, kind, shape) in enumerate(legend):
        x = 22 + k * (WIDTH - 22) / len(legend)
        drawn.mark(x, 47, kind, shape)
        drawn.text(x + 12, 52, text, "soft")
    for tick in ticks:
        x = drawn.across(scale(tick))
        drawn.segment(x, TOP - 12, x, bottom, "zero" if tick == ticks[0] else "grid")
        drawn.text(x, bottom + 22, f"{tick:g}".replace("0.", ".").replace("-", "−"), "soft", "middle")
    for k, (label, row) in enumerate(marks.items()):
        y = TOP + STEP * k
        drawn.text(LABELS - 14, y + 5, label, anchor="end")
        for mark in row:
            x = drawn.across(scale(mark.value))
            drawn.mark(x, y, mark.kind, mark.shape)
            if mark.least:
                drawn.segment(x, y, x + 16, y, mark.kind)
    return drawn.svg()


def speed() -> str:
    """Draw the time of every package that computes a path, as a multiple of ours; a line goes on past a time limit."""
    marks: dict[str, list[Mark]] = {label: [] for label in PEERS.values()}
    for page in ("peers_adelie.md", "peers.md"):
        for heading, rows in tables(page):
            times, shape = {row["peer"]: row["time ×"] for row in rows if row["time ×"]}, SHAPES.get(heading.split()[0])
            for peer in times.keys() & PEERS.keys() if shape else ():
                ours = float(times[GIVEN]) if peer.endswith("given") else 1.0
                multiple = float(times[peer].strip("> ")) / ours
                marks[PEERS[peer]].append(Mark(multiple, *shape, times[peer].startswith(">")))
    legend = [(name.strip(":") + " table", *shape) for name, shape in SHAPES.items()]
    return picture(
        "Time relative to budgetline: right of 1 it is slower", marks, math.log10, [1, 0.5, 3, 10, 30, 100], legend
    )


def signed(value: float) -> float:
    """Return a difference on a scale that is linear near 0 and logarithmic further out."""
    return math.copysign(math.log1p(abs(value) / 0.02), value)


def quality() -> str:
    """Draw the differences of the learned order to other ways to choose groups, at three shares of the cost."""
    marks: dict[str, list[Mark]] = {}
    for heading, rows in tables("quality.md"):
        task, own = heading.partition(":")[0], "forward, by CV - method, {}"
        if rows and own.format("10%") in rows[0] and f"{task}, 10%" not in marks:
            others = [row for row in rows if row["method"] not in OWN]
            for share in ("10%", "25%", "50%"):
                gaps = [float(row[own.format(share)].split()[0]) for row in others]
                marks[f"{task}, {share}"] = [Mark(gap, "ours" if gap >= 0 else "peer") for gap in gaps]
    legend = [("learned order at least as good", "ours", "circle"), ("the other is better", "peer", "circle")]
    return picture("Learned order − seven other choices", marks, signed, [0, -0.2, -0.02, 0.02, 0.2], legend)


def optimality() -> str:
    """Draw the share of the optimum that a certificate proves for the learned order, at three shares of the cost."""
    styles = {"10%": ("peer", "square"), "25%": ("green", "triangle"), "50%": ("ours", "circle")}
    _, rows = next(tables("certificates.md"))
    column = "at {}: certified, (free duals), [set known]"
    marks = {
        row["data"]: [Mark(float(row[column.format(share)].split(",")[0]), *style) for share, style in styles.items()]
        for row in rows
    }
    legend = [(f"{share} of the cost", *style) for share, style in styles.items()]
    return picture("Share of the optimum that is proven", marks, float, [0.95, 0, 0.25, 0.5, 0.75], legend)


def robustness() -> str:
    """Draw the differences to a linear pipeline and to boosting on ten raw tables, a mark for every budget."""
    _, rows = next(tables("zoo.md"))
    marks: dict[str, list[Mark]] = {}
    for row in rows:
        ours, linear, boosted = (list(map(float, row[name].split())) for name in ("budgetline", "linear", "boosting"))
        marks[row["table"]] = [
            *(Mark(own - other, "peer", "square") for own, other in zip(ours, boosted, strict=True)),
            *(Mark(own - other, "ours") for own, other in zip(ours, linear, strict=True)),
        ]
    legend = [("a linear pipeline", "ours", "circle"), ("gradient boosting", "peer", "square")]
    return picture("Defaults of budgetline − another model", marks, signed, [0, -0.1, -0.02, 0.02, 0.1, 0.4], legend)


PICTURES = {"speed.svg": speed, "quality.svg": quality, "optimality.svg": optimality, "zoo.svg": robustness}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw(), encoding="utf-8")
