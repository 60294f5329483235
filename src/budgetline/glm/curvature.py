"""The second derivatives of a loss at the scores of some rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.devices import library_of


@dataclass(frozen=True)
class Curvature:
    """∇²φ = Σ_c scale_c b_c b_c' − along along' of n rows: diagonal, up to a change of coordinates and one direction.

    ``scale`` (n, P) ≥ 0; the b_c are the rows of ``contrasts`` (P, Q), unit vectors if None; ``along`` (n, Q) or None.
    No array holds n × Q × Q numbers. The arrays may belong to any library.
    """

    scale: Float
    contrasts: Float | None = None
    along: Float | None = None

    def weighted(self, weight: Float) -> Curvature:
        """Return the curvature times weights (n,)."""
        along = None if self.along is None else library_of(weight).sqrt(weight)[:, None] * self.along
        return Curvature(weight[:, None] * self.scale, self.contrasts, along)

    def rows(self, s: slice) -> Curvature:
        """Return the curvature of some rows."""
        return Curvature(self.scale[s, ...], self.contrasts, None if self.along is None else self.along[s, ...])

    def between(self, q: int, r: int) -> Float:
        """Return the entries between two scores, shape (n,)."""
        if self.contrasts is None:
            found = self.scale[:, q] if q == r else 0.0 * self.scale[:, q]
        else:
            found = self.scale @ (self.contrasts[:, q] * self.contrasts[:, r])
        found = found if self.along is None else found - self.along[:, q] * self.along[:, r]
        return _positive(found) if q == r else found

    def total(self, weight: Float) -> Float:
        """Return Σ weight ∇²φ over the rows, shape (Q, Q); only for curvatures with contrasts."""
        B: Float = self.contrasts  # type: ignore[assignment]
        found: Float = (B.T * (weight @ self.scale)) @ B
        return found if self.along is None else found - (self.along.T * weight) @ self.along

    def trace(self) -> Float:
        """Return the sum of the diagonal, shape (n,)."""
        xp = library_of(self.scale)
        each = 1.0 if self.contrasts is None else xp.sum(self.contrasts**2, axis=1)
        found: Float = xp.sum(self.scale * each, axis=1)
        return found if self.along is None else _positive(found - xp.sum(self.along**2, axis=1))

    def product(self, T: Float) -> Float:
        """Return ∇²φ times a vector per row, both of shape (n, Q)."""
        B = self.contrasts
        found = self.scale * T if B is None else (self.scale * (T @ B.T)) @ B
        if self.along is not None:
            found = found - self.along * library_of(T).sum(self.along * T, axis=1)[:, None]
        return found


def _positive(values: Float) -> Float:
    xp = library_of(values)
    found: Float = np.maximum(values, 0.0) if xp is np else xp.where(values > 0, values, 0.0 * values)
    return found


def part_of(H: Float, columns: Positions, others: Positions | None, score: int | None = None) -> Float:
    """Return the entries of H (1 + D, Q, 1 + D, Q) between columns and others, or all but the intercept, (kQ, mQ)."""
    part = H[columns][:, :, slice(1, None) if others is None else others]
    if score is not None:
        return part[:, score, :, score].copy()
    return part.reshape(columns.size * H.shape[1], -1)
