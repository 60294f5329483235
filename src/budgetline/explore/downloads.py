"""Files to download: the model, the report, the groups, ONNX, the session, a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from budgetline.explore.fits import estimator_of, fit
from budgetline.explore.session import SUFFIX, SessionRecord
from budgetline.explore.session_data import Data, Sample
from budgetline.explore.state import State
from budgetline.messages import hold_warnings
from budgetline.persistence import save, to_onnx
from budgetline.report import make_report

KINDS: Mapping[str, tuple[str, str]] = {
    "model": (".budgetline", "application/octet-stream"),
    "plan": ("-plan.budgetline", "application/octet-stream"),
    "report": (".html", "text/html; charset=utf-8"),
    "groups": (".yaml", "application/yaml; charset=utf-8"),
    "onnx": (".onnx", "application/octet-stream"),
    "session": (SUFFIX, "application/json"),
}
"""Files to download: suffix and content type."""


class NotReady(ValueError):
    """The state lacks something that a file needs."""


def make_file(what: str, data: Data, record: SessionRecord) -> tuple[str, str, bytes]:
    """Return name, type and content of a file, without warnings."""
    suffix, kind = KINDS[what]
    with hold_warnings():
        content = record.to_json() if what == "session" else _content(what, data, record.state)
    name = f"{data.name.split('.')[0] or 'explore'}{suffix}"
    return name, kind, content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")


def _content(what: str, data: Data, state: State) -> str | bytes:
    if not state.groups:
        raise NotReady("there is no group")
    if what == "groups":
        return state.feature_groups.to_yaml()
    if state.target is None:
        raise NotReady("choose a target first")
    if what == "plan" and state.budget is None:
        raise NotReady("set a budget first")
    rows: Sample = data.read(state.target).of(state.used)
    model = fit(estimator_of(state, rows), rows)
    if what == "report":
        labels = {"metric": state.metric, "title": state.title or None, "unit": state.unit}
        return make_report(model, rows.X, rows.y, progress=False, **labels).to_html()  # type: ignore[arg-type]
    if what == "onnx":
        return bytes(to_onnx(model).SerializeToString())
    if what == "plan" and state.budget is not None:
        needed = {} if model.model_.squared_error else {"X": rows.X, "y": rows.y}
        plan = model.plan(state.budget, progress=False, **needed)
        return _written(lambda path: save(plan, path))
    return _written(lambda path: save(model, path))


def _written(write: Callable[[Path], None]) -> bytes:
    """Return the bytes that a function writes to a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(path)
        return path.read_bytes()
