"""The loss of rows by models that have not seen them, one Newton step from the model that has."""

from __future__ import annotations

import numpy as np

from budgetline.arrays import Float
from budgetline.statistics.engines import Loss

ROUNDING = 1e-8
"""A row that determines its own scores alone to within this has no left-out scores."""


def pairs_of(roots: Float) -> list[tuple[int, int]]:
    """Return the pairs of scores that are treated together, for roots (Q, k, m) of H⁻¹: all, or each alone if m ≤ k."""
    Q, k, m = roots.shape
    return [(q, r) for q in range(Q) for r in range(Q) if m > k or q == r]


def left_out_loss(
    loss: Loss, targets: Float, weight: Float, eta: Float, G: Float, pairs: list[tuple[int, int]]
) -> float:
    """Return Σ ω(φ(η̃) − y'η̃) of the left-out scores η̃ of rows.

    Parameters
    ----------
    loss : Loss
    targets : array of shape (n, Q)
    weight : array of shape (n,)
    eta : array of shape (n, Q)
        Scores with the row.
    G : array of shape (n, Q, Q)
        ω z'H⁻¹z between scores.
    pairs : list of pairs of scores
        The others are zero in G.
    """
    curvature, residual, W = loss.curvature(eta), targets - loss.mean(eta), np.zeros_like(G)
    for q, r in pairs:
        W[:, q, r] = curvature.between(q, r)
    # the curvature without the row: (G⁻¹ − W)⁻¹ = G(I − WG)⁻¹
    rest = np.eye(G.shape[1]) * (1 + ROUNDING) - W @ G
    left = eta - (G @ np.linalg.solve(rest, residual[..., None]))[..., 0]
    return float(weight @ (loss.value(left) - (targets * left).sum(axis=1)))
