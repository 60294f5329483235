"""Sources: data of any size as partitions that are read on their own, in chunks of rows.

A source knows the columns and cuts the data into :class:`Partition` objects (row groups of a file, a stretch of an
array). A partition is small, can be sent to another process, and yields :class:`Chunk` objects when it is read there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetline.data.marks import Marked
from budgetline.inputs import check_table, check_weight, column_names, numbers_of, raise_missing
from budgetline.messages import some

Float = NDArray[np.float64]
Positions = NDArray[np.intp]

SOURCE_BYTES = 1 << 26
"""Size of a chunk when the user names none: large enough to keep BLAS busy, small beside any machine's memory."""


@dataclass(frozen=True)
class Chunk:
    """Some rows: the columns asked for, targets, weights, queries.

    Attributes
    ----------
    X : array or CSR matrix of shape (m, D')
    y : array of shape (m,) or (m, P)
        As they are in the data: numbers or labels.
    weight : array of shape (m,), or None
    qid : array of shape (m,), or None
    where : str
        Where the rows come from, for errors: a file and its row group, say.
    """

    X: Any
    y: NDArray[Any]
    weight: Float | None
    qid: NDArray[Any] | None
    where: str

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any, qid: Any, where: str, first: int = 0) -> Chunk:
        """Check that the parts belong together; errors say where they come from, counting rows from ``first``."""
        m = X.shape[0]
        if y is None:
            raise ValueError(f"{where}: requires y to be passed, but the target y is None")
        try:
            raise_missing(y, first)
            if qid is not None:
                raise_missing(qid, first, "qid")
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        y = np.asarray(y)
        for name, part in (("y", y), ("weight", weight), ("qid", qid)):
            if part is not None and np.shape(part)[:1] != (m,):
                raise ValueError(f"{where}: {name} has shape {np.shape(part)}, X has {m} rows")
        if weight is not None:
            try:  # unlike those of a whole table, the weights of a chunk may all be zero
                weight = np.asanyarray(weight, dtype=np.float64)
                weight = check_weight(weight, m) if np.ma.is_masked(weight) or weight.any() else np.asarray(weight)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
        return cls(X, y, weight, None if qid is None else np.asarray(qid), where)

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.X.shape[0])

    def take(self, rows: Positions) -> Chunk:
        """Return some of the rows."""
        weight, qid = (None if part is None else part[rows] for part in (self.weight, self.qid))
        return Chunk(self.X[rows], self.y[rows], weight, qid, self.where)


class Partition(Protocol):
    """A part of a source that can be read on its own, perhaps in another process."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, None if that is not known before reading."""
        ...

    def fingerprint(self) -> str | None:
        """Return a text that tells the data from others; None if there is none, so that nothing can be remembered.

        Raises an error if the data are no longer those that were opened.
        """
        ...

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield the rows, with these columns of the source only (None: all)."""
        ...


@dataclass(frozen=True)
class Source:
    """Data of any size, read in chunks. Make one with :func:`budgetline.open_source`.

    Attributes
    ----------
    partitions : sequence of Partition, or an iterator that can be read once
    n_features : int
    feature_names : tuple of str, or None
    target_shape : () or (P,)

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import open_source
    >>> open_source((np.eye(3), np.arange(3.0)))
    Source(n_features=3, feature_names=None, target_shape=())
    """

    partitions: Iterable[Partition] = field(repr=False)
    n_features: int
    feature_names: tuple[str, ...] | None
    target_shape: tuple[int, ...]

    @property
    def once(self) -> bool:
        """Whether it can be read only once."""
        return not isinstance(self.partitions, Sequence)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, None if that is not known before reading."""
        # what a function gives is not listed just to count it
        listed = isinstance(self.partitions, list)
        counts = [partition.n_rows for partition in self.partitions] if listed else [None]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def about_rows(self) -> int | None:
        """Number of rows, guessed where it is not known: for a progress bar."""
        listed = self.partitions if isinstance(self.partitions, list) else [None]
        counts = [getattr(partition, "about_rows", getattr(partition, "n_rows", None)) for partition in listed]
        known: list[int] = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def anew(self) -> Source:
        """Return the source for a reading of its own: its files may have changed since they were opened."""
        if not isinstance(self.partitions, list):
            return self
        parts: list[Any] = [part.anew() if isinstance(part, Marked) else part for part in self.partitions]
        return replace(self, partitions=parts)

    def fingerprint(self, partition: Partition, columns: Positions | None, statistic: Any) -> str | None:
        """Return a name for a statistic of a partition, None if its data cannot be told from others."""
        mark = partition.fingerprint()
        if mark is None:
            return None
        read = None if columns is None else columns.tolist()
        parts = (mark, self.n_features, self.feature_names, read, statistic)
        return sha256(repr(parts).encode()).hexdigest()[:32]


def rows_about(path: Path, size: int | None = None) -> int | None:
    """Return about how many lines ``size`` bytes of a text file (None: all of it) hold, by its first lines."""
    if not path.exists():
        return None  # whoever reads it will say so
    size = path.stat().st_size if size is None else size
    with open(path, "rb") as file:
        head = file.read(1 << 16)
    lines = head.count(b"\n")
    return max(1, round(size * lines / (head.rindex(b"\n") + 1))) if lines else None


