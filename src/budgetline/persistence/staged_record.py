"""What a file holds of StagedEstimators: groups and order, the kind of table, and the clones as bytes of skops."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Annotated

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from budgetline.arrays import Float, Positions
from budgetline.codec import AtLeast, Shape
from budgetline.estimators import StagedEstimators
from budgetline.groups import Layout
from budgetline.groups.feature_groups import StoredGroups, check_order
from budgetline.inputs import Frame
from budgetline.messages import cut, printable, shown, some
from budgetline.model.prefixes import PrefixModels
from budgetline.packages import imported
from budgetline.persistence.model_record import library_version
from budgetline.persistence.plain_settings import PlainSetting, from_plain, to_plain
from budgetline.sequencing.sequence import GroupSequence

KINDS = {"flag": nw.Boolean, "text": nw.String, "category": nw.Categorical, "number": nw.Float64}
LIBRARIES = ("pandas", "polars", "pyarrow")
NOT_STORED = (AttributeError, ImportError, KeyError, NotImplementedError, RecursionError, TypeError, ValueError)
"""What skops raises for objects that it cannot store or restore."""


@dataclass(frozen=True)
class FrameColumn:
    """What a column holds; ``categories`` are listed if their type lists them."""

    kind: str
    categories: PlainSetting = None
    ordered: bool = False


@dataclass(frozen=True)
class FrameRecord:
    """The library of a frame, such as "pandas", and its columns."""

    library: str
    columns: tuple[FrameColumn, ...]


@dataclass(frozen=True, eq=False)
class StagedRecord:
    """Fitted StagedEstimators as a file holds them.

    ``ends`` are the numbers of groups of the clones; ``estimators`` are bytes of skops: a list of the estimator, the
    one of stage 0, and the clones.
    """

    version: str
    stages_given: PlainSetting
    n_jobs: int | None
    feature_groups: StoredGroups
    n_features: Annotated[int, AtLeast(1)]
    feature_names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    classes: PlainSetting
    null_value: float
    frame: FrameRecord | None
    order: Annotated[Positions, Shape("stages")]
    gains: Annotated[Float, Shape("stages", finite=False)]
    ends: Annotated[Positions, Shape("clones"), AtLeast(1)]
    estimators: Annotated[NDArray[np.uint8], Shape("*")]

    def __post_init__(self) -> None:
        names, D, ends = self.feature_names, self.n_features, self.ends
        if names is not None and len(names) != D:
            raise ValueError(f"feature_names has {len(names)} entries, n_features is {D}")
        check_order(self.order, self.feature_groups)
        self.feature_groups.resolve(names, D)
        if not ends.size or ends[-1] != self.order.size or np.any(np.diff(ends) <= 0):
            raise ValueError("ends must ascend to the length of the order")
        if self.frame is not None and (names is None or len(self.frame.columns) != D):
            raise ValueError(f"frame must have {D} columns with names")


def record_of_staged(model: StagedEstimators) -> StagedRecord:
    """Return the record of fitted StagedEstimators; what could not be read back is an error."""
    found = model.model_
    try:
        stages = from_plain(to_plain(model.stages), "stages")
    except (TypeError, ValueError, RecursionError):
        # budgets that have no plain form, such as a range: these buy the same prefixes
        stages = found.sequence.cumulative_costs[np.array(found.ends) - 1].tolist()
    return StagedRecord(
        library_version(),
        stages,
        None if model.n_jobs is None else int(model.n_jobs),
        found.groups,
        found.layout.n_features,
        found.layout.names,
        found.target_shape,
        found.classes,
        found.sequence.null_value,
        None if found.empty is None or found.layout.names is None else frame_record(found.empty, found.layout),
        found.sequence.order,
        found.sequence.gains,
        np.array(found.ends, dtype=np.intp),
        _dumped([clone(model.estimator), found.null, *found.fitted]),
    )


def staged_of(record: StagedRecord, trusted: Collection[str], where: str) -> StagedEstimators:
    """Return the fitted estimator; types that skops does not know to be safe must be among the trusted ones."""
    io, data = _skops(), record.estimators.tobytes()
    with _naming(where):
        unknown = sorted(set(io.get_untrusted_types(data=data)) - set(trusted))
    if unknown:
        raise TypeError(
            f"{where} holds objects of types that may run code: {some(unknown, 20)}. "
            "If you trust where it comes from, name them all: load(path, trusted=[…])"
        )
    with _naming(where):
        return _restored(record, io.loads(data, trusted=list(trusted)))


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Turn errors into a ValueError that names the file: skops, and what it calls, raise many kinds."""
    try:
        yield
    except Exception as error:
        what = cut(printable(f"{type(error).__name__}: {error}")).rstrip(".")
        raise ValueError(
            f"{where} does not hold staged estimators that can be restored here: {what}. Install what is missing, or "
            "copy or save the file again"
        ) from error


