"""TableEncoding: the fitted encoding of a table, from raw columns to design columns, group by group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.encoding.encoders import Encoder, NumberEncoder
from budgetline.encoding.raw import RawTable, known_table
from budgetline.groups import Layout


@dataclass(frozen=True, eq=False)
class TableEncoding:
    """Encoders of the columns of a raw table that are in groups.

    Design columns are those of the first column that is read, then those of the second, and so on.

    Attributes
    ----------
    source : Layout
        The groups, and which columns of the user's table they are.
    encoders : tuple of Encoder
        One for each of the columns ``source.read``.
    """

    source: Layout
    encoders: tuple[Encoder, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are read, or their positions as text."""
        known = self.source.names
        return tuple(str(d) if known is None else known[d] for d in self.source.read.tolist())

    @cached_property
    def ends(self) -> Positions:
        """Where the design columns of every column end, after a leading 0."""
        return np.cumsum([0, *(encoder.width for encoder in self.encoders)])

    @cached_property
    def layout(self) -> Layout:
        """The groups, and which design columns they are."""
        widths = [np.arange(a, b) for a, b in zip(self.ends, self.ends[1:], strict=False)]
        columns = tuple(np.concatenate([widths[k] for k in position]) for position in self.source.position)
        labels = (encoder.labels(name) for encoder, name in zip(self.encoders, self.names, strict=True))
        names = tuple(label for each in labels for label in each)
        return Layout(columns, int(self.ends[-1]), self.source.groups, names)

    @cached_property
    def weights(self) -> Float:
        """Penalty weights of the design columns."""
        return np.concatenate([encoder.weights for encoder in self.encoders])

    def table(self, X: object, columns: Positions) -> Float:
        """Return design columns (n, len(columns)) of data like those of the fit; other columns need not be there."""
        needed = self.read_for(columns).tolist()
        return self.encode(known_table(X, self.source.names, self.source.n_features, needed), columns)

    def encode(self, table: RawTable, columns: Positions | None = None) -> Float:
        """Return design columns (n, len(columns)), ascending, None: all; only what they need is read."""
        if columns is None:
            columns = np.arange(self.ends[-1])
        found = np.empty((table.n_rows, columns.size), order="F")
        for k in self.needed(columns):
            start, stop = np.searchsorted(columns, self.ends[[k, k + 1]])
            block = self.encoders[k].encode(table.column(int(self.source.read[k]), self.names[k]))
            found[:, start:stop] = block[:, columns[start:stop] - self.ends[k]]
        return found

    def needed(self, columns: Positions) -> list[int]:
        """Return which of the columns that are read some design columns come from."""
        which: list[int] = np.unique(np.searchsorted(self.ends, columns, side="right") - 1).tolist()
        return which

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
                found.update(repr((encoder.fill, encoder.spikes, encoder.missing)).encode())
            else:
                found.update(repr(encoder).encode())
        return found.hexdigest()
