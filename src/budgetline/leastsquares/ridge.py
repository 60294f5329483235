"""The ridge constant from the data, without folds: restricted maximum likelihood (REML) for the model of all columns.

A ridge is the prior w ~ N(0, φ/(nα)) of every coefficient. With the coefficients integrated out, and the intercept too,
the likelihood of α is known. For squared error and the eigenvalues λ_i of X'X/n, of standardised columns, and b = X'y/n
in the basis of their eigenvectors, minus twice its logarithm is, but for a constant,

    (n − 1) log s(α) + Σ log(1 + λ_i/α),    s(α) = ‖y‖²/n − Σ b_i²/(λ_i + α),

summed over the targets, each with a variance φ of its own: one eigendecomposition for all α. For other losses see
``glm/laplace.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float
from budgetline.leastsquares.gram import Gram
from budgetline.moments.columns import StandardisedColumns

PER_DECADE = 8
GRID = 10.0 ** (np.arange(-8 * PER_DECADE, 3 * PER_DECADE + 1) / PER_DECADE)
"""The constants that can be chosen."""
EQUAL = 0.02
"""Constants whose criterion differs by less are equally likely: the larger one is taken."""
RANK = 1e-12
"""Eigenvalues below this share of the largest one are rounding noise."""


@dataclass(frozen=True)
class Spectrum:
    """Ridge regression on all columns, in the basis of the eigenvectors of their covariance.

    Attributes
    ----------
    values : array of shape (r,)
        Positive eigenvalues.
    explained : array of shape (r, P)
        Variance of every target that least squares explains along each eigenvector.
    rest : array of shape (P,)
        Variance that it does not explain.
    n_rows : int
        Rows of positive weight, n. Weights are precisions, not numbers of copies.
    """

    values: Float
    explained: Float
    rest: Float
    n_rows: int

    @classmethod
    def of_gram(cls, gram: Gram, n_rows: int) -> Spectrum:
        """Return the spectrum of C, which must be without a ridge and without constant columns."""
        values, V = np.linalg.eigh(gram.C)
        return cls._of(values, (V.T @ gram.b) ** 2, gram.target_variance, n_rows, divide=True)

    @classmethod
    def of_columns(cls, A: StandardisedColumns, targets: Float) -> Spectrum:
        """Return the spectrum from the n × n products of the rows of a wide table."""
        values, U = np.linalg.eigh(row_products(A))
        n_rows = int(np.count_nonzero(A.root))
        return cls._of(values, (U.T @ targets) ** 2, (targets**2).sum(axis=0), n_rows, divide=False)

    @classmethod
    def _of(cls, values: Float, squares: Float, variance: Float, n_rows: int, *, divide: bool) -> Spectrum:
        kept = np.argsort(values)[::-1][: max(n_rows - 1, 0)]
        kept = kept[values[kept] > RANK * values.max(initial=0.0)]
        explained = squares[kept] / (values[kept, None] if divide else 1.0)
        # nothing is left where the rows can be interpolated: a rest of rounding would count there
        rest = np.maximum(variance - explained.sum(axis=0), 0.0) if kept.size < n_rows - 1 else np.zeros_like(variance)
        return cls(values[kept], explained, rest, n_rows)

    def variances(self, alphas: Float) -> Float:
        """Return s(α) of constants (A,) > 0 and every target, shape (A, P)."""
        return np.asarray(self.rest + (alphas[:, None] / (self.values + alphas[:, None])) @ self.explained)

    def reml(self, alphas: Float) -> Float:
        """Return the criterion of constants (A,) > 0, shape (A,)."""
        s = self.variances(alphas)
        s = s[:, s[-1] > 0]
        volume = np.log1p(self.values / alphas[:, None]).sum(axis=1)
        return np.asarray((self.n_rows - 1) * np.log(s).sum(axis=1) + s.shape[1] * volume)

    def alpha(self) -> float:
        """Return the likeliest constant of the grid."""
        if not self.values.size or self.n_rows < 3 or not self.variances(GRID[-1:]).any():
            return float(GRID[-1])
        found = self.reml(GRID)
        return float(GRID[found <= found.min() + EQUAL][-1])

    def parameters(self, alpha: float) -> float:
        """Return the effective number of parameters of a ridge model, without the intercept."""
        return float((self.values / (self.values + alpha)).sum())


def row_products(A: StandardisedColumns) -> Float:
    """Return A·A' (n, n), a few columns at a time."""
    n, D = A.root.size, A.scale.size
    found = np.zeros((n, n))
    for start in range(0, D, max(1, n)):
        part = A.columns(np.arange(start, min(start + max(1, n), D)))
        found += part @ part.T
    return found


def rotated(A: StandardisedColumns) -> StandardisedColumns:
    """Return n columns or fewer that span those of a wide table: the same ridge models, with the same penalty.

    Rows of weight zero are left out of no product, but they have no influence on a model.
    """
    plain = StandardisedColumns(A.X, A.mean, A.scale, np.ones_like(A.root))
    values, U = np.linalg.eigh(row_products(plain))
    kept = values > RANK * values.max(initial=0.0)
    T = U[:, kept] * np.sqrt(values[kept])
    return StandardisedColumns(T, np.zeros(T.shape[1]), np.ones(T.shape[1]), A.root)
