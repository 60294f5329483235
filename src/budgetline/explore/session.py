"""A session: the history of a state of one table, saved after every change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from budgetline.codec import plain_of, read_record
from budgetline.explore.edits import Edit, changed_by, label_of
from budgetline.explore.session_data import Data
from budgetline.explore.state import ENCODINGS, LOSSES, METRICS, TASKS, Group, State
from budgetline.files import KeptFile
from budgetline.leastsquares.rules import RULES

SCHEMA = 3
"""Version of session files; others are refused."""
KIND = "budgetline explore session"
MOST_STEPS = 200
"""Number of steps that can be undone."""
SUFFIX = ".explore"
JOINED = "set budget"
"""Steps with this label that follow each other are undone together: a slider makes many."""


@dataclass(frozen=True)
class Step:
    """A state before or after the present one, and what the change between it and the next does."""

    label: str
    state: State


@dataclass(frozen=True)
class History:
    """The present state, the states before it, the states that were undone (each nearest last), and a revision number.

    Every change, including undo, increases the revision.
    """

    state: State
    revision: int = 0
    past: tuple[Step, ...] = ()
    future: tuple[Step, ...] = ()

    def after(self, state: State, label: str) -> History:
        """Return the history with another present state, or itself if nothing changes."""
        if state == self.state:
            return self
        joins = label == JOINED and self.past and self.past[-1].label == JOINED
        past = self.past if joins else (*self.past, Step(label, self.state))[-MOST_STEPS:]
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
        self.saved, self.problem = bool(history.revision), ""

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

    def change(self, history: History) -> None:
        """Set another history, and write the session file; if that fails, the session goes on and the page says so."""
        if history is self.history:
            return
        self.history = history
        if self.file is None:
            return
        self.saved, self.problem = False, ""
        try:
            self.file.write(self.record.to_json().encode())
            self.saved = True
        except OSError as error:
            changed = isinstance(error, FileExistsError)
            why = "was changed by another program" if changed else f"cannot be written: {error.strerror or error}"
            self.problem = (
                f"{self.file.path.name} {why}. Your changes are kept only as long as budgetline runs: "
                "download the session under Take away."
            )

    def edit(self, edits: list[Edit]) -> None:
        """Make edits as one step: all of them, or none."""
        self.change(self.history.after(changed_by(self.state, edits, self.data), label_of(edits)))


def start_session(data: Data, path: Path | None, *, new: bool = False) -> Session:
    """Continue the session of a file, or start one; the file must be of these data."""
    history = History(opening_state(data))
    file = None if path is None else KeptFile(path)
    if file is not None and file.content and not new:
        found = read_session(file.content, str(path))
        if (found.digest, found.state.columns) != (data.digest, opening_state(data).columns):
            raise ValueError(
                f"{path} is a session of other data: {found.place}, or {data.place} has changed since, or was read "
                "with another --delimiter. Start again with --reset, or name another session file"
            )
        history = History(found.state, found.revision)
    return Session(data, file, history)


# -- for the page ----------------------------------------------------------------------------------------------


def snapshot_of(session: Session) -> dict[str, object]:
    """Return a session as plain JSON: the table, the state, and the choices."""
    history, state, data = session.history, session.state, session.data
    table = data.table
    plain = asdict(state)
    del plain["columns"]
    plain |= {"task": state.task or None, "loss": state.loss or None}
    columns = [asdict(column) | {"low": _plain(column.low), "high": _plain(column.high)} for column in table.columns]
    file = None if session.path is None else session.path.name
    return {
        "revision": history.revision,
        "can_undo": bool(history.past),
        "can_redo": bool(history.future),
        "undo_label": history.past[-1].label if history.past else None,
        "redo_label": history.future[-1].label if history.future else None,
        "session": {"file": file, "saved": session.saved, "problem": session.problem},
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
        "choices": {
            "metric": METRICS.get(state.loss, ()),
            "rule": list(RULES),
            "encoding": ENCODINGS,
            "task": TASKS,
            "loss": LOSSES if state.task == "regression" else ("log_loss",) if state.task else (),
        },
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
