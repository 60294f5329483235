"""Chunks from a caller's iterator: the caller's memory, read in the caller's thread.

A caller may use its arrays again for the next chunk, and its objects may belong to its thread, like the cursors of
sqlite3. So each chunk is copied before the next one is requested, always from the same thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from budgetline.arrays import Positions, Table
from budgetline.data.sources import Chunk, Partition, Source
from budgetline.devices import device_of, on_host
from budgetline.encoding.raw import raw_part
from budgetline.inputs import NamedArray, check_table, column_names, numbers_of
from budgetline.messages import some


@dataclass(frozen=True)
class GivenPartition(Partition):
    """A chunk (X, y) or (X, y, weight) from a user's iterator."""

    given: object
    where: str
    names: tuple[str, ...] | None
    n_features: int
    as_is: bool = False

    def raw(self) -> GivenPartition:
        return replace(self, as_is=True)

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        X, y, weight = split_given(self.given, self.where)
        try:
            names, shape = column_names(X), np.shape(X)
            if len(shape) == 2 and (names != self.names or shape[1] != self.n_features):
                found, wanted = _columns(names, shape[1]), _columns(self.names, self.n_features)
                raise ValueError(f"other columns than before: {found} instead of {wanted}")
            if shape[:1] == (0,):
                return  # a chunk without rows adds nothing
            numbers = raw_part(X, columns) if self.as_is else numbers_of(check_table(X), columns)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.where}: {error}") from error
        yield Chunk.of(numbers, y, weight, None, self.where)


@dataclass(frozen=True)
class Repeated:
    """The partitions of a function that starts a new iterator each time it is called."""

    make: Callable[[], Iterator[Partition]]

    def __iter__(self) -> Iterator[Partition]:
        return self.make()

    def raw(self) -> Repeated:
        return Repeated(lambda: (partition.raw() for partition in self.make()))


def iterator_source(chunks: Callable[[], Iterable[object]] | Iterable[object]) -> Source:
    """Return a source of a user's iterator of (X, y) or (X, y, weight), or of a function that starts one."""
    iterator = iter(chunks() if callable(chunks) else chunks)
    first = next(iterator, None)
    if first is None:
        raise ValueError("the iterator of chunks is empty")
    X, y, _ = split_given(first, "chunk 0")
    if len(np.shape(X)) != 2:
        raise ValueError(f"chunk 0: X must be a table of shape (n, D), got {type(X).__name__} of shape {np.shape(X)}")
    names, D = column_names(X), np.shape(X)[1]

    def partitions(given: Iterable[object]) -> Iterator[Partition]:
        numbered = ((part, f"chunk {k}") for k, part in enumerate(given))
        return (GivenPartition(_copied(part, where), where, names, D) for part, where in numbered)

    if callable(chunks):
        return Source(Repeated(lambda: partitions(chunks())), D, names, np.shape(y)[1:])
    return Source(partitions(chain([_copied(first, "chunk 0")], iterator)), D, names, np.shape(y)[1:], once=True)


def frame_source(given: tuple[object, ...]) -> Source:
    """Return a source of one data frame X with its y, and perhaps weights."""
    X, y, _ = split_given(given, "the tuple")
    names, D = column_names(X), np.shape(X)[1]
    return Source([GivenPartition(given, "the table", names, D)], D, names, np.shape(y)[1:])


def split_given(given: object, where: str) -> tuple[Any, Any, Any]:
    """Return X, y and weight of a chunk given by a user."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        size = f" of length {len(given)}" if isinstance(given, tuple | list) else ""
        raise TypeError(f"{where} must be (X, y) or (X, y, weight), got {type(given).__name__}{size}")
    return given[0], on_host(given[1]), on_host(given[2]) if len(given) == 3 else None


def _columns(names: tuple[str, ...] | None, count: int) -> str:
    return f"{count} without names" if names is None else f"{count} ({some(names, 5)})"


def _copied(given: object, where: str) -> object:
    """Return a copy of a chunk; anything else stays, and is refused when it is read."""
    try:
        return tuple(map(_copied_part, given)) if isinstance(given, tuple | list) else given
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def _copied_part(part: Table) -> object:
    """Return a copy of a table, targets or weights."""
    if (device := device_of(part)) is not None:
        return device.take(part, device.positions(np.arange(part.shape[0])), 0) if len(part.shape) else part
    frame = nw.from_native(part, pass_through=True, allow_series=True)
    if isinstance(frame, nw.DataFrame | nw.Series) and not frame.implementation.is_pandas_like():
        return frame[np.arange(len(frame))].to_native()  # polars and Arrow may share memory with an array
    if isinstance(part, list | tuple | NamedArray) or frame is not part or sparse.issparse(part):
        return deepcopy(part)
    return part if part is None else np.array(part, subok=True)  # array.array and others have no __array__
