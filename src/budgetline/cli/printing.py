"""What a command prints: results on stdout, as tables or one JSON document; notes, progress and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from shutil import get_terminal_size, which
from textwrap import fill

import numpy as np

from budgetline.arrays import Float, Mask
from budgetline.budgets import affordable, points_of_stages
from budgetline.data.tabular import MissingTarget
from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.budget_curves import training_curve
from budgetline.evaluation.metrics import label_of
from budgetline.messages import printable
from budgetline.model.anytime import AnytimeModel
from budgetline.progress import Bar, Progress, make_bar
from budgetline.report.builders import left_out
from budgetline.report.formatting import amount, number, share, with_error
from budgetline.tables import text_table

SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75)
"""Budgets in tables, as shares of the total cost, before rounding; the total cost comes last."""
CURVE_WIDTH, CURVE_HEIGHT = 64, 10
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bits of a Braille character, by row and column of the dot."""
WORDS = (
    ("give file_format='parquet', 'csv' or 'svmlight'", "give --format parquet, csv or svmlight"),
    ("target='…'", "--target NAME"),
    ("target= names", "--target names"),
    ("weight= names", "--weight names"),
    ("zero_based=True is", "--zero-based is"),
    ("with_positive(metric, label)", "--positive LABEL"),
    ("pass remainder='drop' to leave them out", "write 'remainder: drop' into the groups file to leave them out"),
    ("; pass a data frame or give positions", ": give positions in the groups file"),
    ("use rule='score' or 'omp'", "use --rule score or omp"),
    ("rule='fr' refits", "rule fr refits"),
    ("but X has no column names", "but the data have no column names"),
    (" is not in X", " is not in the data"),
    (" of X is in no group", " of the data is in no group"),
    (" of X are in no group", " of the data are in no group"),
    ("Input X contains", "the data contain"),
    ("encoding='spline' takes", "a fit with --encoding spline takes"),
    ("time_limit must be", "--time-limit must be"),
    ("is not known: fit all of them", "is not known: fit with --all-groups"),
    ("one of budget, stage and available", "one of --budget, --stage and --available"),
    (" in available; ", " in --available; "),
)
"""Words of the library, and those of the command line."""

_held: list[str] = []


class Refused(Exception):
    """The user asked for something that cannot be done; the text says why, in one line."""


EXPECTED = (Refused, OSError, ValueError, ImportError, MemoryError)
"""Errors that files, settings and data can cause. Anything else is a bug."""


