"""A session: the history of a state of one table, saved after every change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from budgetline.codec import plain_of, read_record
from budgetline.explore.edits import Edit, changed_by, label_of
from budgetline.explore.session_data import Data
from budgetline.explore.state import METRICS, Group, State
from budgetline.explore.takeaway import shell_lines
from budgetline.files import KeptFile

SCHEMA = 4
"""Version of session files. Files of other versions are rejected."""
KIND = "budgetline explore session"
MOST_STEPS = 200
"""Number of states kept for undo."""
JOINED = "set budget"
"""Consecutive steps with this label are undone together, because moving a slider makes many of them."""


class Step(NamedTuple):
    """A state, and what the change that led to it does."""

    label: str
    state: State


@dataclass(frozen=True)
class History:
    """States in the order in which they were made, the place of the present one, and a revision number.

    Every change, including undo, increases the revision.
    """

    steps: tuple[Step, ...]
    now: int = 0
    revision: int = 0

    @property
    def state(self) -> State:
        """The present state."""
        return self.steps[self.now].state

    @property
    def undo_label(self) -> str | None:
        """What the last change does, None if there is nothing to undo."""
        return self.steps[self.now].label if self.now else None

    @property
    def redo_label(self) -> str | None:
        """What the change does that was undone last, None if there is nothing to redo."""
        return self.steps[self.now + 1].label if self.now + 1 < len(self.steps) else None

    def after(self, state: State, label: str) -> History:
        """Return the history with another present state, or itself if nothing changes."""
        if state == self.state:
            return self
        kept = self.now if label == JOINED == self.undo_label else self.now + 1
        steps = (*self.steps[:kept], Step(label, state))[-MOST_STEPS:]
        return History(steps, len(steps) - 1, self.revision + 1)

    def moved(self, by: int) -> History:
        """Return the history one step back, -1, or forward, 1."""
        if not 0 <= self.now + by < len(self.steps):
            raise ValueError(f"there is nothing to {'undo' if by < 0 else 'redo'}")
        return History(self.steps, self.now + by, self.revision + 1)


@dataclass(frozen=True)
class SessionRecord:
    """The content of a session file: place and digest of the data, and the state."""

    place: str
    digest: str
    revision: int
    state: State

    def to_json(self) -> str:
        """Return the content of a session file."""
        return json.dumps({"kind": KIND, "schema": SCHEMA, **plain_of(self)}, allow_nan=False, indent=1) + "\n"


def read_session(content: str | bytes, where: str) -> SessionRecord:
    """Return the record of a session file; errors name it."""
    try:
        plain = json.loads(content)
        if not isinstance(plain, Mapping) or (plain.get("kind"), plain.get("schema")) != (KIND, SCHEMA):
            raise ValueError(f"it is not marked as one, with schema {SCHEMA}")
        return read_record(SessionRecord, {key: value for key, value in plain.items() if key not in ("kind", "schema")})
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{where} is not a session of budgetline explore: {error}") from error


def opening_state(data: Data) -> State:
    """Return the state of a new session: each column is a group, and columns that do not help are left out."""
    names = tuple(column.name for column in data.table.columns)
    groups = tuple(Group(name, (name,)) for name in names if name not in data.unhelpful)
    return State(names, groups, left_out=tuple(data.unhelpful))


class Session:
    """One table, the history of its state, and the session file. Not thread-safe.

    ``problem`` says why the last change is not saved, and what to do; it is empty if all is saved.
    """

    def __init__(self, data: Data, file: KeptFile | None, history: History) -> None:
        self.data, self.file, self.history = data, file, history
        self.problem = ""

    @property
    def state(self) -> State:
        """The present state."""
        return self.history.state

    @property
    def path(self) -> Path | None:
        """The session file."""
        return None if self.file is None else self.file.path

    @property
    def record(self) -> SessionRecord:
        """What is written to the file."""
        place = str(Path(self.data.place).absolute())
        return SessionRecord(place, self.data.digest, self.history.revision, self.state)

    def begin(self, state: State) -> None:
        """Begin with a state, which cannot be undone."""
        self.change(History((Step("", state),), revision=1))

    def change(self, history: History) -> None:
        """Set another history, and write the session file; if that fails, the session goes on and the page says so."""
        if history is self.history:
            return
        self.history = history
        if self.file is None:
            return
        self.problem = ""
        try:
            self.file.write(self.record.to_json().encode())
        except OSError as error:
            changed = isinstance(error, FileExistsError)
            why = "was changed by another program" if changed else f"cannot be written: {error.strerror or error}"
            self.problem = (
                f"{self.file.path.name} {why}. Your changes are kept only while budgetline is running: "
                "download the session under Take away."
            )

    def edit(self, edits: list[Edit]) -> None:
        """Make edits as one step: all of them, or none."""
        self.change(self.history.after(changed_by(self.state, edits, self.data), label_of(edits)))


def start_session(data: Data, path: Path | None, *, new: bool = False) -> Session:
    """Continue the session of a file, or start one; the file must be of these data."""
    history = History((Step("", opening_state(data)),))
    file = None if path is None else KeptFile(path)
    if file is not None and file.content and not new:
        found = read_session(file.content, str(path))
        if (found.digest, found.state.columns) != (data.digest, opening_state(data).columns):
            raise ValueError(
                f"{path} is a session for other data ({found.place}), or {data.place} has changed since then, or was "
                "read with another --delimiter. Start again with --reset, or name another session file"
            )
        history = History((Step("", found.state),), revision=found.revision)
    return Session(data, file, history)


# -- for the page ----------------------------------------------------------------------------------------------


def snapshot_of(session: Session) -> dict[str, object]:
    """Return a session as plain JSON: the table, the state, and the choices."""
    history, state, data = session.history, session.state, session.data
    table = data.table
    plain = asdict(state)
    del plain["columns"]
    columns = [asdict(column) | {"low": _plain(column.low), "high": _plain(column.high)} for column in table.columns]
    file = None if session.path is None else session.path.name
    return {
        "revision": history.revision,
        "undo_label": history.undo_label,
        "redo_label": history.redo_label,
        "session": {"file": file, "problem": session.problem},
        "table": {
            "name": data.name,
            "rows": table.rows,
            "notes": list(table.format),
            "columns": columns,
            "unhelpful": data.unhelpful,
        },
        "target": _target(state, data),
        "state": plain,
        "total_cost": state.feature_groups.prices.total if state.groups else 0.0,
        "choices": {"metric": METRICS.get(state.task, ()), "task": list(METRICS)},
        "lines": shell_lines(state, data),
    }


def _target(state: State, data: Data) -> dict[str, object] | None:
    """Return what to say of the target; ``positive`` is the class, of two, that probabilities are of."""
    if state.target is None:
        return None
    target = data.target(state.target)
    classes = [str(label) for label in target.classes.tolist()] if state.task == "classification" else []
    positive = classes[1] if len(classes) == 2 else None
    return {"dropped": target.dropped, "form": target.form, "classes": classes, "positive": positive}


def _plain(value: object) -> object:
    """Return a number as it is, and anything else, such as a date, as text."""
    return value if isinstance(value, int | float | None) else str(value)
