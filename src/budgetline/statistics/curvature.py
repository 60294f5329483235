"""The second derivatives of a loss at the scores of some rows, and their sums with products of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.devices import library_of


@dataclass(frozen=True)
class Curvature:
    """∇²φ = Σ_c scale_c b_c b_c' − along along' of n rows: diagonal, up to a change of coordinates and one direction.

    ``scale`` (n, P) ≥ 0; the b_c are the rows of ``contrasts`` (P, Q), unit vectors if None; ``along`` (n, Q) or None.
    No array holds n × Q × Q numbers. All but products and sums works for arrays of any library.
    """

    scale: Float
    contrasts: Float | None = None
    along: Float | None = None

    def weighted(self, weight: Float) -> Curvature:
        """Return the curvature times weights (n,)."""
        along = None if self.along is None else library_of(weight).sqrt(weight)[:, None] * self.along
        return Curvature(weight[:, None] * self.scale, self.contrasts, along)

    def between(self, q: int, r: int) -> Float:
        """Return the entries between two scores, shape (n,)."""
        if self.contrasts is None:
            found = self.scale[:, q] if q == r else 0.0 * self.scale[:, q]
        else:
            found = self.scale @ (self.contrasts[:, q] * self.contrasts[:, r])
        found = found if self.along is None else found - self.along[:, q] * self.along[:, r]
        return _positive(found) if q == r else found

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
            found -= self.along * np.einsum("nq,nq->n", self.along, T)[:, None]
        return found

    def square(self, Z: Float) -> Float:
        """Return Σ ∇²φ ⊗ zz' for columns Z (…, k, n), shape (…, kQ, kQ)."""
        return self.cross(Z, Z)

    def cross(self, Z: Float, A: Float) -> Float:
        """Return Σ ∇²φ ⊗ za' for columns Z (…, k, n) and A (…, m, n), shape (…, kQ, mQ)."""
        (*batch, k, _), m = Z.shape, A.shape[-2]
        S = np.empty((self.scale.shape[1], *batch, k, m))
        for weight, part in zip(self.scale.T, S, strict=True):
            right = A * (np.sqrt(weight) if Z is A else weight)  # BLAS multiplies a matrix by its own transpose faster
            if Z is A:
                np.matmul(right, right.swapaxes(-1, -2), out=part)
            else:  # the smaller matrix first: BLAS copies the other one otherwise
                part[...] = (right @ Z.swapaxes(-1, -2)).swapaxes(-1, -2)
        B = np.eye(len(S)) if self.contrasts is None else self.contrasts
        if B.size == 1:
            return np.asarray(S[0])
        H = np.moveaxis(np.tensordot(S, B[:, :, None] * B[:, None], axes=(0, 0)), -2, -3)
        H = H.reshape(*batch, k * B.shape[1], m * B.shape[1])
        if self.along is not None:
            left = _spread(Z, self.along)
            H -= left @ (left if Z is A else _spread(A, self.along)).swapaxes(-1, -2)
        return H


def _positive(values: Float) -> Float:
    xp = library_of(values)
    found: Float = np.maximum(values, 0.0) if xp is np else xp.where(values > 0, values, 0.0 * values)
    return found


def weighted_square(Z: Float, weight: Float, positive: bool) -> Float:
    """Return Z diag(weight) Z' for Z (k, m)."""
    if not positive:
        return np.asarray((Z * weight) @ Z.T)
    Z = Z * np.sqrt(weight)  # BLAS multiplies a matrix by its own transpose faster
    return np.asarray(Z @ Z.T)


def part_of(H: Float, columns: Positions, others: Positions | None, score: int | None = None) -> Float:
    """Return the entries of H (1 + D, Q, 1 + D, Q) between columns and others, or all but the intercept, (kQ, mQ)."""
    part = H[columns][:, :, slice(1, None) if others is None else others]
    if score is not None:
        return part[:, score, :, score].copy()
    return part.reshape(columns.size * H.shape[1], -1)


def _spread(Z: Float, along: Float) -> Float:
    """Return z ⊗ along of every row, shape (…, kQ, n)."""
    spread = Z[..., None, :] * along.T
    return spread.reshape(*Z.shape[:-2], -1, Z.shape[-1])