def line_of(error: BaseException) -> str:
    """Return one line that says what is wrong, such as 'data.csv: no such file or directory'."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    text = " ".join(str(error).split())
    for own, here in WORDS:
        text = text.replace(own, here)
    if isinstance(error, MissingTarget):
        text += "; --drop-missing-target leaves these rows out"
    return text or type(error).__name__


@contextmanager
def refusing(where: str = "") -> Iterator[None]:
    """Turn errors, wrong types too, into refusals that say where."""
    try:
        yield
    except (*EXPECTED, TypeError) as error:
        text = line_of(error)
        raise Refused(text if not where or where in text else f"{where}: {text}") from error


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
    def progress(self) -> Progress:
        """How to show progress: not at all, by bars on a terminal, else, or without tqdm, by lines."""
        if self.quiet or sys.stderr is None:
            return False
        return None if sys.stderr.isatty() and find_spec("tqdm") is not None else "lines"

    def waiting(self, what: str) -> Bar:
        """Show that work goes on whose steps are not counted: by lines, where progress is shown by lines."""
        return make_bar("lines" if self.progress == "lines" else False, what, None)

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
        self.say(fill(text, get_terminal_size().columns, subsequent_indent="  "))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = ()) -> None:
        """Print a table, columns aligned to the right except for ``left``."""
        self.say(text_table(header, list(rows), left))

    def sequence(self, model: AnytimeModel) -> None:
        """Print the sequence of a model, with held-out quality where it is known, and groups that are not in it."""
        columns, expected, training = model.sequence.to_dict(), held_out_of(model), training_curve(model).values
        rows = [
            [str(step), group, amount(cost), amount(total), f"{gain:.5g}", share(training[step])]
            for step, group, cost, total, gain, _ in zip(*columns.values(), strict=True)
        ]
        header = ["step", "group", "cost", "cumulative", "gain", "explained (training)"]
        if expected is not None:
            header.append("explained (held out)")
            both = zip(rows, expected[1:].tolist(), strict=True)
            rows = [[*row, with_error(value, error, "percent")] for row, (value, error) in both]
        self.table(header, rows, left={1})
        if not_bought := left_out(model):
            self.say(f"not bought: {in_line(not_bought)}")

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
            width = min(CURVE_WIDTH, max(20, get_terminal_size().columns - 14))
            # files and pipes get plain characters
            fine = sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
            style = label_of(curve.metric).style
            print("\n".join(draw(curve, width, CURVE_HEIGHT, fine, lambda value: number(value, style))))

    def document(self, content: Mapping[str, object]) -> None:
        """Print the result as JSON, if the user wants that."""
        if self.as_json:
            print(json.dumps(_plain(content), allow_nan=False, indent=1))


def held_out_of(model: AnytimeModel) -> Float | None:
    """Return the explained share of held-out rows, and its standard error, by stage, (1 + stages, 2); None: unknown."""
    curve = model.learned.get("held_out_")
    if not isinstance(curve, np.ndarray):
        return None
    stages = np.append(0.0, model.sequence.cumulative_costs)
    return np.asarray(curve[points_of_stages(stages, curve[:, 0]), 1:])


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
    """Return names as a list on one line, with control characters as text."""
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


def draw(curve: BudgetCurve, width: int, height: int, fine: bool, text: Callable[[float], str]) -> list[str]:
    """Return the lines of a plot of a curve as steps: value upwards, cost to the right.

    The axes enclose width × height characters: with ``fine`` Braille characters of eight dots, else asterisks. ``text``
    turns a value into a label.
    """
    lines = _shown(_dots(curve, width * (2 if fine else 1), height * (4 if fine else 1)), fine)
    known = curve.values[np.isfinite(curve.values)]
    labels = [""] * height
    if known.size:
        labels[0], labels[-1] = text(float(known.max())), text(float(known.min()))
    margin = max(5, *map(len, labels))
    upright, across, corner = ("│", "─", "└") if fine else ("|", "-", "+")
    found = [f"{label:>{margin}} {upright}{line}".rstrip() for label, line in zip(labels, lines, strict=True)]
    total = amount(curve.total_cost)
    found.append(" " * (margin + 1) + corner + across * width)
    found.append(" " * (margin + 2) + "0" + total.rjust(width - 1))
    return found


def _dots(curve: BudgetCurve, width: int, height: int) -> Mask:
    """Return which dots (height, width) are set, the top row first; neighbouring columns are joined."""
    dots = np.zeros((height, width), dtype=bool)
    values = np.asarray(curve.at(np.linspace(0, curve.total_cost, width)))
    known = np.isfinite(values)
    if not known.any():
        return dots
    low, high = np.nanmin(curve.values), np.nanmax(curve.values)
    spread = high - low if high > low else 1.0
    level = np.rint((values - low) / spread * (height - 1), where=known, out=np.zeros(width)).astype(np.intp)
    for x in np.flatnonzero(known).tolist():
        before = level[x - 1] if x and known[x - 1] else level[x]
        lowest, highest = sorted((int(before), int(level[x])))
        dots[height - 1 - highest : height - lowest, x] = True
    return dots


def _shown(dots: Mask, fine: bool) -> list[str]:
    if not fine:
        return ["".join("*" if dot else " " for dot in row) for row in dots]
    height, width = dots.shape[0] // 4, dots.shape[1] // 2
    codes = (dots.reshape(height, 4, width, 2) * DOTS[:, None, :]).sum(axis=(1, 3))
    return ["".join(chr(0x2800 + code) if code else " " for code in row) for row in codes.tolist()]
