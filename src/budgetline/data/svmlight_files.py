"""svmlight files, with query ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from sklearn.datasets import load_svmlight_file

from budgetline.arrays import Array, Positions, Table
from budgetline.data.marks import FilePartition, Mark, rows_about
from budgetline.data.sources import Chunk, Source
from budgetline.messages import cut

TEXT_BYTES = 1 << 25
"""Bytes of text that make a chunk."""
LARGEST_INDEX = 2**31 - 1
"""The number of features while it is not known."""


@dataclass(frozen=True)
class SvmlightPartition(FilePartition):
    """The lines of a file that begin between two positions."""

    start: int
    stop: int
    n_features: int
    ranked: bool
    zero_based: bool

    @property
    def about_rows(self) -> int | None:
        """Number of rows, estimated from the length of the first lines."""
        return rows_about(self.path, self.stop - self.start)

    @property
    def where(self) -> str:
        """The file and its bytes."""
        return f"{self.path}, bytes {self.start} to {self.stop - 1}"

    def fingerprint(self) -> str:
        """Return a text that identifies the contents of the file, and the parts that are read."""
        read = (self.start, self.stop, self.n_features, self.ranked, self.zero_based)
        return f"{self.mark.text(self.where)} {read}"

    def anew(self) -> SvmlightPartition:
        """Return the partition of the file as it is now; it was split by size, so the size must be the same."""
        found = super().anew()
        if found.mark.size != self.mark.size:
            raise ValueError(f"{self.where}: the file has changed since it was opened, and has another size")
        return found

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Parse the lines."""
        with self.mark.held(self.where):
            X, y, qid = self._parsed()
        yield Chunk.of(X if columns is None else X[:, columns], y, None, qid if self.ranked else None, self.where)

    def _parsed(self) -> tuple[Table, Array, Array]:
        """Return X (CSR), y and qid."""
        try:
            text = BytesIO(_lines(self.path, self.start, self.stop))
            X, y, qid = load_svmlight_file(text, n_features=self.n_features, zero_based=self.zero_based, query_id=True)
            return X, y, qid
        except (OSError, ValueError, OverflowError) as error:
            raise ValueError(f"{self.where}: {cut(str(error))}") from error


def svmlight_source(paths: list[Path], n_features: int | None, zero_based: bool, ranked: bool) -> Source:
    """Return a source of files of lines ``target [qid:q] index:value …``.

    Without ``n_features`` the files are read once to find the largest index.
    """
    parts: list[SvmlightPartition] = []
    for path in paths:
        size = Mark.of(path).size
        for start in range(0, size, TEXT_BYTES):
            stop = min(start + TEXT_BYTES, size)
            mark = Mark.of(path, start, stop)
            parts.append(SvmlightPartition(mark, start, stop, n_features or LARGEST_INDEX, ranked, zero_based))
    if n_features is None:
        found = (chunk.X.indices.max(initial=-1) for part in parts for chunk in part.chunks(None))
        n_features = 1 + max(map(int, found), default=-1)
        parts = [replace(part, n_features=n_features) for part in parts]
    if n_features < 1:
        raise ValueError(f"{paths[0]} holds no features")
    return Source(parts, n_features, None, ())


def _lines(path: Path, start: int, stop: int) -> bytes:
    """Return the lines that begin between two positions.

    The ``offset`` of scikit-learn's reader would read twice lines that are longer than the distance.
    """
    with path.open("rb") as file:
        if start > 0:
            file.seek(start - 1)
            file.readline()  # the rest of a line that began before
        text = file.read(max(0, stop - file.tell()))
        return text if text.endswith(b"\n") or not text else text + file.readline()
