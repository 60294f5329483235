"""Pairs of columns: find those with the most to explain beyond the sum of both columns, and make their products.

The screen works on coarse bins. Of the data it needs only sums over the rows of every cell of two columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from scipy.linalg import solve

from budgetline.arrays import Float, Positions
from budgetline.encoding.encoders import CategoryEncoder, Encoder, NumberEncoder
from budgetline.encoding.summaries import CategorySummary, NumberSummary, TableSummary
from budgetline.encoding.table import Pair

BINS = 8
"""Quantile bins of a number; its spikes and missing values have further ones."""
PARTS, MORE_PARTS, MANY_ROWS = 2, 4, 20_000
"""Curves of a column that are multiplied with those of another, and their number if there are many rows."""
FLAGS = 12
"""Flags of a column that are multiplied."""
PAIR_WEIGHT = 10.0
"""Factor of the ridge for products, besides the weights of their factors."""
LEAST_PENALTY, MOST_WEIGHT = 50.0, 1e4
"""Least ridge constant of products times the number of rows, unless the weight is larger than the second.

An alpha that suits single columns may be too small for the many more products: they would fit noise.
"""
LEAST_SPREAD, LEAST_ROWS = 0.02, 20
"""Products that vary less, or that rest on fewer rows, such as those of two rare categories, are left out.

