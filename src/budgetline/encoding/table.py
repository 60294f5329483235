"""TableEncoding: the fitted encoding of a table, from raw columns to design columns, group by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import pairwise

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.encoding.encoders import Encoder, LevelEncoder, NumberEncoder, unused
from budgetline.encoding.raw import RawTable, known_table
from budgetline.encoding.unknown import Watch
from budgetline.groups import Layout


@dataclass(frozen=True, eq=False)
class Pair:
    """Products of design columns of two columns: (x − centre)(z − centre') for every term.

    Attributes
    ----------
    columns : (int, int)
        Which of the columns that are read.
    terms : int array of shape (2, T)
        The factors, by their position among the design columns of each column.
    centres : array of shape (2, T)
    weights : array of shape (T,)
        In the ridge, of the standardised products.
    """

    columns: tuple[int, int]
    terms: Positions
    centres: Float
    weights: Float

    @property
    def width(self) -> int:
        """Number of products, T."""
        return self.weights.size

    def encode(self, first: Float, second: Float) -> Float:
        """Return the products (n, T) of the design columns of both columns."""
        return np.asarray((first[:, self.terms[0]] - self.centres[0]) * (second[:, self.terms[1]] - self.centres[1]))


@dataclass(frozen=True, eq=False)
class TableEncoding:
    """Encoders of the columns of a raw table that are in groups, and pairs of these columns.

    Design columns are those of the first column that is read, then those of the second, and so on, then the products of
    the pairs. A pair is a group of its own: it costs nothing and requires the groups of both columns.

    Attributes
    ----------
    source : Layout
        The groups, and which columns of the user's table they are.
    encoders : tuple of Encoder
        One for each of the columns ``source.read``.
    pairs : tuple of Pair
        The last groups of ``source``, which have no columns there.
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
        """Columns of text in which no level is frequent enough to have a flag."""
        levels = [(name, e) for name, e in zip(self.names, self.encoders, strict=True) if isinstance(e, LevelEncoder)]
        return [name for name, encoder in levels if encoder.rare and not encoder.levels]

    @cached_property
    def ends(self) -> Positions:
        """Where the design columns of every column, and of every pair, end, after a leading 0."""
        return np.cumsum([0, *(part.width for part in (*self.encoders, *self.pairs))])

    @cached_property
    def layout(self) -> Layout:
        """The groups, and which design columns they are."""
        blocks = [np.arange(a, b) for a, b in pairwise(self.ends)]
        n_pairs, D = len(self.pairs), len(self.encoders)
        groups = self.source.position[: len(self.source.position) - n_pairs]
        columns = [np.concatenate([blocks[k] for k in position]) for position in groups]
        labels = [encoder.labels(name) for encoder, name in zip(self.encoders, self.names, strict=True)]
        for pair in self.pairs:
            (a, b), terms = (labels[k] for k in pair.columns), pair.terms.T.tolist()
            labels.append([f"{a[p]} × {b[q]}" for p, q in terms])
        names = dict[str, None]()
        for label in (label for each in labels for label in each):  # a level of one column may look like another column
            names[unused(label, names)] = None
        return Layout((*columns, *blocks[D:]), int(self.ends[-1]), self.source.groups, tuple(names))

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
            a, b = (self.names[k] for k in pair.columns)
            required[unused(f"{a} × {b}", {*names, *required})] = sorted({names[owner[k]] for k in pair.columns})
        groups = source.groups.with_free(required)
        columns = (*source.columns, *(np.empty(0, dtype=np.intp) for _ in pairs))
        wider = Layout(columns, source.n_features, groups, source.names)
        return replace(self, source=wider, pairs=tuple(pairs))

    def table(self, X: object, columns: Positions, watch: Watch | None = None) -> Float:
        """Return design columns (n, len(columns)) of data like those of the fit; other columns need not be there."""
        needed = self.read_for(columns).tolist()
        return self.encode(known_table(X, self.source.names, self.source.n_features, needed), columns, watch)

    def watch(self, mean: Float) -> Watch:
        """Return what counts unknown categories, given the means of the design columns over the training data."""
        usual = {}
        for name, encoder, end in zip(self.names, self.encoders, self.ends[1:].tolist(), strict=False):
            if isinstance(encoder, LevelEncoder) and encoder.rare:
                missing = float(mean[end - 1]) if encoder.missing else 0.0
                usual[name] = min(1.0, float(mean[end - 1 - encoder.missing]) / max(1.0 - missing, 1e-300))
            elif isinstance(encoder, NumberEncoder) and encoder.form and encoder.missing:
                usual[name] = float(mean[end - 1])  # of text in another form, and of no text
        return Watch(usual)

    def groups_there(self, X: object, groups: Positions) -> Mask:
        """Return which groups each row of data has, shape (n, len(groups)): not all of their columns are missing.

        A row has a pair if it has the groups of both columns.
        """
        source, groups_of = self.source, self.source.groups
        place = {name: g for g, name in enumerate(groups_of.names)}
        raw = {int(g): source.columns[g].tolist() for g in groups}
        needed = sorted({d for columns in raw.values() for d in columns})
        table = known_table(X, source.names, source.n_features, needed)
        names = source.labels(np.array(needed, dtype=np.intp))
        gaps = {d: table.column(d, name).missing for d, name in zip(needed, names, strict=True)}
        there = np.ones((table.n_rows, len(raw)), dtype=bool)
        for k, (g, columns) in enumerate(raw.items()):
            # what the groups of a pair require in turn is not needed for its products
            needed_too = [raw[place[name]] for name in groups_of.requires.get(groups_of.names[g], ())]
            for part in [columns] if columns else filter(None, needed_too):
                there[:, k] &= ~np.all([gaps[d] for d in part], axis=0)
        return there

    def encode(self, table: RawTable, columns: Positions | None = None, watch: Watch | None = None) -> Float:
        """Return design columns (n, len(columns)), ascending, None: all; only what they need is read.

        A watch counts unknown categories.
        """
        if columns is None:
            columns = np.arange(self.ends[-1])
        found = np.empty((table.n_rows, columns.size), order="F")
        paired = {k for pair in self.pairs for k in pair.columns}
        blocks: dict[int, Float] = {}  # of columns that may be needed again

        def block(k: int) -> Float:
            if k in blocks:
                return blocks[k]
            column = table.column(int(self.source.read[k]), self.names[k])
            whole = self.encoders[k].encode(column)
            if watch is not None:
                watch.note(self.names[k], self.encoders[k], column)
            if k in paired:
                blocks[k] = whole
            return whole

        for k, own, places in self._parts(columns):
            pair = None if k < len(self.encoders) else self.pairs[k - len(self.encoders)]
            whole = block(k) if pair is None else pair.encode(*map(block, pair.columns))
            found[:, places] = whole[:, own]
        return found

    def note(self, table: RawTable, watch: Watch) -> None:
        """Let a watch count the unknown categories of all columns."""
        for d, name, encoder in zip(self.source.read.tolist(), self.names, self.encoders, strict=True):
            watch.note(name, encoder, table.column(d, name))

    def with_products(self, Z: Float) -> Float:
        """Append the products of the pairs to the other design columns (n, D), all of them."""
        blocks = [Z[:, a:b] for a, b in pairwise(self.ends[: len(self.encoders) + 1])]
        return np.hstack([Z, *(pair.encode(*(blocks[k] for k in pair.columns)) for pair in self.pairs)])

    def _parts(self, columns: Positions) -> Iterator[tuple[int, Positions, slice]]:
        """Yield encoders and pairs that design columns come from: their number, own columns, and where these go."""
        for k in np.unique(np.searchsorted(self.ends, columns, side="right") - 1).tolist():
            start, stop = np.searchsorted(columns, self.ends[[k, k + 1]])
            yield k, columns[start:stop] - self.ends[k], slice(int(start), int(stop))

    def needed(self, columns: Positions) -> list[int]:
        """Return which of the columns that are read some design columns come from."""
        D = len(self.encoders)
        found: set[int] = set()
        for k, _, _ in self._parts(columns):
            found.update([k] if k < D else self.pairs[k - D].columns)
        return sorted(found)

    def read_for(self, columns: Positions | None) -> Positions:
        """Return the columns of the user's table that design columns come from, None: all that are read."""
        return self.source.read if columns is None else self.source.read[self.needed(columns)]

    @cached_property
    def digest(self) -> str:
        """A text that identifies the encoding."""
        found = sha256(repr((self.source.n_features, self.names)).encode())
        for encoder in self.encoders:
            if isinstance(encoder, NumberEncoder):
                curve = encoder.curve
                found.update(b"".join(part.tobytes() for part in (curve.knots, curve.pieces, encoder.weights)))
                found.update(repr((encoder.warp, encoder.spikes, encoder.missing, encoder.form)).encode())
            else:
                names = (encoder.levels, encoder.reference, encoder.text)
                found.update(repr((*names, encoder.rare, encoder.missing)).encode() + encoder.weights.tobytes())
        for pair in self.pairs:
            found.update(b"".join(part.tobytes() for part in (pair.terms, pair.centres, pair.weights)))
            found.update(repr(pair.columns).encode())
        return found.hexdigest()
