"""Sources: data of any size as partitions that are read on their own, in chunks of rows.

A source knows the columns and cuts the data into :class:`Partition` objects (row groups of a file, a stretch of an
array). A partition is small, can be sent to another process, and yields :class:`Chunk` objects when it is read there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from budgetline.inputs import check_table, check_weight, column_names, numbers_of

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
    def of(cls, X: Any, y: Any, weight: Any, qid: Any, where: str) -> Chunk:
        """Check that the parts belong together; errors say where they come from."""
        m = X.shape[0]
        y = np.asarray(y)
        for name, part in (("y", y), ("weight", weight), ("qid", qid)):
            if part is not None and len(part) != m:
                raise ValueError(f"{where}: {name} has {len(part)} rows, X has {m}")
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64)
            try:  # unlike those of a whole table, the weights of a chunk may all be zero
                weight = weight if not weight.any() else check_weight(weight, m)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
        return cls(X, y, weight, None if qid is None else np.asarray(qid), where)

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.X.shape[0])


class Partition(Protocol):
    """A part of a source that can be read on its own, perhaps in another process."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, None if that is not known before reading."""
        ...

    def fingerprint(self) -> str | None:
        """Return a text that changes when the data do; None if there is none, so that nothing can be remembered."""
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
        counts = [None] if self.once else [partition.n_rows for partition in self.partitions]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def fingerprint(self, partition: Partition, columns: Positions | None) -> str | None:
        """Return a name for what is computed of a partition, None if its data cannot be told from others."""
        mark = partition.fingerprint()
        if mark is None:
            return None
        parts = (mark, self.n_features, self.feature_names, None if columns is None else columns.tolist())
        return sha256(repr(parts).encode()).hexdigest()[:32]


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

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    def fingerprint(self) -> None:
        """Return None: arrays are not looked at before they are read."""

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield the rows as one chunk; of a memmap this is the moment they are read."""
        rows = slice(self.start, self.stop)
        X = self.X[rows] if columns is None else self.X[rows][:, columns]
        X = X if sparse.issparse(X) else np.asarray(X)
        weight, qid = (None if part is None else part[rows] for part in (self.weight, self.qid))
        yield Chunk.of(X, self.y[rows], weight, qid, f"rows {self.start} to {self.stop - 1}")


def array_source(X: Any, y: Any, weight: Any = None, qid: Any = None, chunk_rows: int | None = None) -> Source:
    """Return a source of an array, memmap or sparse matrix X of shape (n, D), and vectors of length n."""
    X = X.tocsr() if sparse.issparse(X) else X
    if getattr(X, "ndim", None) != 2:
        raise ValueError(f"X must be a table of shape (n, D), got {type(X).__name__} of shape {np.shape(X)}")
    n, D = X.shape
    y, weight, qid = (part if part is None or hasattr(part, "shape") else np.asarray(part) for part in (y, weight, qid))
    for name, part in (("y", y), ("weight", weight), ("qid", qid)):
        if part is not None and len(part) != n:
            raise ValueError(f"{name} has {len(part)} rows, X has {n}")
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
            names, table = column_names(X), check_table(BaseEstimator(), X, reset=True)
            if names != self.names or table.shape[1] != self.n_features:
                found, wanted = _columns(names, table.shape[1]), _columns(self.names, self.n_features)
                raise ValueError(f"other columns than before: {found} instead of {wanted}")
            numbers = numbers_of(table, columns)
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
    names, D = column_names(X), np.shape(X)[1]

    def partitions(given: Iterator[Any]) -> Iterator[Partition]:
        return (GivenPartition(part, f"chunk {k}", names, D) for k, part in enumerate(given))

    parts: Any = Repeated(lambda: partitions(iter(chunks()))) if again else partitions(chain([first], iterator))
    return Source(parts, D, names, np.shape(y)[1:])


def split_given(given: Any, where: str) -> tuple[Any, Any, Any]:
    """Return X, y and weight of a chunk that a user gave."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise TypeError(f"{where} must be (X, y) or (X, y, weight), got {type(given).__name__}")
    return given[0], given[1], given[2] if len(given) == 3 else None


def _columns(names: tuple[str, ...] | None, count: int) -> str:
    if names is None:
        return f"{count} without names"
    return f"{count} ({', '.join(map(repr, names[:5]))}{', …' if count > 5 else ''})"