If a product is 1 in k rows and 0 in all others, it rests on k rows: n (E v²)²/E v⁴, for any centred product v.
"""
MOST_COLUMNS = 100
"""Columns among which pairs are sought: those with the largest effects."""
MOST_PRODUCTS = 2000
"""Design columns of all pairs together."""
FLOOR = 1e-6
"""Added to matrices, relative to their diagonal, where bins are empty."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Coarse bins of a column, and what it becomes in each of them.

    ``edges`` divide the numbers, in units of the first design column, which rises with the number; None for categories.
    The design columns ``flags`` have a bin each, after those of the numbers; a last bin is for all other rows. The p
    design columns ``columns`` are multiplied with those of others. They have means ``centres`` (p,), weights
    ``penalties`` (p,) in the ridge if flags count as 2 or 0, and centred ``means`` (bins, p), with flags as 2 or 0.
    """

    edges: Float | None
    flags: Positions
    columns: Positions
    centres: Float
    penalties: Float
    means: Float

    def codes(self, block: Float) -> Positions:
        """Return the bin of every row of the design columns (n, width) of the column."""
        edges = self.edges
        codes = np.full(len(block), self.flags.size) if edges is None else np.searchsorted(edges, block[:, 0])
        for k, column in enumerate(self.flags.tolist(), 0 if edges is None else edges.size + 1):
            codes[block[:, column] > 0] = k
        return codes


def bins_of(summary: TableSummary, encoders: Sequence[Encoder]) -> tuple[Bins, ...]:
    """Return the bins of all columns."""
    found = []
    for column, encoder in zip(summary.in_rows.values(), encoders, strict=True):
        if isinstance(encoder, CategoryEncoder):
            known = column if isinstance(column, CategorySummary) else CategorySummary({}, column.missing)
            found.append(_category_bins(known, encoder))
        else:
            numbers = column if isinstance(column, NumberSummary) else column.numbers
            assert numbers is not None
            found.append(_number_bins(numbers, encoder))
    return tuple(found)


def _category_bins(found: CategorySummary, encoder: CategoryEncoder) -> Bins:
    kept = [found.weights[category] for category in encoder.categories]
    masses = np.array(kept + [found.total - sum(kept)] * encoder.rare + [found.missing] * encoder.missing)
    columns = np.arange(min(FLAGS, encoder.width))
    centres = masses[columns] / (found.total + found.missing)
    means = 2 * (np.vstack([np.eye(columns.size), np.zeros(columns.size)]) - centres)
    return Bins(None, columns, columns, centres, np.ones(columns.size), means)


def _number_bins(found: NumberSummary, encoder: NumberEncoder) -> Bins:
    spiky = np.isin(found.values, encoder.spikes)
    body = NumberSummary(found.values[~spiky], found.weights[~spiky])
    curves = encoder.curve(encoder.warp(body.values))
    first = curves[:, 0]
    if first.size <= BINS:
        inner = (first[1:] + first[:-1]) / 2
    else:
        inner = first[np.searchsorted(body.values, body.quantiles(np.arange(1, BINS) / BINS))]
    edges, total = np.unique(inner), found.total + found.missing
    parts = min(encoder.curve.width, PARTS if total < MANY_ROWS else MORE_PARTS)
    codes, bins = np.searchsorted(edges, first), edges.size + 1
    mass = np.maximum(np.bincount(codes, body.weights, bins), np.finfo(float).tiny)
    in_bins = [np.bincount(codes, body.weights * curve, bins) / mass for curve in curves[:, :parts].T]
    flags = np.arange(encoder.curve.width, encoder.width)
    share = np.append(found.weights[spiky], [found.missing] * encoder.missing) / total
    means = np.zeros((bins + flags.size, parts + flags.size))
    means[:bins, :parts] = np.column_stack(in_bins)
    means[bins:, parts:] = 2 * np.eye(flags.size)
    means[:, parts:] -= 2 * share
    penalties = np.append(encoder.weights[:parts] * body.total / total, np.ones(flags.size))
    return Bins(edges, flags, np.append(np.arange(parts), flags), np.append(np.zeros(parts), share), penalties, means)


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums over rows by cell of two columns, with the bins of all columns side by side.

    ``mass`` (B, B) sums the weights, ``residual`` and ``curvature`` (Q, B, B) the residuals and curvatures of the
    additive model for Q scores, ``squares`` the squared residuals. ``rows`` counts the rows of positive weight.
    """

    mass: Float
    residual: Float
    curvature: Float
    squares: float
    rows: int

    @classmethod
    def of(cls, codes: Positions, n_bins: int, weight: Float, residual: Float, curvature: Float) -> CellSums:
        """Sum over rows with bins (columns, n), weights (n,), residuals and curvatures (n, Q)."""
        cells = np.zeros((codes.shape[1], n_bins))
        np.put_along_axis(cells, codes.T, 1.0, axis=1)
        weighted = cells * weight[:, None]
        r, h = (np.stack([weighted.T @ (cells * each[:, None]) for each in part.T]) for part in (residual, curvature))
        squares, rows = float(weight @ (residual**2).sum(axis=1)), int(np.count_nonzero(weight))
        return cls(weighted.T @ cells, r, h, squares, rows)

    def __add__(self, other: CellSums) -> CellSums:
        mass, residual, curvature = self.mass + other.mass, self.residual + other.residual, self.curvature
        squares, rows = self.squares + other.squares, self.rows + other.rows
        return CellSums(mass, residual, curvature + other.curvature, squares, rows)

    def in_rows(self, n_columns: int) -> CellSums:
        """Return the sums with weights whose mean is 1, whatever their unit; every row is in a cell of each column."""
        factor = self.rows * n_columns / float(np.trace(self.mass))
        mass, residual, curvature = (factor * each for each in (self.mass, self.residual, self.curvature))
        return CellSums(mass, residual, curvature, factor * self.squares, self.rows)