def chunk_rows_for(width: int, itemsize: int = 8) -> int:
    """Return how many rows make a chunk of about ``SOURCE_BYTES``."""
    return max(1, SOURCE_BYTES // (itemsize * max(width, 1)))


@dataclass(frozen=True)
class ArrayPartition:
    """Rows start … stop of arrays, memmaps or sparse matrices."""

    X: Any
    y: Any
    weight: Any
    qid: Any
    start: int
    stop: int
    first: int = 0
    """What row 0 is called in errors."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    @property
    def where(self) -> str:
        """The rows, as the user counts them."""
        return f"rows {self.first + self.start} to {self.first + self.stop - 1}"

    def fingerprint(self) -> None:
        """Return None: arrays are not looked at before they are read."""

    def alone(self) -> ArrayPartition:
        """Return the partition without the rest of the arrays, to be sent elsewhere."""
        rows = slice(self.start, self.stop)
        weight, qid = (None if part is None else part[rows] for part in (self.weight, self.qid))
        return ArrayPartition(self.X[rows], self.y[rows], weight, qid, 0, self.n_rows, self.first + self.start)

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield the rows as one chunk; of a memmap this is the moment they are read."""
        rows = slice(self.start, self.stop)
        X = self.X[rows] if columns is None else self.X[rows][:, columns]
        X = X if sparse.issparse(X) else np.asarray(X)
        weight, qid = (None if part is None else part[rows] for part in (self.weight, self.qid))
        yield Chunk.of(X, self.y[rows], weight, qid, self.where, self.first + self.start)


def array_source(X: Any, y: Any, weight: Any = None, qid: Any = None, chunk_rows: int | None = None) -> Source:
    """Return a source of an array, memmap or sparse matrix X of shape (n, D), and vectors of length n."""
    X = X.tocsr() if sparse.issparse(X) else X
    if getattr(X, "ndim", None) != 2:
        raise ValueError(f"X must be a table of shape (n, D), got {type(X).__name__} of shape {np.shape(X)}")
    if np.ma.is_masked(X):
        raise ValueError("X is a masked array with masked values: fill them first")
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    n, D = X.shape
    if isinstance(y, list | tuple):
        raise_missing(y)  # an array may not tell any more
    y, weight, qid = (None if part is None else np.asanyarray(part) for part in (y, weight, qid))
    for name, part in (("y", y), ("weight", weight), ("qid", qid)):
        if part is not None and part.shape[:1] != (n,):
            raise ValueError(f"{name} has shape {part.shape}, X has {n} rows")
    size = chunk_rows or chunk_rows_for(D, X.dtype.itemsize)
    parts = [ArrayPartition(X, y, weight, qid, start, min(start + size, n)) for start in range(0, n, size)]
    return Source(parts, D, None, np.shape(y)[1:])


@dataclass(frozen=True)
class GivenPartition:
    """A chunk (X, y) or (X, y, weight) that a user's iterator gave."""

    given: Any
    where: str
    names: tuple[str, ...] | None
    n_features: int
    n_rows: None = None

    def fingerprint(self) -> None:
        """Return None: what an iterator gives has no name."""

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield the chunk, unless its columns are not those of the first."""
        X, y, weight = split_given(self.given, self.where)
        try:
            names, shape = column_names(X), np.shape(X)
            if len(shape) == 2 and (names != self.names or shape[1] != self.n_features):
                found, wanted = _columns(names, shape[1]), _columns(self.names, self.n_features)
                raise ValueError(f"other columns than before: {found} instead of {wanted}")
            if shape[:1] == (0,):
                return  # a chunk without rows adds nothing
            numbers = numbers_of(check_table(X), columns)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.where}: {error}") from error
        yield Chunk.of(numbers, y, weight, None, self.where)


class Repeated(Sequence[Partition]):
    """What a function gives that starts a new iterator each time: chunks that can be read again."""

    def __init__(self, make: Callable[[], Iterator[Partition]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Partition]:
        return self._make()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


def iterator_source(chunks: Any) -> Source:
    """Return a source of a user's iterator of (X, y) or (X, y, weight), or of a function that starts one."""
    again = callable(chunks)
    iterator = iter(chunks() if again else chunks)
    first = next(iterator, None)
    if first is None:
        raise ValueError("the iterator of chunks is empty")
    X, y, _ = split_given(first, "chunk 0")
    if len(np.shape(X)) != 2:
        raise ValueError(f"chunk 0: X must be a table of shape (n, D), got {type(X).__name__} of shape {np.shape(X)}")
    names, D = column_names(X), np.shape(X)[1]

    def partitions(given: Iterator[Any]) -> Iterator[Partition]:
        return (GivenPartition(part, f"chunk {k}", names, D) for k, part in enumerate(given))

    parts: Any = Repeated(lambda: partitions(iter(chunks()))) if again else partitions(chain([first], iterator))
    return Source(parts, D, names, np.shape(y)[1:])


def split_given(given: Any, where: str) -> tuple[Any, Any, Any]:
    """Return X, y and weight of a chunk that a user gave."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        size = f" of length {len(given)}" if isinstance(given, tuple | list) else ""
        raise TypeError(f"{where} must be (X, y) or (X, y, weight), got {type(given).__name__}{size}")
    return given[0], given[1], given[2] if len(given) == 3 else None


def _columns(names: tuple[str, ...] | None, count: int) -> str:
    if names is None:
        return f"{count} without names"
    return f"{count} ({some(names, 5)})"
