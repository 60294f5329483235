"""Files in svmlight format, with query ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from sklearn.datasets import load_svmlight_file

from budgetline.arrays import Array, Positions, Table
from budgetline.data.marks import FilePartition, Mark
from budgetline.data.sources import Chunk, Source
from budgetline.messages import cut

TEXT_BYTES = 1 << 25
"""Bytes of text that make a chunk."""
LARGEST_INDEX = 2**31 - 1
"""Used as the number of features until it is known."""
LONGEST_ROW = 1 << 28
"""Longest line of svmlight beyond the end of a chunk, in bytes."""
MOST_FEATURES, FEATURE_BYTES = 100_000_000, 8
"""Most features of svmlight files, more than the widest have; and the bytes that a fit needs at least for each."""


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

    def reopened(self) -> SvmlightPartition:
        """Return the partition of the file as it is now; it was split by size, so the size must be the same."""
        found = super().reopened()
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

    Without ``n_features`` the files are read once to find the largest index. Too large an index is an error before
    memory is allocated for every feature.
    """
    if n_features is not None and n_features > MOST_FEATURES:
        raise ValueError(_too_many(f"n_features={n_features}", n_features))
    parts: list[SvmlightPartition] = []
    for path in paths:
        size = Mark.of(path).size
        for start in range(0, size, TEXT_BYTES):
            stop = min(start + TEXT_BYTES, size)
            mark = Mark.of(path, start, stop)
            parts.append(SvmlightPartition(mark, start, stop, n_features or LARGEST_INDEX, ranked, zero_based))
    if n_features is None:
        n_features = max((_width(part) for part in parts), default=0)
        parts = [replace(part, n_features=n_features) for part in parts]
    if n_features < 1:
        raise ValueError(f"{paths[0]} holds no features")
    return Source(parts, n_features, None, ())


def _width(part: SvmlightPartition) -> int:
    """Read a part and return its number of features; an error names the line of an index that is too large."""
    width = 1 + max(int(chunk.X.indices.max(initial=-1)) for chunk in part.chunks(None))
    if width > MOST_FEATURES:
        index = width - part.zero_based
        with part.path.open("rb") as file:
            lines = (number for number, line in enumerate(file, start=1) if b" %d:" % index in line)
            line = next(lines, None)
        place = part.where if line is None else f"{part.path}, line {line}"
        raise ValueError(_too_many(f"{place}: index {index}", width))
    return width


def _too_many(what: str, width: int) -> str:
    size = f"{width * FEATURE_BYTES / 1e9:.0f} GB"
    need = f"{width:,} features would need at least {size}, at most {MOST_FEATURES:,} are read"
    return f"{what}: {need}: number the features that occur from 1, or hash them to fewer"


def _lines(path: Path, start: int, stop: int) -> bytes:
    """Return the lines that begin between two positions.

    scikit-learn's own ``offset`` and ``length`` would read a line twice if it is longer than ``length``.
    """
    with path.open("rb") as file:
        if start > 0:
            file.seek(start - 1)
            while not file.readline(TEXT_BYTES).endswith(b"\n") and file.tell() < stop:
                pass  # the rest of a line that began before
        text = file.read(max(0, stop - file.tell()))
        rest = b"" if text.endswith(b"\n") or not text else file.readline(LONGEST_ROW + 1)
        if len(rest) > LONGEST_ROW:
            raise ValueError(f"a line is longer than {LONGEST_ROW / 2**20:.4g} MB: does every line end?")
        return text + rest


def rows_about(path: Path, size: int) -> int | None:
    """Estimate how many lines ``size`` bytes of a file hold, from its first lines."""
    if not path.exists():
        return None  # reading it raises the error
    with path.open("rb") as file:
        head = file.read(1 << 16)
    lines = head.count(b"\n")
    return max(1, round(size * lines / (head.rindex(b"\n") + 1))) if lines else None
