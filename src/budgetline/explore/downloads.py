"""Files to download: the model, the report, the groups, ONNX, the session, a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from budgetline.estimators.unattended import Estimator
from budgetline.explore.fits import estimator_of, fit
from budgetline.explore.lines import groups_yaml
from budgetline.explore.session import SUFFIX, SessionRecord
from budgetline.explore.session_data import Data, Sample
from budgetline.messages import hold_warnings
from budgetline.persistence import save, to_onnx
from budgetline.report import make_report


class NotReady(ValueError):
    """The state lacks something that a file needs."""


@dataclass(frozen=True)
class Wanted:
    """A session at the time of a request."""

    data: Data
    record: SessionRecord

    def fitted(self) -> tuple[Estimator, Sample]:
        """Fit the estimator to the data; return both."""
        state = self.record.state
        if state.target is None or not state.groups:
            raise NotReady("choose a target first" if state.target is None else "there is no group to learn from")
        sample = self.data.read(state.target).of(state.used)
        return fit(estimator_of(state, sample), sample), sample

    def name(self, suffix: str) -> str:
        """Return the name of a file: that of the data with another suffix."""
        return f"{self.data.name.split('.')[0] or 'explore'}{suffix}"


def _model(wanted: Wanted) -> bytes:
    return _written(lambda path: save(wanted.fitted()[0], path))


def _plan(wanted: Wanted) -> bytes:
    budget = wanted.record.state.budget
    if budget is None:
        raise NotReady("set a budget first")
    model, rows = wanted.fitted()
    data = {} if model.model_.squared_error else {"X": rows.X, "y": rows.y}
    return _written(lambda path: save(model.plan(budget, progress=False, **data), path))


def _report(wanted: Wanted) -> bytes:
    model, rows = wanted.fitted()
    state = wanted.record.state
    made = make_report(
        model, rows.X, rows.y, metric=state.metric, title=state.title or None, unit=state.unit, progress=False
    )
    return made.to_html().encode("utf-8", errors="backslashreplace")


def _onnx(wanted: Wanted) -> bytes:
    found: bytes = to_onnx(wanted.fitted()[0]).SerializeToString()
    return found


def _groups(wanted: Wanted) -> bytes:
    if not wanted.record.state.groups:
        raise NotReady("there is no group")
    return groups_yaml(wanted.record.state).encode("utf-8", errors="backslashreplace")


def _session(wanted: Wanted) -> bytes:
    return wanted.record.to_json().encode()


def _written(write: Callable[[Path], None]) -> bytes:
    """Return the bytes that a function writes to a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(path)
        return path.read_bytes()


KINDS: Mapping[str, tuple[str, str, Callable[[Wanted], bytes]]] = {
    "model": (".budgetline", "application/octet-stream", _model),
    "plan": ("-plan.budgetline", "application/octet-stream", _plan),
    "report": (".html", "text/html; charset=utf-8", _report),
    "groups": (".yaml", "application/yaml; charset=utf-8", _groups),
    "onnx": (".onnx", "application/octet-stream", _onnx),
    "session": (SUFFIX, "application/json", _session),
}
"""Files to download: suffix, content type, and the function that makes them."""


def make_file(what: str, wanted: Wanted) -> tuple[str, str, bytes]:
    """Return name, type and content of a file, without warnings."""
    suffix, kind, make = KINDS[what]
    with hold_warnings():
        return wanted.name(suffix), kind, make(wanted)
