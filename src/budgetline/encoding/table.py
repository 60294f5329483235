"""TableEncoding: the fitted encoding of a table, from raw columns to design columns, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from budgetline.arrays import DType, Float, Mask, Positions
from budgetline.encoding.encoders import CategoryEncoder, Encoder, NumberEncoder, unused
from budgetline.encoding.raw import RawColumn, RawTable, known_table
from budgetline.encoding.unknown import Watch
from budgetline.groups import Layout

SMALL = 1 << 26
"""Design matrices of at most this many bytes are made at once: reading them again is faster than encoding again."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Products of design columns of two columns: (x − centre)(z − centre') for each of T terms.

    ``columns`` are the two among the columns that are read, and ``terms`` (2, T) the factors, by their position among
    the design columns of each, with ``centres`` (2, T). The ridge gives the standardised products ``weights`` (T,).
    """

    columns: tuple[int, int]
    terms: Positions
    centres: Float
    weights: Float

    @property
    def width(self) -> int:
        return self.weights.size

    def encode(self, first: Float, second: Float) -> Float:
        """Return the products (n, T) of the design columns of both columns."""
        return np.asarray((first[:, self.terms[0]] - self.centres[0]) * (second[:, self.terms[1]] - self.centres[1]))


@dataclass(frozen=True, eq=False)
class TableEncoding:
    """Encoders of the columns of a raw table that are in groups, and pairs of these columns.

    Design columns are those of the first column that is read, then those of the second, and so on, then the products of
    the pairs. A pair is a group of its own: it costs nothing and requires the groups of both columns.

    ``source`` has the groups and their columns in the user's table, ``encoders`` belong to the columns ``source.read``,
    and ``pairs`` are the last groups of ``source``, without columns there.
    """

    source: Layout
    encoders: tuple[Encoder, ...]
    pairs: tuple[Pair, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are read, or their positions as text."""
        return self.source.labels(self.source.read)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Columns that text files must be read as text or flags, because a few rows of them may look like numbers."""
        kinds = ((name, encoder.kind) for name, encoder in zip(self.names, self.encoders, strict=True))
        return {name: kind for name, kind in kinds if kind is not None}

    @property
    def all_rare(self) -> list[str]:
        """Columns of text in which no category is frequent enough to have a flag."""
        columns = zip(self.names, self.encoders, strict=True)
        return [name for name, e in columns if isinstance(e, CategoryEncoder) and e.rare and not e.categories]

    @cached_property
    def ends(self) -> Positions:
        """Where the design columns of every column, and of every pair, end, after a leading 0."""
        return np.cumsum([0, *(part.width for part in (*self.encoders, *self.pairs))])

    @cached_property
    def layout(self) -> Layout:
        """The groups, and which design columns they are."""
        blocks = [np.arange(a, b) for a, b in pairwise(self.ends)]
        groups = self.source.position[: len(self.source.position) - len(self.pairs)]
        columns = [np.concatenate([blocks[k] for k in position]) for position in groups]
        labels = [encoder.labels(name) for encoder, name in zip(self.encoders, self.names, strict=True)]
        for pair in self.pairs:
            a, b = (labels[k] for k in pair.columns)
            labels.append([f"{a[p]} × {b[q]}" for p, q in pair.terms.T.tolist()])
        names = dict[str, None]()
        for label in (label for each in labels for label in each):  # a category may look like another column
            names[unused(label, names)] = None
        columns += blocks[len(self.encoders) :]
        return Layout(tuple(columns), int(self.ends[-1]), self.source.groups, tuple(names))

    @cached_property
    def weights(self) -> Float:
        """Penalty weights of the design columns."""
        return np.concatenate([part.weights for part in (*self.encoders, *self.pairs)])

    def with_pairs(self, pairs: Sequence[Pair]) -> TableEncoding:
        """Add pairs, as free groups that require those of both columns."""
        source = self.source
        owner = {int(k): g for g, position in enumerate(source.position) for k in position}
        names, required = source.groups.names, dict[str, list[str]]()
        for pair in pairs:
            name = " × ".join(self.names[k] for k in pair.columns)
            required[unused(name, {*names, *required})] = sorted({names[owner[k]] for k in pair.columns})
        columns = (*source.columns, *(np.empty(0, dtype=np.intp) for _ in pairs))
        wider = Layout(columns, source.n_features, source.groups.with_free(required), source.names)
        return replace(self, source=wider, pairs=tuple(pairs))

    def table(self, X: object, columns: Positions, watch: Watch | None = None) -> Float:
        """Return design columns (n, len(columns)) of data like those of the fit; other columns need not be there."""
        return self.encode(known_table(X, self.source, self.read_for(columns)), columns, watch)

    def encode(self, table: RawTable, columns: Positions | None = None, watch: Watch | None = None) -> Float:
        """Return design columns (n, len(columns)), ascending, None: all. A watch counts unknown categories."""
        columns = np.arange(self.ends[-1]) if columns is None else columns
        found, parts, D = np.empty((table.n_rows, columns.size), order="F"), self._parts(columns), len(self.encoders)
        paired = {k for pair in self.pairs for k in pair.columns}
        blocks: dict[int, Float] = {}  # the design columns of columns in pairs
        for k in self.needed(columns):
            column = table.columns[int(self.source.read[k])]
            block = self.encoders[k].encode(column)
            if watch is not None:
                watch.note(self.names[k], self.encoders[k], column)
            if k in paired:
                blocks[k] = block
            if k in parts:
                own, places = parts[k]
                found[:, places] = block[:, own]
        for k in parts.keys() - range(D):
            own, places = parts[k]
            found[:, places] = self.pairs[k - D].encode(*(blocks[j] for j in self.pairs[k - D].columns))[:, own]
        return found

    def with_products(self, Z: Float) -> Float:
        """Append the products of the pairs to the other design columns (n, D), all of them."""
        blocks = [Z[:, a:b] for a, b in pairwise(self.ends[: len(self.encoders) + 1])]
        return np.hstack([Z, *(pair.encode(*(blocks[k] for k in pair.columns)) for pair in self.pairs)])

    def _parts(self, columns: Positions) -> dict[int, tuple[Positions, slice]]:
        """Return the own columns, and their places, of the encoders and pairs that make some design columns."""
        found = {}
        for k in np.unique(np.searchsorted(self.ends, columns, side="right") - 1).tolist():
            start, stop = np.searchsorted(columns, self.ends[[k, k + 1]]).tolist()
            found[k] = columns[start:stop] - self.ends[k], slice(start, stop)
        return found

    def needed(self, columns: Positions) -> list[int]:
        """Return which of the columns that are read some design columns come from."""
        D = len(self.encoders)
        parts = ((k,) if k < D else self.pairs[k - D].columns for k in self._parts(columns))
        return sorted({k for part in parts for k in part})

    def read_for(self, columns: Positions | None) -> Positions:
        """Return the columns of the user's table that design columns come from, None: all that are read."""
        return self.source.read if columns is None else self.source.read[self.needed(columns)]

    def groups_there(self, X: object, groups: Positions) -> Mask:
        """Return which groups each row has, (n, len(groups)): some column of a group, both groups of a pair."""
        source, groups_of = self.source, self.source.groups
        place, needed = {name: g for g, name in enumerate(groups_of.names)}, source.columns_of(groups)
        table = known_table(X, source, needed)
        missing = {d: column.missing for d, column in table.columns.items()}
        there = np.ones((table.n_rows, groups.size), dtype=bool)
        for k, g in enumerate(groups.tolist()):
            parents = [place[name] for name in groups_of.requires.get(groups_of.names[g], ())]
            for own in (source.columns[h].tolist() for h in ([g] if source.columns[g].size else parents)):
                there[:, k] &= not own or ~np.all([missing[d] for d in own], axis=0)
        return there

    def watch(self, mean: Float) -> Watch:
        """Return what counts unknown categories, given the means of the design columns over the training data."""
        usual = {}
        for name, encoder, end in zip(self.names, self.encoders, self.ends[1:].tolist(), strict=False):
            if not isinstance(encoder, NumberEncoder | CategoryEncoder):
                continue  # an encoder of a user
            missing = float(mean[end - 1]) if encoder.missing else 0.0
            if isinstance(encoder, NumberEncoder):
                usual[name] = missing if encoder.form else 0.0  # of text in another form, and of no text
            elif encoder.rare:
                usual[name] = min(1.0, float(mean[end - 1 - encoder.missing]) / max(1.0 - missing, 1e-300))
        return Watch(usual)

    def note(self, table: RawTable, watch: Watch) -> None:
        """Let a watch count the unknown categories of all columns."""
        for d, name, encoder in zip(self.source.read.tolist(), self.names, self.encoders, strict=True):
            watch.note(name, encoder, table.columns[d])


@dataclass(frozen=True, eq=False)
class DesignTable:
    """The design columns (n, D) of a raw table, indexed like an array by rows; they are encoded again each time."""

    table: RawTable
    encoding: TableEncoding
    dtype: ClassVar[DType] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.n_rows, self.encoding.layout.n_features

    def __getitem__(self, index: slice | Positions | tuple[slice, list[int]]) -> Float:
        rows, columns = index if isinstance(index, tuple) else (index, None)
        wanted = None if columns is None else np.asarray(columns, dtype=np.intp)
        return self.encoding.encode(self.table.take(rows), wanted)


def design_of(table: RawTable, encoding: TableEncoding, *, at_once: bool) -> DesignTable | Float:
    """Return the design columns of a raw table, made now if they take little memory, or if ``at_once``."""
    columns = dict(table.columns)
    for d, encoder in zip(encoding.source.read.tolist(), encoding.encoders, strict=True):
        if isinstance(encoder, NumberEncoder) and encoder.form is not None:
            columns[d] = RawColumn(columns[d].name, columns[d].as_numbers(form=encoder.form))
    design = DesignTable(replace(table, columns=columns), encoding)
    n, D = design.shape
    return design[:] if at_once or design.dtype.itemsize * n * D <= SMALL else design