@dataclass(frozen=True, eq=False)
class Screen:
    """Looks for pairs among columns with bins, given what the rows of every cell add up to, with weights of mean 1.

    ``dispersion`` is the variance of the residuals where the loss does not determine it, else 1; ``alpha`` the ridge
    constant, with which a model of products would be fitted.
    """

    bins: Sequence[Bins]
    sums: CellSums
    alpha: float
    dispersion: float

    def best(self, most: int) -> list[Pair]:
        """Return the pairs with the most to explain, up to a number of pairs, the best first."""
        gains = [(self.gain(i, j), i, j) for i, j in combinations(range(len(self.bins)), 2)]
        width, found = 0, list[Pair]()
        for gain, i, j in sorted(gains, key=lambda each: (-each[0], each[1:])):
            pair = self.pair(i, j)
            if gain <= 0 or len(found) == most:
                break
            if pair.width and width + pair.width <= MOST_PRODUCTS:
                found.append(pair)
                width += pair.width
        return found

    def gain(self, i: int, j: int) -> float:
        """Return what the products of two columns would explain, beyond what noise would.

        With r and h the sums of residuals and curvatures in the cells, less the part that is a sum of effects of both
        columns, and Q the products of the means in the bins: g = Q'r, M = Q' diag(h) Q, and the gain of a penalised
        Newton step is g'(M + nαΩ)⁻¹g − tr((M + nαΩ)⁻¹M).
        """
        a, b = self.bins[i], self.bins[j]
        if min(len(a.means), len(b.means)) < 2:
            return 0.0
        products = np.einsum("ap,bq->abpq", a.means, b.means).reshape(len(a.means), len(b.means), -1)
        penalty = self.sums.rows * self.alpha * self.weight * np.outer(a.penalties, b.penalties).ravel()
        rows, columns = self._slices[i], self._slices[j]
        parts = zip(self.sums.residual, self.sums.curvature, strict=True)
        return sum(_gain(r[rows, columns], h[rows, columns], products, penalty, self.dispersion) for r, h in parts)

    @cached_property
    def weight(self) -> float:
        """How many times as much the ridge counts a product as the product of the weights of its factors."""
        if not self.alpha:
            return PAIR_WEIGHT
        return float(np.clip(LEAST_PENALTY / (self.alpha * self.sums.rows), PAIR_WEIGHT, MOST_WEIGHT))

    def pair(self, i: int, j: int) -> Pair:
        """Return the products of two columns that vary, with their weights."""
        a, b = self.bins[i], self.bins[j]
        share = self.sums.mass[self._slices[i], self._slices[j]] / self.sums.rows
        products = np.einsum("ap,bq->abpq", a.means, b.means)
        mean = np.einsum("ab,abpq->pq", share, products)
        variance, fourth = (np.einsum("ab,abpq->pq", share, (products - mean) ** power) for power in (2, 4))
        p, q = np.nonzero((variance > LEAST_SPREAD**2) & (self.sums.rows * variance**2 >= LEAST_ROWS * fourth))
        weights = self.weight * a.penalties[p] * b.penalties[q] / variance[p, q]
        terms, centres = np.stack([a.columns[p], b.columns[q]]), np.stack([a.centres[p], b.centres[q]])
        return Pair((i, j), terms, centres, weights)

    @cached_property
    def _slices(self) -> list[slice]:
        ends = np.cumsum([0, *(len(b.means) for b in self.bins)]).tolist()
        return [slice(*each) for each in pairwise(ends)]


def _gain(residual: Float, curvature: Float, products: Float, penalty: Float, dispersion: float) -> float:
    """Return the gain from the cells (a, b) of two columns, for one score."""
    a, b = curvature.shape
    H = np.block([[np.diag(curvature.sum(1)), curvature], [curvature.T, np.diag(curvature.sum(0))]])
    H[np.diag_indices(a + b)] += FLOOR * np.trace(H) / (a + b)
    weighted = curvature[:, :, None] * products
    X = np.concatenate([weighted.sum(axis=1), weighted.sum(axis=0)])
    effects = np.append(residual.sum(axis=1), residual.sum(axis=0))
    added = solve(H, np.column_stack([effects, X]), assume_a="pos")
    g = np.einsum("abq,ab->q", products, residual) - X.T @ added[:, 0]
    M = np.einsum("abp,abq->pq", products, weighted) - X.T @ added[:, 1:]
    found = solve(M + np.diag(penalty + FLOOR), np.column_stack([g, M]), assume_a="pos")
    return float(g @ found[:, 0] / dispersion - np.trace(found[:, 1:]))
