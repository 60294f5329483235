"""What the user sees: results on stdout, as tables or one JSON document; notes and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from budgetline.budgets import affordable
from budgetline.cli.drawing import draw
from budgetline.evaluation import BudgetCurve
from budgetline.messages import printable
from budgetline.report.formatting import amount, number
from budgetline.sequencing import GroupSequence

SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Budgets that are shown, as shares of the whole cost, about."""
STYLES = {"explained": "percent", "accuracy": "percent", "roc_auc": "fixed", "r2": "fixed", "log_loss": "fixed"}
CURVE_WIDTH, CURVE_HEIGHT = 64, 10


_held: list[str] = []


def aside(text: str) -> None:
    """Print a line on stderr: at once where a terminal watches, else when all has gone well.

    In a log, an error is then one line and nothing else.
    """
    text = printable(text)
    if sys.stderr is not None and sys.stderr.isatty():
        tell(text)
    else:
        _held.append(text)


def release(wanted: bool) -> None:
    """Print, or forget, what was held back."""
    for text in _held if wanted else ():
        tell(text)
    _held.clear()


def tell(text: str) -> None:
    """Print a line on stderr; where that is closed or full, nobody can be told."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Screen:
    """Where results and notes go."""

    as_json: bool = False
    quiet: bool = False

    @property
    def progress(self) -> bool | None:
        """Whether to show progress bars: never, or on a terminal."""
        return False if self.quiet else None

    def note(self, text: str) -> None:
        """Say something beside the result."""
        if not self.quiet:
            aside(text)

    def warn(self, text: str) -> None:
        """Say what must not be missed, even where notes are not wanted."""
        aside(f"warning: {text}")

    def say(self, text: str = "") -> None:
        """Print lines of the result, unless it is wanted as JSON; no name in them can steer the terminal."""
        if not self.as_json:
            print("\n".join(map(printable, text.split("\n"))))

    def paragraph(self, text: str) -> None:
        """Print a text, wrapped."""
        self.say(fill(text, _console().width, subsequent_indent="  "))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = ()) -> None:
        """Print a table, columns aligned to the right but for those ``left``; long cells are folded."""
        if self.as_json:
            return
        table = Table(box=box.SIMPLE_HEAD if _unicode() else None, pad_edge=False, show_edge=False)
        for k, name in enumerate(header):
            table.add_column(
                Text(printable(name)), justify="left" if k in left else "right", overflow="fold", no_wrap=k not in left
            )
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        _console().print(table)

    def sequence(self, order: GroupSequence) -> None:
        """Print the sequence table."""
        cells = [
            [str(step), str(group), amount(cost), amount(spent), f"{gain:.5g}", f"{explained:.1%}"]
            for step, group, cost, spent, gain, explained in zip(*order.to_dict().values(), strict=True)
        ]
        self.table(["step", "group", "cost", "cumulative", "gain", "explained"], cells, left={1})

    def budgets(self, curve: BudgetCurve) -> None:
        """Print what some budgets buy."""
        cells = []
        for row in budget_rows(curve):
            value = number(row["value"], STYLES.get(curve.metric, "general"))
            cells.append(
                [amount(row["budget"]), amount(row["spent"]), str(row["groups"]), value, row["last"] or "none"]
            )
        self.table(["budget", "spent", "groups", curve.metric, "last group bought"], cells, left={4})

    def curve(self, curve: BudgetCurve) -> None:
        """Draw a curve."""
        if self.as_json:
            return
        width = min(CURVE_WIDTH, max(20, _console().width - 14))
        style = STYLES.get(curve.metric, "general")
        for line in draw(curve, width, CURVE_HEIGHT, _unicode(), lambda value: number(value, style)):
            print(line)

    def document(self, content: dict[str, Any]) -> None:
        """Print the result as JSON, if that is wanted."""
        if self.as_json:
            print(json.dumps(plain(content), allow_nan=False, indent=1))


def budget_rows(curve: BudgetCurve) -> list[dict[str, Any]]:
    """Return what budgets between nothing and the whole cost buy; a curve over folds has no groups."""
    rows = []
    total = curve.total_cost
    round_ones = [min(float(f"{share * total:.2g}"), total) for share in SHARES[:-1]]
    for budget in dict.fromkeys([*round_ones, total]):
        bought = int(affordable(curve.costs, budget))
        last = curve.groups[bought - 1] if curve.groups else ""
        spent = float(curve.costs[bought - 1])
        found = {"budget": budget, "spent": spent, "groups": bought - 1, "value": float(curve.values[bought - 1])}
        rows.append({**found, "last": last})
    return rows


def in_line(names: Iterable[str]) -> str:
    """Return names as a list that stays on its line, whatever they hold."""
    return ", ".join(map(printable, names))


def plain(value: Any) -> Any:
    """Return arrays as lists and numbers that are not finite as None, all the way down."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def _unicode() -> bool:
    """Return whether a terminal watches that can show all characters; files and pipes get plain ones."""
    return sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
