"""What noise alone explains: σ̂², and the number of columns that a group has to explain it with.

On the training rows, noise of variance σ² alone lets a group of d columns gain σ²d/2n, and its coefficients then cost
as much on new rows. So the gain to expect there is F(S ∪ g) − F(S) − p_g with the *penalty* p_g = σ²d_g/n (Mallows'
C_p; for a generalised linear model of unit dispersion d_g/n, as in AIC). With a ridge λ, d_g is the effective number of
columns of the group on its own,

    d_g = Σ_i μ_i / (μ_i + λ),    μ_i the eigenvalues of C_g without the ridge,

so that the penalty of a set is the sum of those of its groups. A *correction* is a multiple of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotri

from budgetline.arrays import Float, Positions
from budgetline.leastsquares.blocks import size_classes
from budgetline.leastsquares.gram import Gram
from budgetline.leastsquares.ridge import Spectrum

RANK = 1e-12
"""Eigenvalues of a block of standardised columns below this are rounding noise."""
FEWEST_FREE = 20
"""With fewer degrees of freedom left, the noise is estimated by restricted maximum likelihood."""


def effective_columns(
    sizes: Positions, blocks: Callable[[Positions], Float], alpha: float, curvature: Float | None = None
) -> Float:
    """Return d_g of every group, shape (J,).

    Parameters
    ----------
    sizes : int array of shape (J,)
    blocks : callable
        Maps columns (J_s, s) of groups of one size to their covariances (J_s, s, s), without a ridge; constant columns
        are zero.
    alpha : float
    curvature : array of shape (Q,), optional
        Eigenvalues of ∇²φ of the intercept-only model: one model of d_g columns per score.
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
