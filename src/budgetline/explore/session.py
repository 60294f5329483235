"""A session: the history of a state of one table, saved after every change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from budgetline.codec import plain_of, read_record
from budgetline.explore.edits import Edit
from budgetline.explore.group_edits import changed_by, edit_text, read_edit
from budgetline.explore.session_data import Data, ExploredTable
from budgetline.explore.state import Group, State
from budgetline.files import KeptFile
from budgetline.messages import shown

SCHEMA = 1
"""Version of session files; others are refused."""
KIND = "budgetline explore session"
MOST_STEPS = 200
"""Number of steps that can be undone."""
MOST_BYTES = 1 << 25
"""Largest size of a session file."""
SUFFIX = ".explore"
NOT_WRITTEN = "Your changes are kept only as long as budgetline runs: download the session under Take away."
CHANGED = (
    "To leave it as it is, this page no longer saves there. Your changes are kept only as long as budgetline runs: "
    "download the session under Take away, or stop budgetline and start it again to go on from the file."
)
"""What to do if the session cannot be saved."""


@dataclass(frozen=True)
class Step:
    """A state before or after the present one, and the change between it and the next.

    ``edits`` are the change as JSON. They are empty if a whole session was opened instead.
    """

    label: str
    state: State
    joins: bool = False
    edits: tuple[str, ...] = ()


@dataclass(frozen=True)
class History:
    """The present state, the states before it, the states that were undone (each nearest last), and a revision number.

    Every change, including undo, increases the revision.
    """

    state: State
    revision: int = 0
    past: tuple[Step, ...] = ()
    future: tuple[Step, ...] = ()

    def after(self, state: State, label: str, joins: bool = False, edits: tuple[str, ...] = ()) -> History:
        """Return the history with another present state, or itself if nothing changes.

        A step that joins replaces the previous step if that is of the same kind.
        """
        if state == self.state:
            return self
        kind = label.split(" ")[0]
        if joins and self.past and self.past[-1].joins and self.past[-1].label.split(" ")[0] == kind:
            past = (*self.past[:-1], replace(self.past[-1], label=label, edits=edits))
        else:
            past = (*self.past, Step(label, self.state, joins, edits))[-MOST_STEPS:]
        return History(state, self.revision + 1, past)

    def undone(self) -> History:
        """Return the history one step back."""
        if not self.past:
            raise ValueError("there is nothing to undo")
        *past, last = self.past
        return History(last.state, self.revision + 1, tuple(past), (*self.future, replace(last, state=self.state)))

    def redone(self) -> History:
        """Return the history one step forward."""
        if not self.future:
            raise ValueError("there is nothing to redo")
        *future, last = self.future
        return History(last.state, self.revision + 1, (*self.past, replace(last, state=self.state)), tuple(future))


@dataclass(frozen=True)
class SessionRecord:
    """The content of a session file: place and digest of the data, how they are read, the state and its history.

    The history is kept as edits, which are short: steps from the state ``base`` to the present one, and steps that were
    undone, the next one first. A step may consist of several edits.
    """

    place: str
    digest: str
    revision: int
    state: State
    delimiter: str | None = None
    na: tuple[str, ...] = ()
    base: State | None = None
    done: tuple[tuple[str, ...], ...] = ()
    undone: tuple[tuple[str, ...], ...] = ()

    @property
    def data(self) -> Data:
        """Where the rows come from."""
        return Data(self.place, self.delimiter, self.na)

    @classmethod
    def of(cls, data: Data, history: History) -> SessionRecord:
        """Return the record of a history, from the last step that was no edit."""
        done = list(takewhile(lambda step: step.edits, reversed(history.past)))[::-1]
        undone = takewhile(lambda step: step.edits, reversed(history.future))
        return cls(
            str(Path(data.place).absolute()),
            data.digest,
            history.revision,
            history.state,
            data.delimiter,
            data.na,
            done[0].state if done else None,
            tuple(step.edits for step in done),
            tuple(step.edits for step in undone),
        )

    def history(self, table: ExploredTable) -> History:
        """Return the history, or only the saved state if the edits do not lead to it."""
        found = History(self.state) if self.base is None else _replayed(History(self.base), self.done, table)
        later = _replayed(replace(found, past=()), self.undone, table)
        if found.state != self.state or len(later.past) < len(self.undone):
            return History(self.state, self.revision)
        states = [*(step.state for step in later.past[1:]), later.state]
        future = tuple(replace(step, state=state) for step, state in zip(later.past, states, strict=False))[::-1]
        return History(self.state, self.revision, found.past, future)

    def to_json(self) -> str:
        """Return the content of a session file."""
        return json.dumps({"kind": KIND, "schema": SCHEMA, **plain_of(self)}, allow_nan=False, indent=1) + "\n"


def _replayed(history: History, steps: tuple[tuple[str, ...], ...], table: ExploredTable) -> History:
    """Return a history after steps, up to the first that fails."""
    with suppress(ValueError, TypeError, RecursionError):
        for texts in steps:
            edits = [read_edit(json.loads(text)) for text in texts]
            history = stepped(history, edits, table)
    return history


def stepped(history: History, edits: list[Edit], table: ExploredTable) -> History:
    """Return the history after edits that are one step."""
    state = changed_by(history.state, edits, table)
    label = edits[0].label if len(edits) == 1 else f"{len(edits)} changes"
    return history.after(state, label, len(edits) == 1 and edits[0].joins, tuple(map(edit_text, edits)))


def read_session(content: str | bytes, where: str) -> SessionRecord:
    """Return the record of a session file; errors name it."""
    try:
        if len(content) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MB")
        plain = json.loads(content)
        if not isinstance(plain, Mapping) or plain.get("kind") != KIND:
            raise ValueError("it is not marked as one")
        if plain.get("schema") != SCHEMA:
            raise ValueError(f"its schema is {shown(plain.get('schema'))}, this version of budgetline reads {SCHEMA}")
        return read_record(SessionRecord, {key: value for key, value in plain.items() if key not in ("kind", "schema")})
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{where} is not a session of budgetline explore: {error}") from error


def opening_state(table: ExploredTable) -> State:
    """Return the state of a new session: each column is a group, and columns that do not help are left out."""
    names = tuple(column.name for column in table.columns)
    groups = tuple(Group(name, (name,)) for name in names if name not in table.unhelpful)
    return State(names, groups, left_out=tuple(table.unhelpful))


class Session:
    """One table, the history of its state, and the session file. Not thread-safe.

    ``problem`` says why the last change is not saved, and what to do; it is empty if all is saved.
    """

    def __init__(self, data: Data, file: KeptFile | None, history: History) -> None:
        self.data, self.file, self.history = data, file, history
        self.saved, self.problem = bool(history.revision), ""

    @property
    def path(self) -> Path | None:
        """The session file."""
        return None if self.file is None else self.file.path

    @property
    def table(self) -> ExploredTable:
        """What is in the table."""
        return self.data.table

    @property
    def state(self) -> State:
        """The present state."""
        return self.history.state

    @property
    def record(self) -> SessionRecord:
        """What is written to the file."""
        return SessionRecord.of(self.data, self.history)

    def change(self, history: History) -> None:
        """Set another history, and save it."""
        if history is not self.history:
            self.history = history
            self.save()

    def edit(self, edits: list[Edit]) -> None:
        """Make edits as one step: all of them, or none."""
        self.change(stepped(self.history, edits, self.table))

    def open(self, content: str) -> None:
        """Set the state to that of a session file of the same data."""
        found = read_session(content, "the file")
        if found.digest != self.data.digest:
            raise ValueError(f"this is a session of other data than {self.data.name}")
        self.change(self.history.after(found.state, "open a session"))

    def save(self) -> None:
        """Write the session file; if that fails, the session continues and the page says so."""
        if self.file is None:
            return
        self.saved, self.problem = False, ""
        try:
            self.file.write(self.record.to_json().encode())
            self.saved = True
        except FileExistsError:
            self.problem = f"{self.file.path.name} was changed by another program. {CHANGED}"
        except OSError as error:
            self.problem = f"{self.file.path.name} cannot be written: {error.strerror or error}. {NOT_WRITTEN}"

    def close(self) -> None:
        """Let other processes open the session file."""
        if self.file is not None:
            self.file.close()


def start_session(data: Data, path: Path | None, *, new: bool = False) -> Session:
    """Continue the session of a file, or start one; the file must be of these data, and open nowhere else."""
    opening = History(opening_state(data.table))
    if path is None:
        return Session(data, None, opening)
    try:
        file = KeptFile(path)
    except BlockingIOError:
        raise ValueError(
            f"{path} is open in another budgetline explore: use its page, or stop it first. To work side by side, keep "
            "this session in another file (--session FILE), or open a copy of the file"
        ) from None
    try:
        return Session(data, file, opening if new or not file.content else _continued(file.content, data, path))
    except ValueError:
        file.close()
        raise


def _continued(content: bytes, data: Data, path: Path) -> History:
    """Return the history in a session file, which must be of these data."""
    found = read_session(content, str(path))
    if found.digest != data.digest:
        raise ValueError(
            f"{path} is a session of other data: {found.place}, or {data.place} has changed since. Start a new "
            "session, or name another session file"
        )
    return found.history(data.table)
