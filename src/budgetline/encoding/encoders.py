"""Encoders: what one raw column becomes. Small immutable records; a number or level always becomes the same row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.raw import RawColumn

ROWS = 4096
"""Rows that are encoded at once: few enough for their polynomials to stay in the cache."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Piecewise cubic functions f_1 … f_m of a number: between knots k_j ≤ x < k_{j+1} they are Σ_p c_jp (x − k_j)^p.

    Attributes
    ----------
    knots : array of shape (K,), ascending
    pieces : array of shape (K + 1, 4, m)
        Coefficients c of the powers 0 to 3. The first piece is for x < k_0, about k_0; the last is for x ≥ k_{K−1}.
    """

    knots: Float
    pieces: Float

    @property
    def width(self) -> int:
        """Number of functions, m."""
        return int(self.pieces.shape[2])

    def __call__(self, x: Float) -> Float:
        """Return the functions at numbers (n,), shape (n, m)."""
        piece = np.searchsorted(self.knots, x, side="right")
        t = (x - self.knots[np.maximum(piece - 1, 0)])[:, None]
        c = self.pieces[piece]
        return np.asarray(((c[:, 3] * t + c[:, 2]) * t + c[:, 1]) * t + c[:, 0])


@dataclass(frozen=True, eq=False)
class NumberEncoder:
    """A number becomes the values of a curve, flags of values that are very frequent, and a flag if it is missing.

    A missing number counts as ``fill``. The ridge counts the square of the coefficient of a standardised design column
    with these ``weights`` (width,).
    """

    curve: Curve
    fill: float
    weights: Float
    spikes: tuple[float, ...] = ()
    missing: bool = False

    @property
    def width(self) -> int:
        """Number of design columns."""
        return self.curve.width + len(self.spikes) + self.missing

    def labels(self, name: str) -> list[str]:
        """Return names of the design columns."""
        m = self.curve.width
        curves = [name] if m == 1 else [f"{name}~{k + 1}" for k in range(m)]
        return [*curves, *(f"{name}={spike:.6g}" for spike in self.spikes), *self._if_missing(f"{name}=(missing)")]

    def encode(self, column: RawColumn) -> Float:
        """Return the design columns (n, width) of a raw column."""
        numbers = column.as_numbers()
        gaps = np.isnan(numbers)
        x = np.where(gaps, self.fill, numbers)
        found = np.empty((x.size, self.width))
        m = self.curve.width
        for start in range(0, x.size, ROWS):
            found[start : start + ROWS, :m] = self.curve(x[start : start + ROWS])
        for k, spike in enumerate(self.spikes, m):
            found[:, k] = (x == spike) & ~gaps
        if self.missing:
            found[:, -1] = gaps
        return found

    def _if_missing(self, label: str) -> list[str]:
        return [label] if self.missing else []


@dataclass(frozen=True)
class LevelEncoder:
    """A level becomes a flag of its own; rare and unknown ones share a flag, missing ones have another.

    Levels without a flag (the first of two, unknown ones where none was rare) are zeros.
    """

    levels: tuple[str, ...]
    rare: bool = False
    missing: bool = False

    @property
    def width(self) -> int:
        """Number of design columns."""
        return len(self.levels) + self.rare + self.missing

    @property
    def weights(self) -> Float:
        """Weights of the design columns in the ridge: all 1."""
        return np.ones(self.width)

    def labels(self, name: str) -> list[str]:
        """Return names of the design columns."""
        extra = [label for label, there in (("(rare)", self.rare), ("(missing)", self.missing)) if there]
        return [f"{name}={level}" for level in (*self.levels, *extra)]

    def encode(self, column: RawColumn) -> Float:
        """Return the design columns (n, width) of a raw column."""
        codes, levels = column.as_levels()
        place, other = self._place, len(self.levels) if self.rare else -1
        gap = self.width - 1 if self.missing else other
        flags = np.array([*(place.get(level, other) for level in levels), gap], dtype=np.intp)[codes]
        found = np.zeros((codes.size, self.width))
        rows = np.flatnonzero(flags >= 0)
        found[rows, flags[rows]] = 1.0
        return found

    @cached_property
    def _place(self) -> dict[str, int]:
        return {level: k for k, level in enumerate(self.levels)}


Encoder = NumberEncoder | LevelEncoder
