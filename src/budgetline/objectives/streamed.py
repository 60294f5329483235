"""Generalised linear models over data that are streamed: risk, gradient and Hessian are sums over chunks.

Every pass over the data evaluates one model and returns, for *all* columns Z = [1, X standardised] (n × (1 + D)),

    risk = Σ ω (φ(η) − y'η),    gradient = Z'ω(y − ∇φ(η)),    H = Σ ω ∇²φ(η) ⊗ zz'.

So the last pass of a refit is also the one that scores the next group and starts its refit with a full Newton step. The
scores are never kept; memory does not depend on the number of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular
from sklearn.exceptions import ConvergenceWarning

from budgetline.data.sources import Chunk
from budgetline.objectives.blocks import columns_of, nested_squares, score_tests, size_classes, whitened_gradients
from budgetline.objectives.families import Family
from budgetline.objectives.gram import Gram
from budgetline.objectives.newton import factored, hessian
from budgetline.objectives.rules import RULES, Rule
from budgetline.objectives.subsets import Expansion, QuadraticSubset
from budgetline.statistics.passes import located, targets_of

Float = NDArray[np.float64]

MOST_PARAMETERS = 6000
"""The Hessian of all columns and scores must fit into memory."""
MAX_STEPS, MAX_HALVINGS = 50, 30
MOST_KEPT = 10**7
"""Up to so many numbers, the Hessians of all stages are kept, to answer subsets from the nearest."""


@dataclass(frozen=True)
class Sums:
    """What one pass finds out: risk, gradient (1 + D, Q), H (1 + D, Q, 1 + D, Q), and the risk of knowing y."""

    risk: float
    gradient: Float
    H: Float
    saturated: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.risk + other.risk,
            self.gradient + other.gradient,
            self.H + other.H,
            self.saturated + other.saturated,
        )


@dataclass(frozen=True)
class ModelSums:
    """The statistic of a pass: a family's sums at parameters θ (1 + D, Q)."""

    family: Family
    theta: Float
    mean: Float
    scale: Float
    total_weight: float
    classes: NDArray[Any] | None
    first: bool

    def __call__(self, chunk: Chunk) -> Sums:
        """Return the sums over one chunk."""
        with located(chunk):
            Y = targets_of(chunk, self.classes)
            weight = np.ones(len(Y)) if chunk.weight is None else chunk.weight
            if self.first:
                # targets are checked row by row; a chunk in which all are zero is no error
                self.family.check(np.vstack([Y, np.ones((1, Y.shape[1]))]), np.append(weight, 1.0))
        X = chunk.X.toarray() if sparse.issparse(chunk.X) else chunk.X
        Z = np.empty((len(Y), 1 + self.mean.size))
        Z[:, 0] = 1.0
        np.subtract(X, self.mean, out=Z[:, 1:])
        Z[:, 1:] /= self.scale
        weight = weight / self.total_weight
        targets = self.family.internal(Y)
        used = np.flatnonzero(self.theta.any(axis=1))
        eta = Z[:, used] @ self.theta[used]
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.family.value(eta) - np.einsum("nq,nq->n", targets, eta)
            gradient = Z.T @ (weight[:, None] * (targets - self.family.mean(eta)))
            curvature = weight[:, None, None] * self.family.curvature(eta)
        saturated = float(weight @ self.family.saturated(targets)) if self.first else 0.0
        H = hessian(Z, curvature, 0.0).reshape(*gradient.shape, *gradient.shape)
        return Sums(float(weight @ loss), gradient, H, saturated)


