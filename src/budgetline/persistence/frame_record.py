"""The kind of frame that estimators were fitted on, in a file: its library, and what its columns hold."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import narwhals as nw

from budgetline.groups import Layout
from budgetline.inputs import Frame
from budgetline.messages import shown, some
from budgetline.persistence.plain_settings import PlainSetting

KINDS = {"flag": nw.Boolean, "text": nw.String, "levels": nw.Categorical, "number": nw.Float64}
LIBRARIES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class FrameColumn:
    """What a column holds; ``levels`` are those of categories that are listed."""

    kind: str
    levels: PlainSetting = None
    ordered: bool = False


@dataclass(frozen=True)
class FrameRecord:
    """The library of a frame, such as "pandas", and its columns."""

    library: str
    columns: tuple[FrameColumn, ...]


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
            return FrameColumn("levels", list(dtype.categories) if isinstance(dtype, nw.Enum) else None)
        own = empty[name].to_native().dtype
        return FrameColumn("levels", own.categories.tolist(), bool(own.ordered))
    if dtype.is_numeric():
        return FrameColumn("number")
    if dtype == nw.Boolean:
        return FrameColumn("flag")
    if dtype in (nw.String, nw.Object):
        return FrameColumn("text")
    known = "only numbers, flags, text and categories can be saved"
    raise TypeError(f"column {shown(name)} holds {dtype}: {known}")


def empty_frame(record: FrameRecord, names: tuple[str, ...]) -> Frame:
    """Return a frame without rows; its library must be installed."""
    for column in record.columns:
        if column.kind not in KINDS or not (column.levels is None or isinstance(column.levels, list)):
            raise ValueError(f"frame has a column of the kind {shown(column.kind)}, which is not known here")
    if record.library not in LIBRARIES:
        raise ValueError(f"frames of {shown(record.library)} are not known here, only of {some(LIBRARIES)}")
    try:
        types = import_module(record.library)
    except ImportError as error:
        raise ImportError(f"the estimators were fitted on frames of {record.library}: install it") from error
    pandas = record.library == "pandas"
    columns = dict(zip(names, record.columns, strict=True))
    levels = {name: column for name, column in columns.items() if column.levels is not None}
    schema = {name: KINDS[column.kind]() for name, column in columns.items()}
    schema |= {name: nw.Enum(column.levels) for name, column in levels.items() if not pandas}
    found = nw.from_dict({name: [] for name in names}, schema=schema, backend=types)
    if not pandas:
        return found
    listed = {name: types.CategoricalDtype(column.levels, column.ordered) for name, column in levels.items()}
    return nw.from_native(found.to_native().astype(listed), eager_only=True)
