"""How well the rows determine coefficients: their covariance at a stage, conditional on the choice of the groups.

The ridge is a prior, w ~ N(0, φ/(nα)), with the dispersion φ of the loss. Given the rows, standardised coefficients are
about normal around the fitted ones, with the covariance φ/n · H⁻¹, H being the Hessian of the risk with the ridge.

For squared error H = C = U'U is what subsets are solved with, and φ is what the stage leaves of the variance, with its
effective degrees of freedom. For other losses H changes from stage to stage. So a fit keeps the blocks of the inverse
that belong to one column of the user's table: effects need no others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.linalg.lapack import dpotri

from budgetline.arrays import Float, Positions
from budgetline.codec import AtLeast, Shape

Errors = Callable[[Float, Positions], Float]
"""Standard errors (…, P) of the sums z'w, for standardised z (…, k) and positions (k,) among the chosen columns."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Covariances of the standardised coefficients of every stage, in blocks of adjacent columns.

    ``widths`` (B,) are the sizes of the blocks, in the order of the sequence. ``values`` (entries, P) are the lower
    triangles of the blocks, row by row, of the first stage, then of the second, and so on.
    """

    widths: Annotated[Positions, Shape("blocks"), AtLeast(1)]
    values: Annotated[Float, Shape("entries targets")]

    def fits(self, column_ends: Positions) -> bool:
        """Return whether there is a block for all columns of every stage."""
        T, ends = column_ends[-1:].sum(), np.cumsum(self.widths)
        if np.any(self.widths > T) or ends[-1:].sum() != T or not np.isin(column_ends, ends).all():
            return False
        return bool(self._starts(column_ends)[-1] == len(self.values))

    def errors(self, column_ends: Positions, stage: int) -> Errors:
        """Return the function that computes standard errors at a stage, for columns of one block."""
        first, begins = int(self._starts(column_ends)[stage - 1]), np.cumsum(self.widths) - self.widths

        def of(z: Float, columns: Positions) -> Float:
            k = int(np.searchsorted(begins, columns[0], side="right")) - 1
            width, before = int(self.widths[k]), self.widths[:k]
            rows, others = np.tril_indices(width)
            start = first + int(_entries(before).sum())
            block = np.zeros((width, width, self.values.shape[1]))
            block[rows, others] = block[others, rows] = self.values[start : start + rows.size]
            inside = np.ix_(columns - begins[k], columns - begins[k])
            return np.asarray(np.sqrt(np.maximum(np.einsum("...a,abp,...b->...p", z, block[inside], z), 0.0)))

        return of

    def _starts(self, column_ends: Positions) -> Positions:
        """Return where the entries of every stage begin, and the number of all."""
        entries = np.cumsum(_entries(self.widths))
        return np.append(0, np.cumsum(entries[np.searchsorted(np.cumsum(self.widths), column_ends)])).astype(np.intp)


def _entries(widths: Positions) -> Positions:
    return np.asarray(widths * (widths + 1) // 2)


def block_widths(owners: Positions) -> Positions:
    """Return the lengths of the runs of columns (T,) with the same owner."""
    ends = np.flatnonzero(np.append(owners[1:] != owners[:-1], True)[: owners.size]) + 1
    return np.diff(ends, prepend=0)


def covariance_blocks(U: Float, widths: Positions, external: Float) -> Float:
    """Return the lower triangles of the diagonal blocks of (U'U)⁻¹, (entries, P), for blocks of these widths.

    U belongs to the intercept and the columns, each with Q internal scores; ``external`` (Q, P) makes the user's.
    """
    Q, block = len(external), np.repeat(np.arange(widths.size), widths)
    inverse = dpotri(U)[0]  # its upper triangle
    pairs = np.nonzero(np.tril(block[:, None] == block))
    rows, others = (Q * (1 + part[:, None]) + np.arange(Q) for part in pairs)
    i, j = rows[:, :, None], others[:, None, :]
    found = inverse[np.minimum(i, j), np.maximum(i, j)]
    return np.asarray(np.einsum("eqr,qp,rp->ep", found, external, external))
