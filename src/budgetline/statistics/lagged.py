"""Hessians that are renewed in part: only rows whose curvature has changed are multiplied again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from budgetline.arrays import Float, Mask, Positions

CHANGED = 0.15
"""A row is multiplied again once its curvature is off by more than this part of the smaller of the old and the new.

So the Hessian in use is between H/1.15 and 1.15 H in every direction, and a step with it leaves at most this part of
the error, in the norm of the Hessian, that a step with H corrects.
"""
MOST_ROWS = 0.5
"""If more than this share of the rows has changed, all are multiplied: fewer would have to be collected first."""


@dataclass(frozen=True)
class LaggedHessian:
    """H (kQ, kQ) of columns (k,), without a ridge, in which rows have curvatures (n,) of earlier points.

    ``curvature`` is None if a Hessian cannot be renewed in part.
    """

    columns: Positions
    H: Float
    curvature: Float | None = None

    def begins(self, columns: Positions) -> bool:
        """Return whether columns begin with those of this Hessian."""
        return self.columns.size <= columns.size and bool(np.all(columns[: self.columns.size] == self.columns))


def changed(before: Float, now: Float) -> Mask:
    """Return which rows have to be multiplied again, given their curvatures (n,)."""
    return np.abs(now - before) > CHANGED * np.minimum(before, now)


class _WithHessian(Protocol):
    def hessian(self, columns: Positions, score: int | None = None) -> Float: ...


class WholeHessians:
    """Points that compute Hessians as a whole."""

    def outdated(self, past: LaggedHessian) -> float:
        """Return one: no row can be kept."""
        return 1.0

    def renewed(self: _WithHessian, columns: Positions, past: LaggedHessian | None) -> LaggedHessian:
        """Return the Hessian at this point."""
        return LaggedHessian(columns, self.hessian(columns))
