"""Generalised linear models as an objective of the greedy loop (the paper's Algorithm 3).

Groups are scored by the gradient of the risk at the current model, r = X'ω(y − ∇φ(η)), shape (D, Q), and the model is
refitted on the chosen groups. With H the Hessian at the current model, the rules are

=============  ====================================================================================
``omp``        r_g' C_g⁻¹ r_g, as for least squares
``score``      r_g' (H_g − H_gS H_S⁻¹ H_Sg)⁻¹ r_g: twice the gain of one Newton step, the score test
``fr``         twice the exact gain F(S ∪ g) − F(S), by refitting
``no-whiten``  ‖r_g‖²
``single``     max_d ‖r_d‖²
=============  ====================================================================================

``fr`` refits every candidate; on large data in the order of their one-step gains per cost, until a candidate would have
to gain more than ``SCREEN`` times its one-step gain to win. That is a rule of thumb: outliers can break it. Candidates
of several groups are all refitted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning

from budgetline.budgets import Rates, rate
from budgetline.data.rows import CHUNK_BYTES
from budgetline.objectives.blocks import (
    SizeClass,
    columns_of,
    nested_squares,
    score_tests,
    size_classes,
    whitened_gradients,
)
from budgetline.objectives.factors import diagonal_blocks, grown
from budgetline.objectives.newton import Fit, Problem, factored, hessian, minimise, product, transposed_product
from budgetline.objectives.rules import RULES, Rule
from budgetline.objectives.subsets import Expansion, QuadraticSubset
from budgetline.statistics.columns import StandardisedColumns

Float = NDArray[np.float64]

AFFORDABLE = 10**8
"""``fr`` refits every candidate while candidates × entries of Z are fewer than this."""
SCREEN = 10.0
"""Beyond, a candidate that would have to gain so many times its one-step gain to win is not refitted."""
EXPANSION_WIDTH = 4000
"""With more parameters than this, the quadratic model is kept around the last stage only."""
EXPANSION_WORK = 10**9
"""Quadratic models are kept around every stage while they take fewer multiplications than this."""
LARGEST_BUFFER = 1 << 32
"""Bytes up to which room for all columns is set aside at once."""


class GeneralisedLinear:
    """State of a GLM sequence for the greedy loop.

    Parameters
    ----------
    A : StandardisedColumns, shape (n, D)
        With ``root`` = √ω.
    order : int array of shape (D,)
        Columns of A, group after group.
    sizes : int array of shape (J,)
    problem : Problem
    rule : str
    """

    def __init__(
        self,
        A: StandardisedColumns,
        order: NDArray[np.intp],
        sizes: NDArray[np.intp],
        problem: Problem,
        rule: str,
    ) -> None:
        self._A, self._order, self._problem, self._rule_name = A, order, problem, rule
        self._sizes = sizes
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        n, self._Q = problem.targets.shape
        # Columns that are not written yet take no memory, and a buffer that need not grow is never copied.
        room = order.size + 1 if 8 * n * order.size <= LARGEST_BUFFER else 1
        self._Z = np.empty((n, room), order="F")
        self._Z[:, 0] = 1.0
        self._T = 0
        level = problem.family.start(problem.weight @ problem.targets)[None]
        eta = np.tile(level, (n, 1))
        self._fit = minimise(problem, self._Z[:, :1], Fit(level, eta, problem.risk(level, eta)))
        self._null = self._fit
        self._refits: dict[int, Fit] = {}
        self._near: tuple[Float, Float] | None = None
        self._warned = False
        self._rule: Rule | None = None
        if rule not in ("fr", "score"):
            self._rule = RULES[rule](size_classes(sizes, lambda c: diagonal_blocks(A, order, c, problem.alpha)))
        self._stages: list[Float] = []
        self._columns: list[NDArray[np.intp]] = []

    @property
    def null_value(self) -> float:
        """R(∅) less the risk of a model that knows every target: half the null deviance per sample."""
        return self._null.risk - float(self._problem.weight @ self._problem.family.saturated(self._problem.targets))

    @property
    def null_risk(self) -> float:
        """R(∅), from which gains are subtracted."""
        return self._null.risk

    @property
    def null_level(self) -> Float:
        """Internal levels (Q,) of the intercept-only model."""
        return np.asarray(self._null.theta[0])

    def scores(self, allowed: NDArray[np.bool_], costs: Float) -> Float:
        """Return the merit of the allowed groups, shape (J,); ``fr`` looks at the costs to know which can win."""
        r = self._gradient()
        if self._rule is not None:
            return self._rule.scores(r)
        one_step = self._one_step(r)
        return 2 * self._exact(one_step / 2, allowed, costs) if self._rule_name == "fr" else one_step

    def joint_scores(self, parts: Sequence[Sequence[int]]) -> Float:
        """Return the merit of the unions of the first 1, 2, … parts, each as one group."""
        if self._rule_name == "fr":
            found, fit = [], self._fit
            for k in range(len(parts)):
                fit = self._refit([g for part in parts[: k + 1] for g in part], fit)
                found.append(2 * (self._fit.risk - fit.risk))
            return np.array(found)
        columns, ends = columns_of(parts, self._starts)
        r = self._gradient()
        if self._rule is not None:
            alpha = self._problem.alpha
            return self._rule.joint_scores(
                columns, ends, r, lambda: diagonal_blocks(self._A, self._order, columns[None], alpha)[0]
            )
        curvature, L = self._local()
        Z, Q, A = self._Z[:, : self._T + 1], self._Q, self._A.plain(self._order[columns])
        cross = np.empty((self._T + 1, Q, columns.size, Q))
        for q in range(Q):
            for s in range(q + 1):
                cross[:, q, :, s] = cross[:, s, :, q] = Z.T @ (curvature[:, q, s, None] * A)
        K = solve_triangular(L, cross.reshape(len(L), -1), trans="T", check_finite=False)
        block = self._blocks(columns[None], curvature)
        return nested_squares(whitened_gradients(block, K.T[None], r[columns].reshape(1, -1))[0], ends * Q)

    def gains(self) -> Float:
        """Return the gain of one Newton step for every group, shape (J,)."""
        return self._one_step(self._gradient()) / 2

    def choose(self, g: int) -> float:
        """Add group g, refit, and return the gain."""
        fit = self._refits.get(g) or self._refit([g], self._fit)
        columns = self._append([g])
        gain = self._fit.risk - fit.risk
        self._T += columns.size
        self._fit = fit
        self._refits = {}
        self._near = None
        self._stages.append(fit.theta)
        self._warn_if_saturated()
        self._columns.append(columns)
        return gain

    def _warn_if_saturated(self) -> None:
        """Warn, once, if without a ridge some samples are fitted so well that they no longer count."""
        if self._problem.alpha > 0 or self._warned:
            return
        curvature = np.trace(self._problem.family.curvature(self._fit.eta), axis1=1, axis2=2)
        curvature = curvature[self._problem.weight > 0]
        if curvature.min() > 1e-7 * curvature.max() and curvature.max() > 1e-7:
            return
        # a sample far out is saturated too; the optimum is at infinity only if nothing else holds the coefficients
        H = hessian(self._Z[:, : self._T + 1], self._problem.curvature(self._fit.eta), 0.0)
        if np.linalg.eigvalsh(H)[0] < 1e-7:
            self._warned = True
            warnings.warn(
                "with alpha=0 some samples are fitted perfectly, as when classes are separable: the coefficients have "
                "no finite optimum and grow until the gradient is below tol. Raise alpha.",
                ConvergenceWarning,
                stacklevel=6,
            )

    def coefficients(self) -> tuple[Float, Float]:
        """Return all stages: V (stages, Q, T) and levels (stages, Q)."""
        V = np.zeros((len(self._stages), self._Q, self._T))
        for j, theta in enumerate(self._stages):
            V[j, :, : len(theta) - 1] = theta[1:].T
        return V, np.array([theta[0] for theta in self._stages]).reshape(-1, self._Q)

    def subset(self) -> QuadraticSubset:
        """Return the quadratic models from which any subset is answered.

        They are kept around the last stage; if not too large, around the intercept alone; and where it costs little,
        around every stage.
        """
        J, width = len(self._stages), (self._T + 1) * self._Q
        stages: Iterable[int] = sorted({0, J}) if width <= EXPANSION_WIDTH else [J]
        if J * len(self._Z) * width**2 <= EXPANSION_WORK:
            stages = range(J + 1)
        columns = np.concatenate(self._columns) if self._columns else np.empty(0, dtype=np.intp)
        ends = np.cumsum([c.size for c in self._columns], dtype=np.intp)
        expansions = tuple(self._expansion(j) for j in stages)
        return QuadraticSubset(expansions, self._Q, self._order[columns], ends, self._problem.family)

    def _expansion(self, stage: int) -> Expansion:
        Z, problem = self._Z[:, : self._T + 1], self._problem
        theta = np.zeros((self._T + 1, self._Q))
        found = self._stages[stage - 1] if stage else self._null.theta
        theta[: len(found)] = found
        eta = product(Z[:, : len(found)], found)
        gradient = -transposed_product(Z, problem.residual(eta))
        gradient[1:] += problem.alpha * theta[1:]
        H = hessian(Z, problem.curvature(eta), problem.alpha)
        return Expansion(stage, H, theta.ravel(), gradient.ravel())

    def _gradient(self) -> Float:
        """Return r, shape (D, Q), group-major; what the tolerance of the refits cannot tell from zero is zero."""
        E = self._problem.weight[:, None] * (self._problem.targets - self._problem.family.mean(self._fit.eta))
        root = self._A.root[:, None]
        r = self._A.project(np.divide(E, root, out=np.zeros_like(E), where=root > 0)).T[self._order]
        return np.where(np.abs(r) <= 10 * self._problem.tol, 0.0, r)

    def _append(self, groups: Sequence[int]) -> NDArray[np.intp]:
        """Write the columns of groups behind those chosen; they stay only if ``_T`` is moved."""
        columns, _ = columns_of([groups], self._starts)
        end = 1 + self._T + columns.size
        self._Z = grown(self._Z, len(self._Z), end)
        self._Z[:, 1 + self._T : end] = self._A.plain(self._order[columns])
        return columns

    def _refit(self, groups: Sequence[int], start: Fit) -> Fit:
        """Refit with groups added, from a fit of what was chosen and the first of them, or none."""
        end = 1 + self._T + self._append(groups).size
        theta = np.vstack([start.theta, np.zeros((end - len(start.theta), self._Q))])
        return minimise(self._problem, self._Z[:, :end], Fit(theta, start.eta, start.risk))

    def _exact(self, one_step: Float, allowed: NDArray[np.bool_], prices: Float) -> Float:
        """Return exact gains of the candidates that can win, and one-step gains of the others."""
        candidates = np.flatnonzero(allowed & (prices == 0) if np.any(prices[allowed] == 0) else allowed)
        costs = np.where(prices > 0, prices, 1.0)
        screen = np.inf if candidates.size * self._Z.shape[0] * (self._T + 1) <= AFFORDABLE else SCREEN
        gains = one_step.copy()
        best = rate(0.0, 1.0)
        for g in candidates[Rates.of(one_step[candidates], costs[candidates]).order()].tolist():
            if one_step[g] == 0 or rate(screen * float(one_step[g]), float(costs[g])) < best:
                break
            self._refits[g] = self._refit([g], self._fit)
            gains[g] = self._fit.risk - self._refits[g].risk
            best = max(best, rate(float(gains[g]), float(costs[g])))
        return gains

    def _one_step(self, r: Float) -> Float:
        """Return r_g' (Schur complement of the Hessian)⁻¹ r_g of every group, shape (J,)."""
        Z, Q = self._Z[:, : self._T + 1], self._Q
        curvature, L = self._local()
        root = self._A.root
        inverse_root = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        scores = np.empty(self._sizes.size)
        cross = np.empty((self._T + 1, Q, self._order.size, Q))
        for q in range(Q):
            for s in range(q + 1):
                part = self._A.project((curvature[:, q, s] * inverse_root)[:, None] * Z)[:, self._order]
                cross[:, q, :, s] = cross[:, s, :, q] = part
        D = self._order.size
        K = solve_triangular(L, cross.reshape(-1, D * Q), trans="T", check_finite=False).reshape(-1, D, Q)
        for c in size_classes(self._sizes, lambda columns: self._blocks(columns, curvature)):
            scores[c.groups] = self._class_scores(c, K, r)
        return scores

    def _local(self) -> tuple[Float, Float]:
        """Return ω∇²φ (n, Q, Q) at the current model, and the factor of its Hessian."""
        if self._near is None:
            curvature = self._problem.curvature(self._fit.eta)
            Z = self._Z[:, : self._T + 1]
            self._near = curvature, factored(hessian(Z, curvature, self._problem.alpha))[0]
        return self._near

    def _class_scores(self, c: SizeClass, K: Float, r: Float) -> Float:
        count, size = c.columns.shape
        k = K[:, c.columns].transpose(1, 2, 3, 0).reshape(count, size * self._Q, -1)
        return score_tests(c.blocks, k, r[c.columns].reshape(count, size * self._Q))

    def _blocks(self, columns: NDArray[np.intp], curvature: Float) -> Float:
        """Return H_g of groups of one size, shape (J_s, sQ, sQ)."""
        (count, size), Q = columns.shape, self._Q
        blocks = np.empty((count, size, Q, size, Q))
        batch = max(1, CHUNK_BYTES // (8 * size * len(curvature)))
        for start in range(0, count, batch):
            part = columns[start : start + batch]
            A = np.ascontiguousarray(self._A.plain(self._order[part.ravel()]).T).reshape(len(part), size, -1)
            for q in range(Q):
                for s in range(q + 1):
                    product = (A * curvature[:, q, s]) @ A.transpose(0, 2, 1)
                    blocks[start : start + batch, :, q, :, s] = blocks[start : start + batch, :, s, :, q] = product
        square = blocks.reshape(count, size * Q, size * Q)
        square[:, np.arange(size * Q), np.arange(size * Q)] += self._problem.alpha
        return square
