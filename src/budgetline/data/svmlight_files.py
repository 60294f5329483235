"""Files in svmlight format, with query ids, read in stretches of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path

from sklearn.datasets import load_svmlight_file

from budgetline.arrays import Positions
from budgetline.data.sources import Chunk, FilePartition, Mark, Source
from budgetline.data.text_format import text_rows_about
from budgetline.messages import cut

TEXT_BYTES = 1 << 25
"""Bytes of text that make a chunk."""
LARGEST_INDEX = 2**31 - 1
"""Used as the number of features until it is known."""
MOST_FEATURES = 100_000_000


@dataclass(frozen=True)
class SvmlightPartition(FilePartition):
    """The lines of a file between two positions."""

    start: int
    stop: int
    n_features: int
    ranked: bool
    zero_based: bool

    @property
    def about_rows(self) -> int | None:
        rows = text_rows_about(self.path)
        return None if rows is None else round(rows * (self.stop - self.start) / self.mark.size)

    @property
    def where(self) -> str:
        return f"{self.path}, bytes {self.start} to {self.stop - 1}"

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        with self.mark.held(self.where), self.path.open("rb") as file:
            file.seek(self.start)
            text = BytesIO(file.read(self.stop - self.start))
            try:
                X, y, qid = load_svmlight_file(
                    text, n_features=self.n_features, zero_based=self.zero_based, query_id=True
                )
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{self.where}: {cut(str(error))}") from error
        yield Chunk.of(X if columns is None else X[:, columns], y, None, qid if self.ranked else None, self.where)


def svmlight_source(paths: list[Path], n_features: int | None, zero_based: bool, ranked: bool) -> Source:
    """Return a source of lines ``target [qid:q] index:value …``; without ``n_features``, read them once to find it."""
    parts = [
        SvmlightPartition(mark, start, stop, n_features or LARGEST_INDEX, ranked, zero_based)
        for mark in map(Mark.of, paths)
        for start, stop in pairwise(_line_starts(mark))
    ]
    where = f"n_features={n_features}"
    if n_features is None:
        read = ((part, chunk) for part in parts for chunk in part.chunks(None))
        widths = ((1 + int(chunk.X.indices.max(initial=-1)), part.where) for part, chunk in read)
        n_features, where = max(widths, default=(0, ""))
        parts = [replace(part, n_features=n_features) for part in parts]
    if n_features < 1:
        raise ValueError(f"{paths[0]} holds no features")
    if n_features > MOST_FEATURES:  # an error before memory is allocated for every feature
        what = f"{n_features:,} features would need at least {8 * n_features / 1e9:.0f} GB"
        raise ValueError(f"{where}: {what}: number the features that occur from 1, or hash them to fewer")
    return Source(parts, n_features, None, ())


def _line_starts(mark: Mark) -> list[int]:
    """Return positions in a file between which there are whole lines, about TEXT_BYTES apart, and its end."""
    starts = {0, mark.size}
    with mark.path.open("rb") as file:
        for position in range(TEXT_BYTES, mark.size, TEXT_BYTES):
            file.seek(position - 1)
            file.readline()
            starts.add(file.tell())
    return sorted(starts)