def _restored(record: StagedRecord, estimators: list[object]) -> StagedEstimators:
    for each in estimators:
        if not hasattr(each, "predict") or isinstance(each, type):
            raise TypeError(f"{type(each).__name__} is not an estimator")
    estimator, null, *fitted = estimators
    if len(fitted) != record.ends.size:
        raise ValueError(f"there are {len(fitted)} clones, and {record.ends.size} ends")
    groups, order = record.feature_groups, record.order
    names = tuple(groups.names[g] for g in order.tolist())
    sequence = GroupSequence(order, names, groups.prices.steps(order), record.gains, record.null_value)
    given = {"stages": record.stages_given, "feature_groups": groups, "costs": None, "n_jobs": record.n_jobs}
    settings = {"estimator": estimator, "order": sequence, **given}
    empty = None if record.frame is None else empty_frame(record.frame, record.feature_names or ())
    layout, ends = groups.resolve(record.feature_names, record.n_features), tuple(record.ends.tolist())
    about = (record.target_shape, record.classes, empty, StagedEstimators.__name__, settings)
    return StagedEstimators.from_model(PrefixModels(layout, sequence, ends, tuple(fitted), null, *about))


def _skops() -> ModuleType:
    return imported("skops.io", "files of StagedEstimators need skops", "skops")


def _dumped(estimators: list[object]) -> NDArray[np.uint8]:
    io = _skops()
    try:
        data = io.dumps(estimators)
        io.loads(data, trusted=io.get_untrusted_types(data=data))
    except NOT_STORED as error:
        kind = type(estimators[0]).__name__
        raise TypeError(f"this {kind} cannot be saved: skops does not know a part of it: {cut(str(error))}") from error
    return np.frombuffer(data, dtype=np.uint8)


def frame_record(empty: Frame, layout: Layout) -> FrameRecord:
    """Return the record of a frame; what columns hold that are in no group does not matter."""
    library = empty.implementation.value
    if library not in LIBRARIES:
        raise TypeError(f"frames of {shown(library)} cannot be saved, only of {some(LIBRARIES)}")
    read = set(layout.labels(layout.read))
    columns = (_column(empty, name) if name in read else FrameColumn("text") for name in empty.columns)
    return FrameRecord(library, tuple(columns))


def _column(empty: Frame, name: str) -> FrameColumn:
    dtype = empty.schema[name]
    if dtype in (nw.Categorical, nw.Enum):
        if not empty.implementation.is_pandas():
            return FrameColumn("category", list(dtype.categories) if isinstance(dtype, nw.Enum) else None)
        own = empty[name].to_native().dtype
        return FrameColumn("category", own.categories.tolist(), bool(own.ordered))
    if dtype.is_numeric() or dtype in (nw.Boolean, nw.String, nw.Object):
        return FrameColumn("number" if dtype.is_numeric() else "flag" if dtype == nw.Boolean else "text")
    raise TypeError(f"column {shown(name)} holds {dtype}: only numbers, flags, text and categories can be saved")


def empty_frame(record: FrameRecord, names: tuple[str, ...]) -> Frame:
    """Return a frame without rows; its library must be installed."""
    for column in record.columns:
        if column.kind not in KINDS or not (column.categories is None or isinstance(column.categories, list)):
            raise ValueError(f"frame has a column of the kind {shown(column.kind)}, which is not known here")
    if record.library not in LIBRARIES:
        raise ValueError(f"frames of {shown(record.library)} are not known here, only of {some(LIBRARIES)}")
    try:
        types = import_module(record.library)
    except ImportError as error:
        raise ImportError(f"the estimators were fitted on frames of {record.library}: install it") from error
    pandas = record.library == "pandas"
    columns = dict(zip(names, record.columns, strict=True))
    listed = {name: column for name, column in columns.items() if column.categories is not None}
    schema = {name: KINDS[column.kind]() for name, column in columns.items()}
    schema |= {name: nw.Enum(column.categories) for name, column in listed.items() if not pandas}
    found = nw.from_dict({name: [] for name in names}, schema=schema, backend=types)
    if not pandas:
        return found
    own = {name: types.CategoricalDtype(column.categories, column.ordered) for name, column in listed.items()}
    return nw.from_native(found.to_native().astype(own), eager_only=True)