class StreamedGeneralisedLinear:
    """State of a streamed GLM sequence for the greedy loop.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(θ, first)`` makes one pass and returns its sums.
    gram : Gram
        C of the columns, group after group, for the rules that whiten by it.
    order, sizes : int arrays of shape (D,) and (J,)
    family : Family
    level : array of shape (Q,)
        Internal scores of the intercept-only model, or a start for them.
    alpha, tol : float
        Ridge constant, and the largest entry of the gradient at which a stage counts as fitted.
    rule : str
    """

    def __init__(
        self,
        evaluate: Callable[[Float, bool], Sums],
        gram: Gram,
        order: NDArray[np.intp],
        sizes: NDArray[np.intp],
        family: Family,
        level: Float,
        alpha: float,
        tol: float,
        rule: str,
    ) -> None:
        if (1 + order.size) * level.size > MOST_PARAMETERS:
            raise ValueError(
                f"{order.size} columns and {level.size} scores are too many to stream: their Hessian has more than "
                f"{MOST_PARAMETERS} rows. Leave columns out."
            )
        self._evaluate, self._order, self._sizes, self._family = evaluate, order, sizes, family
        self._alpha, self._tol = alpha, tol
        # Newton's method squares what is left: from here one step ends well below tol
        self._last = max(tol, min(tol, 1.0) ** 0.85)
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._theta = np.zeros((1 + order.size, level.size))
        self._theta[0] = level
        self._inside = np.zeros(1 + order.size, dtype=bool)
        self._inside[0] = True
        self._gram = gram
        self._classes = size_classes(sizes, gram.blocks)
        self._rule: Rule | None = None if rule == "score" else RULES[rule](self._classes)
        self._chosen: list[NDArray[np.intp]] = []
        self._at = evaluate(self._theta, True)
        self._saturated = self._at.saturated
        self._risk = self._at.risk
        self._minimise()
        self._null, self._null_at, self._null_risk = self._theta.copy(), self._at, self._risk
        self._stages: list[Float] = []
        self._passed: list[Sums] = []  # what was found at the stages, if that is not too much
        self._keeps = sizes.size * self._theta.size**2 <= MOST_KEPT
        self._warned = False

    @property
    def null_value(self) -> float:
        """R(∅) less the risk of a model that knows every target."""
        return self._null_risk - self._saturated

    @property
    def null_risk(self) -> float:
        """R(∅), from which gains are subtracted."""
        return self._null_risk

    @property
    def null_level(self) -> Float:
        """Internal levels (Q,) of the intercept-only model."""
        return np.asarray(self._null[0])

    def scores(self, allowed: NDArray[np.bool_], costs: Float) -> Float:
        """Return the merit of every group, shape (J,)."""
        return self._one_step() if self._rule is None else self._rule.scores(self._gradient())

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return the merit of the unions of the first 1, 2, … parts, each as one group."""
        columns, ends = columns_of(parts, self._starts)
        r = self._gradient()
        if self._rule is not None:
            return self._rule.joint_scores(columns, ends, r, lambda: self._gram.blocks(columns[None])[0])
        Q, rows, added = self._theta.shape[1], np.flatnonzero(self._inside), 1 + self._order[columns]
        L = factored(self._hessian(self._at, rows))[0]
        cross = self._at.H[rows][:, :, added].reshape(rows.size * Q, -1)
        K = solve_triangular(L, cross, trans="T", check_finite=False)
        block = self._hessian(self._at, added)
        return nested_squares(whitened_gradients(block[None], K.T[None], r[columns].reshape(1, -1))[0], ends * Q)

    def gains(self) -> Float:
        """Return the gain of one Newton step for every group, shape (J,)."""
        return self._one_step() / 2

    def choose(self, g: int) -> float:
        """Add group g, refit, and return the gain."""
        columns = self._order[self._starts[g] : self._starts[g + 1]]
        self._inside[1 + columns] = True
        self._chosen.append(columns)
        before = self._risk
        self._minimise()
        self._warn_if_separable()
        self._stages.append(self._theta.copy())
        if self._keeps:
            self._passed.append(self._at)
        return before - self._risk

    def coefficients(self) -> tuple[Float, Float]:
        """Return all stages: V (stages, Q, T) and levels (stages, Q)."""
        columns = 1 + self._columns()
        stages = np.array(self._stages).reshape(-1, *self._theta.shape)
        return stages[:, columns].transpose(0, 2, 1), stages[:, 0]

    def subset(self) -> QuadraticSubset:
        """Return the quadratic models around the intercept alone, the last stage, and those between if kept."""
        ends = np.cumsum([c.size for c in self._chosen], dtype=np.intp)
        found = [self._expansion(0, self._null, self._null_at)]
        for stage, (theta, at) in enumerate(zip(self._stages[:-1], self._passed, strict=False), 1):
            found.append(self._expansion(stage, theta, at))
        if self._stages:
            found.append(self._expansion(len(self._stages), self._theta, self._at))
        return QuadraticSubset(tuple(found), self._theta.shape[1], self._columns(), ends, self._family)

    def _columns(self) -> NDArray[np.intp]:
        return np.concatenate(self._chosen) if self._chosen else np.empty(0, dtype=np.intp)

    def _expansion(self, stage: int, theta: Float, at: Sums) -> Expansion:
        rows = np.concatenate([[0], 1 + self._columns()])
        gradient = self._penalty()[rows] * theta[rows] - at.gradient[rows]
        return Expansion(stage, self._hessian(at, rows), theta[rows].ravel(), gradient.ravel())

    def _penalty(self) -> Float:
        penalty = np.full((len(self._theta), 1), self._alpha)
        penalty[0] = 0.0
        return penalty

    def _hessian(self, at: Sums, rows: NDArray[np.intp]) -> Float:
        """Return the penalised Hessian of some rows of θ, shape (kQ, kQ)."""
        Q = self._theta.shape[1]
        H = at.H[rows][:, :, rows].reshape(rows.size * Q, rows.size * Q).copy()
        H[np.arange(len(H)), np.arange(len(H))] += np.repeat(self._penalty()[rows, 0], Q)
        return H

    def _minimise(self) -> None:
        """Take Newton steps on the rows inside; the last one, whose outcome the Hessian foretells, needs no pass."""
        rows, penalty = np.flatnonzero(self._inside), self._penalty()[self._inside]
        for _ in range(MAX_STEPS):
            gradient = penalty * self._theta[rows] - self._at.gradient[rows]
            factor = factored(self._hessian(self._at, rows))
            step = -cho_solve(factor, gradient.ravel(), check_finite=False).reshape(gradient.shape)
            slope = float(np.sum(gradient * step))
            if np.abs(gradient).max() <= self._last:
                self._theta[rows] += step
                self._risk += slope / 2
                moved = np.tensordot(self._at.H[:, :, rows], step, axes=2)
                self._at = replace(self._at, gradient=self._at.gradient - moved)
                return
            if not self._search(rows, step, slope):
                break
        warnings.warn(
            f"a stage did not converge (alpha={self._alpha:g}): the classes may be separable, so that the coefficients "
            "have no finite optimum. Raise alpha.",
            ConvergenceWarning,
            stacklevel=6,
        )

    def _warn_if_separable(self) -> None:
        """Warn, once, if without a ridge the curvature has gone in a direction: coefficients grow without end."""
        if self._alpha > 0 or self._warned:
            return
        rows = np.flatnonzero(self._inside)
        values, vectors = np.linalg.eigh(self._hessian(self._null_at, rows))
        there = values > 1e-10 * values[-1]  # columns that repeat others have none from the start
        unit = vectors[:, there] / np.sqrt(values[there])
        if np.linalg.eigvalsh(unit.T @ self._hessian(self._at, rows) @ unit)[0] < 1e-7:
            self._warned = True
            warnings.warn(
                "with alpha=0 some samples are fitted perfectly, as when classes are separable: the coefficients have "
                "no finite optimum and grow until the gradient is below tol. Raise alpha.",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _search(self, rows: NDArray[np.intp], step: Float, slope: float) -> bool:
        """Halve the step until the risk falls enough, up to rounding; each trial is a pass."""
        for k in range(MAX_HALVINGS):
            length = 0.5**k
            theta = self._theta.copy()
            theta[rows] += length * step
            at = self._evaluate(theta, False)
            risk = at.risk + self._alpha / 2 * float(np.sum(theta[1:] ** 2))
            if risk <= self._risk + 1e-4 * length * slope + 1e-14 * (1 + abs(self._risk)):
                self._theta, self._at, self._risk = theta, at, risk
                return True
        return False

    def _gradient(self) -> Float:
        """Return r, shape (D, Q), group-major; what the tolerance cannot tell from zero is zero."""
        r = self._at.gradient[1:][self._order]
        return np.where(np.abs(r) <= 10 * self._tol, 0.0, r)

    def _one_step(self) -> Float:
        """Return r_g' (Schur complement of the Hessian)⁻¹ r_g of every group, shape (J,)."""
        Q, r = self._theta.shape[1], self._gradient()
        rows = np.flatnonzero(self._inside)
        L = factored(self._hessian(self._at, rows))[0]
        cross = self._at.H[rows][:, :, 1 + self._order].reshape(rows.size * Q, -1)
        K = solve_triangular(L, cross, trans="T", check_finite=False).reshape(-1, self._order.size, Q)
        scores = np.empty(self._sizes.size)
        for c in self._classes:
            count, size = c.columns.shape
            at = 1 + self._order[c.columns]
            blocks = np.array([self._hessian(self._at, group) for group in at])
            k = K[:, c.columns].transpose(1, 2, 3, 0).reshape(count, size * Q, -1)
            scores[c.groups] = score_tests(blocks, k, r[c.columns].reshape(count, size * Q))
        return scores
