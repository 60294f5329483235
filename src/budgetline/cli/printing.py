"""What a command prints: results on stdout, as tables or one JSON document; notes and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from shutil import which
from textwrap import fill

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from budgetline.budgets import affordable
from budgetline.cli.text_plot import draw
from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.metrics import label_of
from budgetline.messages import printable
from budgetline.report.formatting import amount, number
from budgetline.sequencing import GroupSequence

SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75)
"""Budgets in tables, as shares of the total cost, before rounding; the total cost comes last."""
CURVE_WIDTH, CURVE_HEIGHT = 64, 10

_held: list[str] = []


def aside(text: str) -> None:
    """Print a line on stderr: at once on a terminal, else when the command has succeeded.

    In a log, an error is then one line and nothing else.
    """
    text = printable(text)
    if sys.stderr is not None and sys.stderr.isatty():
        tell(text)
    else:
        _held.append(text)


def release(wanted: bool) -> None:
    """Print, or drop, the lines held back."""
    for text in _held if wanted else ():
        tell(text)
    _held.clear()


def tell(text: str) -> None:
    """Print a line on stderr, unless that is closed or full."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Printer:
    """Prints results and notes as the user wants them."""

    as_json: bool
    quiet: bool

    @property
    def progress(self) -> bool | None:
        """Whether to show progress bars: never (False), or on a terminal (None)."""
        return False if self.quiet else None

    def note(self, text: str) -> None:
        """Print a note, unless the user wants none."""
        if not self.quiet:
            aside(text)

    def warn(self, text: str) -> None:
        """Print a warning, always."""
        aside(f"warning: {text}")

    def say(self, text: str = "") -> None:
        """Print lines of the result, unless it is printed as JSON; control characters are shown as text."""
        if not self.as_json:
            print("\n".join(map(printable, text.split("\n"))))

    def paragraph(self, text: str) -> None:
        """Print a text, wrapped."""
        self.say(fill(text, _console().width, subsequent_indent="  "))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = ()) -> None:
        """Print a table, columns aligned to the right except for ``left``; long cells are folded."""
        if self.as_json:
            return
        table = Table(box=box.SIMPLE_HEAD if _unicode() else None, pad_edge=False, show_edge=False)
        for k, name in enumerate(header):
            text = Text(printable(name))
            table.add_column(text, justify="left" if k in left else "right", overflow="fold", no_wrap=k not in left)
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        _console().print(table)

    def sequence(self, sequence: GroupSequence, names: Iterable[str]) -> None:
        """Print a sequence, and which of the groups of these names are not in it."""
        cells = [
            [str(step), str(group), amount(cost), amount(spent), f"{gain:.5g}", f"{explained:.1%}"]
            for step, group, cost, spent, gain, explained in zip(*sequence.to_dict().values(), strict=True)
        ]
        self.table(["step", "group", "cost", "cumulative", "gain", "explained"], cells, left={1})
        if left_out := [name for name in names if name not in sequence.groups]:
            self.say(f"not in the sequence: {in_line(left_out)}")

    def budgets(self, curve: BudgetCurve) -> None:
        """Print what some budgets buy."""
        style = label_of(curve.metric).style
        cells = [
            [amount(row.budget), amount(row.spent), str(row.groups), number(row.value, style), row.last or "none"]
            for row in bought_at(curve)
        ]
        self.table(["budget", "spent", "groups", curve.metric, "last group bought"], cells, left={4})

    def curve(self, curve: BudgetCurve) -> None:
        """Draw a curve."""
        if not self.as_json:
            width, style = min(CURVE_WIDTH, max(20, _console().width - 14)), label_of(curve.metric).style
            for line in draw(curve, width, CURVE_HEIGHT, _unicode(), lambda value: number(value, style)):
                print(line)

    def document(self, content: Mapping[str, object]) -> None:
        """Print the result as JSON, if the user wants that."""
        if self.as_json:
            print(json.dumps(_plain(content), allow_nan=False, indent=1))


@dataclass(frozen=True)
class Bought:
    """What a budget buys: the cost and number of the groups, the value of the metric, and the last group."""

    budget: float
    spent: float
    groups: int
    value: float
    last: str


def bought_at(curve: BudgetCurve) -> list[Bought]:
    """Return what budgets between 0 and the total cost buy; the points of a mean over folds are no groups."""
    total = curve.total_cost
    rounded = [min(float(f"{share * total:.2g}"), total) for share in SHARES]
    stages = {budget: int(affordable(curve.costs, budget)) - 1 for budget in (*rounded, total)}
    return [
        Bought(budget, float(curve.costs[k]), k, float(curve.values[k]), curve.groups[k] if curve.groups else "")
        for budget, k in stages.items()
    ]


def in_line(names: Iterable[str]) -> str:
    """Return names as a list on one line, whatever characters they hold."""
    return ", ".join(map(printable, names))


def command_name() -> str:
    """Return what to type in a shell in this folder to run this program again.

    That is ``budgetline`` if the shell finds this very program under that name, else the path by which it was called,
    as in an environment that is not activated.
    """
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{quote(sys.executable)} -m budgetline"
    on_path = which("budgetline")
    if called.name != "budgetline" or (on_path is not None and Path(on_path).resolve() == called.resolve()):
        return "budgetline"
    return quote(sys.argv[0])


def _plain(value: object) -> object:
    """Return arrays as lists and numbers that are not finite as None, at every depth."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Bought):
        return _plain(vars(value))
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def _unicode() -> bool:
    """Return whether stdout is a terminal that shows all characters; files and pipes get plain ones."""
    return sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
