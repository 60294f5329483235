"""The distribution of the training rows as a few numbers: models of any columns can be fitted to it, without rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpstrf

from budgetline.arrays import Array, Float, Mask, Positions

CELLS, CELL_ROWS, CELL_SCORES = 64, 5, 512
"""Most cells, fewest rows of a cell, and most cells × scores.

Rows count by their weights, (Σw)²/Σw²: a mean of a cell is not that of one heavy row, which files must not hold.
"""
RANK = 1e-12
"""Pivots and eigenvalues of C below this share of the largest one are rounding noise."""


@dataclass(frozen=True, eq=False)
class Population:
    """The rows z of standardised columns as a mixture of normal distributions, and their products with the targets.

    The risk of scores c + W'z is E φ(c + W'z) − ȳ'c − tr W'b, and only its first term depends on how the rows are
    distributed. Rows with similar scores at the last stage form a cell. In cell j, with share ω_j of the rows, z is
    taken to be normal with mean m_j and covariance C − Σ ω_j m_j m_j'. Then the covariance C of all rows is exact. So
    are the gradient and the Hessian of the risk at the model without columns.

    Attributes
    ----------
    factor : array of shape (r, T)
        G with C = G'G.
    share : array of shape (M,)
        ω, which sums to one.
    mean : array of shape (M, T)
        m.
    slope : array of shape (T, Q)
        b, the mean of z(y − ȳ)' in internal targets.
    level : array of shape (Q,)
        Internal scores of the model without columns; ∇φ there is ȳ.
    variance : float
        Variance of the internal targets, summed over them.
    n_rows : float
        The effective number of rows.
    """

    factor: Float
    share: Float
    mean: Float
    slope: Float
    level: Float
    variance: float
    n_rows: float

    def of_columns(self, columns: Mask | Positions) -> Population:
        """Return the population of some columns."""
        factor, mean = (np.ascontiguousarray(part[:, columns]) for part in (self.factor, self.mean))
        return replace(self, factor=factor, mean=mean, slope=self.slope[columns])

    @property
    def n_columns(self) -> int:
        """Number of columns, T."""
        return int(self.factor.shape[1])

    def basis(self) -> tuple[Float, Float]:
        """Return V (T, p) and d (p,) > 0 with V'V = I and V'CV = diag(d): no more dimensions than C has."""
        G, wide = self.factor, len(self.factor) < self.n_columns
        d, V = np.linalg.eigh(G @ G.T if wide else G.T @ G)
        kept = d > RANK * d.max(initial=0.0)
        d, V = d[kept], V[:, kept]
        return (G.T @ V / np.sqrt(d) if wide else V), d


def factor_of(C: Float) -> Float:
    """Return G (r, T) with G'G = C, r being the rank of C."""
    if not C.size:
        return np.zeros((0, len(C)))
    U, pivots, rank, _ = dpstrf(C, tol=RANK * float(np.diag(C).max()))
    G = np.zeros((rank, len(C)))
    G[:, pivots - 1] = np.triu(U)[:rank]
    return G


def cells_of(rows: Array, weight: Float, scores: Float) -> tuple[Float, Float]:
    """Divide rows (m, T), with weights (m,), by their scores (m, Q); return shares (M,) and means (M, T) of the cells.

    The cell whose scores vary most is split in two, along the score that varies most, where that lowers the variance
    most.
    """
    cells = [np.arange(len(rows))]
    spread = [_spread(scores, weight)]
    most = max(2, min(CELLS, CELL_SCORES // scores.shape[1]))
    while len(cells) < most:
        j = int(np.argmax([each.max() for each in spread]))
        if spread[j].max() <= 0:
            break
        q, own = int(np.argmax(spread[j])), cells[j]
        own = own[np.argsort(scores[own, q], kind="stable")]
        k = _best_split(scores[own, q], weight[own])
        if k is None:
            spread[j] = np.zeros_like(spread[j])
            continue
        cells[j : j + 1] = parts = [own[:k], own[k:]]
        spread[j : j + 1] = [_spread(scores[part], weight[part]) for part in parts]
    share = np.array([weight[own].sum() for own in cells])
    mean = np.array([weight[own] @ rows[own] for own in cells]) / share[:, None]
    share = share / share.sum()
    return share, mean - share @ mean


def _spread(scores: Float, weight: Float) -> Float:
    """Return the weighted sums of squared deviations, shape (Q,)."""
    return np.asarray(weight @ (scores - weight @ scores / weight.sum()) ** 2)


def _best_split(ascending: Float, weight: Float) -> int | None:
    """Return how many of the values go into the first of two cells; None if these would be too small."""
    at = np.flatnonzero(ascending[:-1] < ascending[1:]) + 1
    at = at[(_rows_up_to(weight)[at - 1] >= CELL_ROWS) & (_rows_up_to(weight[::-1])[::-1][at] >= CELL_ROWS)]
    if not at.size:
        return None
    below, total = np.cumsum(weight)[at - 1], weight.sum()
    first, whole = np.cumsum(weight * ascending)[at - 1], weight @ ascending
    return int(at[np.argmax(first**2 / below + (whole - first) ** 2 / (total - below))])


def _rows_up_to(weight: Float) -> Float:
    """Return the effective numbers of the first 1, 2, … rows, up to rounding; NaN where all weights are tiny."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.cumsum(weight) ** 2 / np.cumsum(weight**2) * (1 + 1e-9))


def within(factor: Float, share: Float, mean: Float) -> Float:
    """Return means that vary no more than all rows do: those of a sample may, and C − Σ ω m m' would be indefinite."""
    found = Population(factor, share, mean, np.zeros((factor.shape[1], 0)), np.zeros(0), 0.0, 0.0)
    V, d = found.basis()
    half = np.sqrt(share)[:, None] * (mean @ V) / np.sqrt(d)
    largest = float(np.linalg.eigvalsh(half @ half.T)[-1])
    return np.asarray(mean / np.sqrt(max(largest / (1 - 1e-9), 1.0)))
