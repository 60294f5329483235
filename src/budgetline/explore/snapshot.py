"""The session as JSON for its page: the table, the state, and the choices."""

from __future__ import annotations

from dataclasses import asdict

from budgetline.explore.session import Session
from budgetline.explore.session_data import Target
from budgetline.explore.state import ENCODINGS, LOSSES, METRICS, TASKS
from budgetline.leastsquares.rules import RULES


def snapshot_of(session: Session) -> dict[str, object]:
    """Return a session as plain JSON."""
    history, state, table = session.history, session.state, session.table
    plain = asdict(state)
    del plain["columns"]
    plain |= {"task": state.task or None, "loss": state.loss or None}
    columns = [asdict(column) | {"low": _plain(column.low), "high": _plain(column.high)} for column in table.columns]
    return {
        "revision": history.revision,
        "can_undo": bool(history.past),
        "can_redo": bool(history.future),
        "undo_label": history.past[-1].label if history.past else None,
        "redo_label": history.future[-1].label if history.future else None,
        "session": {
            "file": None if session.path is None else session.path.name,
            "saved": session.saved,
            "problem": session.problem,
        },
        "table": {
            "name": table.name,
            "rows": table.rows,
            "notes": [] if table.text is None else table.text.in_words,
            "columns": columns,
            "unhelpful": table.unhelpful,
        },
        "target": None if state.target is None else _target(table.target(state.target), state.task),
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


def _target(target: Target, task: str) -> dict[str, object]:
    """Return what to say of the target; ``positive`` is the class, of two, that probabilities are of."""
    classes = [str(label) for label in target.classes.tolist()] if task == "classification" else []
    positive = classes[1] if len(classes) == 2 else None
    return {"dropped": target.dropped, "form": target.form, "classes": classes, "positive": positive}


def _plain(value: object) -> object:
    """Return a number as it is, and anything else, such as a date, as text."""
    return value if isinstance(value, int | float | None) else str(value)
