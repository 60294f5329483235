"""Sources: data of any size as partitions that are read on their own, in chunks of rows.

A source knows the columns and cuts the data into `Partition` objects (row groups of a file, rows of an array). A
partition is small, can be sent to another process, and yields `Chunk` objects when it is read there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from budgetline.arrays import Array, Float, Positions, Table
from budgetline.devices import DeviceTable, moved, named_device, on_device, on_host
from budgetline.encoding.table import TableEncoding
from budgetline.inputs import RowError, check_weight, raise_missing

SOURCE_BYTES = 1 << 26
"""Size of the rows that are read at once, and of all chunks in work: small compared with any machine's memory."""
T = TypeVar("T")


@dataclass(frozen=True)
class Chunk:
    """Some rows: the columns asked for (m, D'), targets (m,) or (m, P) as in the data, weights (m,), queries (m,).

    Errors use ``where``, such as a file and its row group, and ``row_name``, which names a row of the chunk, such as
    its line in a file. ``device`` is where the rows are to be multiplied, None: where they are.
    """

    X: Table
    y: Array
    weight: Float | None
    qid: Array | None
    where: str
    row_name: Callable[[int], str] | None = None
    device: str | None = None

    @classmethod
    def of(cls, X: Table, y: Any, weight: Any, qid: Any, where: str, first: int = 0) -> Chunk:
        """Check that the parts have as many rows; errors count rows from ``first``."""
        m = X.shape[0]
        try:
            raise_missing(y, first)
            if qid is not None:
                raise_missing(qid, first, "qid")
            check_lengths(m, y=y, weight=weight, qid=qid)
            weight = check_weight(weight, m, may_be_zero=True)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        return cls(X, np.asarray(y), weight, None if qid is None else np.asarray(qid), where)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Say in every error where the rows come from."""
        try:
            yield
        except (TypeError, ValueError) as error:
            text = str(error)
            if isinstance(error, RowError) and self.row_name is not None:
                text = f"{error.text}, first in {self.row_name(error.row)}"
            raise ValueError(f"{self.where}: {text}") from error

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def table(self) -> Table:
        """The columns where they are to be multiplied."""
        return self.X if self.device is None else moved(self.X, named_device(self.device))

    def take(self, rows: Positions) -> Chunk:
        weight, qid = (None if part is None else part[rows] for part in (self.weight, self.qid))
        X = self.X.take(rows) if hasattr(self.X, "column_names") else self.X[rows]  # an Arrow table, or an array
        name = self.row_name
        named = None if name is None else lambda row: name(int(rows[row]))
        return Chunk(X, self.y[rows], weight, qid, self.where, named, device=self.device)


def row_names(chunks: list[Chunk]) -> Callable[[int], str]:
    """Return the function that names a row of several chunks as its own chunk does."""
    starts = np.cumsum([0, *(chunk.n_rows for chunk in chunks)])

    def row_name(row: int) -> str:
        k = int(np.searchsorted(starts, row, side="right")) - 1
        name = chunks[k].row_name
        return f"row {row}" if name is None else name(row - int(starts[k]))

    return row_name


def check_lengths(n_rows: int, **parts: ArrayLike | None) -> None:
    """Raise an error that names the part whose length is not the number of rows of X."""
    for name, part in parts.items():
        if part is not None and np.shape(part)[:1] != (n_rows,):
            raise ValueError(f"{name} has shape {np.shape(part)}, X has {n_rows} rows")


class Partition(ABC):
    """A part of a source that can be read on its own, perhaps in another process."""

    @property
    def about_rows(self) -> int | None:
        """Number of rows, estimated if it is not known before reading; None if there is no estimate."""
        return None

    def raw(self) -> Self:
        """Return the partition whose chunks hold columns of any kind: data frames, if the data have names."""
        return self

    def dropping(self) -> Self:
        """Return the partition without the rows that have no target; only files can have such rows."""
        return self

    def reading(self, kinds: Mapping[str, str]) -> Self:
        """Return the partition whose columns are read as these kinds, "text" or "flag"; only for text files."""
        return self

    @abstractmethod
    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield the rows, with these columns of the source only (None: all)."""


