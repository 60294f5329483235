"""The ridge constant from the data, without folds: restricted maximum likelihood (REML) for the model of all columns.

A ridge is the prior w ~ N(0, φ/(nα)) of every coefficient. With the coefficients integrated out, and the intercept too,
the likelihood of α is known. For squared error and the eigenvalues λ_i of X'X/n, of standardised columns, and b = X'y/n
in the basis of their eigenvectors, minus twice its logarithm is, but for a constant,

    (n − 1) log s(α) + Σ log(1 + λ_i/α),    s(α) = ‖y‖²/n − Σ b_i²/(λ_i + α),

summed over the targets, each with a variance φ of its own: one eigendecomposition for all α. For other losses see
``glm/laplace.py``.

The *noise* σ̂² alone lets a group of d columns gain σ²d/2n on the training rows, and its coefficients then cost as much
on new rows. So the gain to expect there is F(S ∪ g) − F(S) − p_g with the *penalty* p_g = σ²d_g/n (Mallows' C_p; for a
generalised linear model of unit dispersion d_g/n, as in AIC). With a ridge λ, d_g is the effective number of columns of
the group on its own, Σ_i μ_i/(μ_i + λ), with the eigenvalues μ_i of C_g without the ridge, so that the penalty of a set
is the sum of those of its groups. A *correction* is a multiple of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotri

from budgetline.arrays import Float, Positions
from budgetline.leastsquares.gram import Gram, size_classes
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

    ``values`` (r,) are the positive eigenvalues, ``explained`` (r, P) the variance of every target that least squares
    explains along each eigenvector, ``rest`` (P,) what it does not explain, and ``n_rows`` the rows of positive weight:
    weights are precisions, not numbers of copies.
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


FEWEST_FREE = 20
"""With fewer degrees of freedom left, the noise is estimated by restricted maximum likelihood."""


def effective_columns(
    sizes: Positions, blocks: Callable[[Positions], Float], alpha: float, curvature: Float | None = None
) -> Float:
    """Return d_g of every group, shape (J,).

    ``blocks`` maps columns (J_s, s) of groups of one size to their covariances (J_s, s, s), without a ridge; constant
    columns are zero. ``curvature`` (Q,) are eigenvalues of ∇²φ of the intercept-only model: one model per score.
    """
    found = np.empty(sizes.size)
    each = np.ones(1) if curvature is None else curvature
    for c in size_classes(sizes, blocks):
        values = np.linalg.eigvalsh(c.blocks)
        values = np.where(values > RANK, values, 0.0)[:, :, None] * each
        shares = np.divide(values, values + alpha, out=np.zeros_like(values), where=values > 0)
        found[c.groups] = shares.sum(axis=(1, 2))
    return found


def noise_of_gram(gram: Gram, alpha: float, n: float) -> float | None:
    """Return σ̂², summed over the targets: the residual variance of the model of all columns.

        σ̂² = (Σ var y − tr w'b − λ‖w‖²) · n/(n − 1 − d),    d = D − λ tr C⁻¹

    ``gram`` has the ridge on its diagonal and no constant columns. None if C is singular, or if n − 1 − d is too small.
    """
    D = len(gram.C)
    if n - 1 - D < FEWEST_FREE and alpha == 0:
        return None
    try:
        L = np.linalg.cholesky(gram.C)
    except np.linalg.LinAlgError:
        return None
    if D and np.diag(L).min() ** 2 <= RANK:
        return None
    inverse = dpotri(L, lower=1)[0] if D else np.empty((0, 0))  # its lower triangle
    free = n - 1 - (D - alpha * float(np.trace(inverse)))
    if free < FEWEST_FREE:
        return None
    own = np.tril(inverse, -1)
    w = (own + own.T + np.diag(np.diag(inverse))) @ gram.b
    left = float(gram.target_variance.sum() - np.sum(w * gram.b) - alpha * np.sum(w**2))
    return max(left, 0.0) * n / free


def noise_of_spectrum(spectrum: Spectrum, n: float) -> float:
    """Return σ̂², summed over the targets, by restricted maximum likelihood."""
    alpha = np.array([spectrum.alpha()])
    return float(spectrum.variances(alpha).sum()) * n / max(n - 1.0, 1.0)
