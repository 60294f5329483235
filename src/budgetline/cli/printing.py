"""Output of commands: results on stdout, as tables or one JSON document; notes, progress and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated

import numpy as np
from typer import Option

from budgetline.arrays import Float
from budgetline.budgets import points_of_stages
from budgetline.data.tabular import MissingTarget
from budgetline.evaluation.budget_curves import training_curve
from budgetline.files import MODEL_SUFFIX, ForeignFile
from budgetline.messages import printable, some
from budgetline.model.anytime import AnytimeModel
from budgetline.progress import CLEAR, Progress, make_bar, watching
from budgetline.report.builders import left_out, loss_name, pairs_bought
from budgetline.report.formatting import PAIRS, amount, share, with_error
from budgetline.tables import text_table


class Refused(Exception):
    """A command cannot do what the user wants; the text says why, in one line."""


EXPECTED = (Refused, OSError, ValueError, ImportError, MemoryError)
"""Errors that files, settings and data can cause. Anything else is a bug."""


def line_of(error: BaseException) -> str:
    """Return one line that says what is wrong, such as 'data.csv: no such file or directory'."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    text = " ".join(str(error).split())
    if isinstance(error, ForeignFile) and not error.where.endswith(MODEL_SUFFIX):
        return f"{error.where} is not a model, or it is damaged: MODEL must be a file written by budgetline fit"
    if isinstance(error, MissingTarget):
        text += "; --drop-missing-target leaves these rows out"
    return text or type(error).__name__


@contextmanager
def refusing(where: str = "") -> Iterator[None]:
    """Turn errors, including wrong types, into refusals that name the place."""
    try:
        yield
    except (*EXPECTED, TypeError) as error:
        text = line_of(error)
        raise Refused(text if not where or where in text else f"{where}: {text}") from error


def tell(text: str) -> None:
    """Print a line on stderr, control characters as text, unless stderr is closed or full."""
    if sys.stderr is not None:
        with suppress(OSError):
            clear = CLEAR if sys.stderr.isatty() else ""  # of a status line that is longer
            print(f"{clear}{printable(text)}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Printer:
    """Prints results and notes as the user wants them."""

    as_json: Annotated[bool, Option("--json", help="Print a single JSON document on stdout.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only warnings, no notes or progress.")] = False

    @property
    def progress(self) -> Progress:
        """How to show progress: not at all, as one line on a terminal, or otherwise as a new line every ten seconds."""
        if self.quiet or sys.stderr is None:
            return False
        return True if sys.stderr.isatty() else "lines"

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show the steps that the work reports."""
        with make_bar(self.progress, what, None) as bar, watching(bar.hear):
            yield

    def note(self, text: str) -> None:
        """Print a note, unless the command is quiet."""
        if not self.quiet:
            tell(text)

    def warn(self, text: str) -> None:
        """Print a warning, always."""
        tell(f"warning: {text}")

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
        """Print the sequence of a model, with held-out quality if it is known, and the groups that are not in it."""
        columns, expected, training = model.sequence.to_dict(), held_out_of(model), training_curve(model).values
        rows = [
            [str(step), group, amount(cost), amount(total), f"{gain:.5g}", share(training[step])]
            for step, group, cost, total, gain, *_ in zip(*columns.values(), strict=True)
        ]
        header = ["step", "group", "cost", "cumulative", "gain", "explained (training)"]
        if expected is not None:
            header.append("explained (held out)")
            both = zip(rows, expected[1:].tolist(), strict=True)
            rows = [[*row, with_error(value, error, "percent")] for row, (value, error) in both]
        self.table(header, rows, left={1})
        self.say("gain: how much a group lowers the training loss, with the ridge penalty")
        self.say(f"explained: the share of the {loss_name(model)} that the groups remove")
        if expected is not None and (text := where_highest(columns["cumulative_cost"], expected[:, 0].tolist())):
            self.say(text)
        if pairs_bought(model):
            self.say(PAIRS)
        if not_bought := left_out(model):
            self.say(f"not bought: {some(not_bought, of=printable)}")

    def document(self, content: Mapping[str, object]) -> None:
        """Print the result as JSON, if the user wants JSON."""
        if self.as_json:
            print(json.dumps(_plain(content), allow_nan=False, indent=1, default=str))


def held_out_of(model: AnytimeModel) -> Float | None:
    """Return the explained share of held-out rows, and its standard error, by stage, (1 + stages, 2); None: unknown."""
    curve = model.learned.get("held_out_")
    if not isinstance(curve, np.ndarray):
        return None
    stages = np.append(0.0, model.sequence.cumulative_costs)
    return np.asarray(curve[points_of_stages(stages, curve[:, 0]), 1:])


def where_highest(costs: Sequence[float], shares: Sequence[float]) -> str:
    """Return at which cost the explained share, as printed, is highest; "" if the last step still improves it.

    ``shares`` begin with the share before any group.
    """
    texts = [share(value) for value in shares]
    best = texts.index(share(max(shares)))
    later = len(costs) - best
    if not later:
        return ""
    if not best:
        return "no group improves held-out quality"
    steps = "the last step does" if later == 1 else f"the last {later} steps do"
    return f"held-out quality is highest at cost {amount(costs[best - 1])} ({texts[best]}); {steps} not improve it"


def in_line(names: Iterable[str]) -> str:
    """Return names as a list on one line, with control characters as text."""
    return ", ".join(map(printable, names))


def _plain(value: object) -> object:
    """Return arrays as lists, and numbers that are not finite as None, at every depth."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