@dataclass(frozen=True)
class Source:
    """Data of any size, read in chunks. Create a source with `budgetline.open_data`.

    Attributes
    ----------
    partitions : iterable of Partition
        Parts of the data, which are read one after another or on several machines.
    n_features : int
        Number of features, D.
    feature_names : tuple of str, or None
        Names of the features, if they have any.
    target_shape : () or (P,)
        Shape of the target of one row.
    once : bool
        Whether the data can be read only once.
    encoding : TableEncoding, or None
        How raw columns are encoded. With an encoding, the partitions hold raw columns, and the features are design
        columns.
    device : str, or None
        Name of the device on which products of the rows are computed.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import open_data
    >>> open_data((np.eye(3), np.arange(3.0)))
    Source(n_features=3, feature_names=None, target_shape=())
    """

    partitions: Iterable[Partition] = field(repr=False)
    n_features: int
    feature_names: tuple[str, ...] | None
    target_shape: tuple[int, ...]
    once: bool = field(default=False, repr=False)
    encoding: TableEncoding | None = field(default=None, repr=False)
    device: str | None = field(default=None, repr=False)

    def raw(self) -> Source:
        """Return a source whose chunks hold the raw columns, of any type."""
        if self.once:
            raise ValueError("an encoding needs two passes, an iterator allows one: pass a function that starts one")
        parts: Any = self.partitions
        raw = [part.raw() for part in parts] if isinstance(parts, list) else parts.raw()
        return replace(self, partitions=raw)

    def dropping(self) -> Source:
        """Return a source of the same files that leaves out rows without a target."""
        return self._with_each(lambda partition: partition.dropping())

    def reading(self, kinds: Mapping[str, str]) -> Source:
        """Return a source that reads these columns of text files as these ``kinds``, "text" or "flag"."""
        return self._with_each(lambda partition: partition.reading(kinds))

    def _with_each(self, change: Callable[[Partition], Partition]) -> Source:
        """Return the source with changed partitions; those of iterators and dask stay."""
        parts = self.partitions
        return replace(self, partitions=[change(part) for part in parts]) if isinstance(parts, list) else self

    def encoded(self, encoding: TableEncoding) -> Source:
        """Return a source of raw columns as one of design columns."""
        layout, typed = encoding.layout, self.reading(encoding.kinds)
        return replace(typed, n_features=layout.n_features, feature_names=layout.names, encoding=encoding)

    @property
    def about_rows(self) -> int | None:
        """Number of rows, estimated if it is not known before reading; None if there is no estimate."""
        if not isinstance(self.partitions, list):
            return None  # a user's function must not run just to count
        known = [rows for part in self.partitions if (rows := part.about_rows) is not None]
        return sum(known) if len(known) == len(self.partitions) else None


def chunk_rows_for(width: int, itemsize: int = 8) -> int:
    """Return how many rows make a chunk of about ``SOURCE_BYTES``."""
    return max(1, SOURCE_BYTES // (itemsize * max(width, 1)))


def small_chunk_rows(width: int) -> int:
    """Return how many rows make a chunk, if two are computed at once; chunks of wide tables are larger."""
    return min(chunk_rows_for(width), max(chunk_rows_for(width) // 2, 4 * width))


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield items while another thread makes the next one."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lambda: list(islice(iterator, 1)))
        while found := future.result():
            future = pool.submit(lambda: list(islice(iterator, 1)))
            yield found.pop()


# -- arrays ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayPartition(Partition):
    """Rows start … stop of arrays, memmaps or sparse matrices; errors call row 0 ``first``."""

    X: Table
    y: Array
    weight: Array | None
    start: int
    stop: int
    first: int = 0

    @property
    def about_rows(self) -> int:
        return self.stop - self.start

    @property
    def foreign(self) -> bool:
        """Whether X is a table of another library, such as a file that is read by slices."""
        return not (isinstance(self.X, np.ndarray | DeviceTable) or sparse.issparse(self.X))

    def alone(self) -> ArrayPartition:
        """Return the partition without the rest of the arrays, to be sent elsewhere."""
        rows = slice(self.start, self.stop)
        X = np.array(self.X[rows]) if self.foreign else self.X[rows]  # the next slice may use the same memory
        weight = None if self.weight is None else self.weight[rows]
        return ArrayPartition(X, self.y[rows], weight, 0, self.about_rows, self.first + self.start)

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        part = self.alone()
        X = part.X if columns is None else part.X[:, columns]
        where = f"rows {part.first} to {part.first + part.stop - 1}"
        X = X if sparse.issparse(X) or isinstance(X, DeviceTable) else np.asarray(X)
        yield Chunk.of(X, part.y, part.weight, None, where, part.first)


def array_source(X: Table, y: Any, weight: Any, chunk_rows: int | None) -> Source:
    """Return a source of an array, memmap or sparse matrix X of shape (n, D), and vectors of length n."""
    X = X.tocsr() if sparse.issparse(X) else on_device(X)
    if getattr(X, "ndim", None) != 2:
        raise ValueError(f"X must be a table of shape (n, D), got {type(X).__name__} of shape {np.shape(X)}")
    if np.ma.is_masked(X):
        raise ValueError("X is a masked array with masked values: fill them first")
    n, D = X.shape
    y, weight = on_host(y), on_host(weight)
    if y is None or isinstance(y, list | tuple):
        raise_missing(y)  # an array may hide missing values
    y, weight = np.asanyarray(y), None if weight is None else np.asanyarray(weight)
    check_lengths(n, y=y, weight=weight)
    size = chunk_rows or chunk_rows_for(D, X.dtype.itemsize)
    parts = [ArrayPartition(X, y, weight, start, min(start + size, n)) for start in range(0, n, size)]
    return Source(parts, D, None, y.shape[1:])


# -- files -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """The state of a file when it was opened: its size, and when it was changed."""

    path: Path
    size: int
    time: int

    @classmethod
    def of(cls, path: Path) -> Mark:
        try:
            status = path.stat()
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist") from None
        return cls(path, status.st_size, status.st_mtime_ns)

    def check(self, where: str) -> None:
        """Raise an error that says where if the file has changed."""
        if Mark.of(self.path) != self:
            raise ValueError(f"{where}: the file has changed since it was opened; open it again when it is complete")

    @contextmanager
    def held(self, where: str) -> Iterator[None]:
        """Raise an error unless the file is the same before and after the body, which reads it."""
        self.check(where)
        try:
            yield
        except (OSError, ValueError):
            self.check(where)  # the change may be the cause
            raise
        self.check(where)


@dataclass(frozen=True)
class FilePartition(Partition):
    """A file, or a part of one."""

    mark: Mark

    @property
    def path(self) -> Path:
        return self.mark.path

    @property
    def where(self) -> str:
        return str(self.path)
