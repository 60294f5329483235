"""Generalised linear models of some columns, fitted to a population instead of rows.

The risk is minimised by Newton's method in the basis of the eigenvectors of C, in which it is diagonal. A score c + W'z
is normal in every cell, so expectations are sums over a few nodes, and with S = C − Σ ω_j m_j m_j'

    ∂/∂W = Σ ω_j m_j E_j[∇φ]' + S W A − b + λW,    A = Σ ω_j A_j,  A_j = E_j[∇²φ]

(Stein's lemma). The metric of a step is Σ ω_j A_j ⊗ m_j m_j' + A ⊗ S + λI: diagonal blocks and M terms of rank Q.

For predictions, the ridge constant is the larger one of the model's own and of the one that maximises the restricted
likelihood of least squares on the same columns: how much ridge all columns need says little about a few of them. Least
squares needs too much where classes are far apart. So for classes smaller constants α are tried while nα‖W‖² is well
above the number of coefficients, which it is at most where α is the likeliest one, and Laplace's approximation, as in
:mod:`budgetline.leastsquares.ridge` but for the population, finds them much likelier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from budgetline.arrays import Float
from budgetline.glm.families import Family
from budgetline.leastsquares.ridge import GRID
from budgetline.model.population import Population

STEPS, HALVINGS, ENOUGH = 50, 12, 1e-9
"""Newton's method ends after so many steps, or if a step, halved at most so often, lowers the risk by less."""
NODES, PAIRS = 12, 48
"""Nodes of a normal distribution of one score; pairs of opposite nodes of one of several."""
SMALLER, LIKELIER, ABOVE = 10**0.5, 2.0, 2.0
"""Ridge constants of classes are divided by the first while that lowers the criterion by more than the second; none is
tried where nα‖W‖² is below the third times the number of coefficients."""
WIDEST_LOG_ODDS = 5.0
"""They leave coefficients at most this prior deviation: a population says little about rows far from the others."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """The quadratic model of the risk around a model: minimised where H(θ − θ*) = −gradient.

    Attributes
    ----------
    n_scores : int
        Q.
    H : array of shape (Q(1 + T), Q(1 + T))
    theta : array of shape (Q(1 + T),)
        Intercepts, then coefficients of standardised columns in internal scores.
    gradient : array of shape (Q(1 + T),)
    """

    n_scores: int
    H: Float
    theta: Float
    gradient: Float


@dataclass(frozen=True, eq=False)
class Refit:
    """A fitted model: levels (Q,), coefficients (T, Q), and by how much the risk with the ridge is below stage 0's."""

    level: Float
    coef: Float
    gain: float


@dataclass(frozen=True, eq=False)
class _RefitPoint:
    """A model in the basis, its risk, and means and curvatures of every cell."""

    level: Float
    W: Float
    risk: float
    eta: Float


@dataclass(frozen=True, eq=False)
class PopulationRisk:
    """The risk of models of all columns of a population, in the basis of the eigenvectors of C."""

    population: Population
    family: Family
    V: Float
    d: Float
    mean: Float
    b: Float
    ridge: float

    @classmethod
    def of(cls, population: Population, family: Family, alpha: float) -> PopulationRisk:
        """Return the risk with a ridge."""
        V, d = population.basis()
        return cls(population, family, V, d, population.mean @ V, V.T @ population.slope, alpha)

    def regularised(self) -> PopulationRisk:
        """Return the risk with the ridge that least squares on these columns needs, if it is larger."""
        level = self.population.level
        unit = float(self.family.curvature(level[None]).trace()[0]) / level.size
        return replace(self, ridge=max(self.ridge, unit * _restricted(self.d, self.b, self.population)))

    def fitted(self) -> Refit:
        """Return the model of least risk."""
        return self._refit(self._minimum(self._null()))

    def likeliest(self) -> Refit:
        """Return the model of classes whose ridge is about the likeliest one, if that is larger than this one."""
        risk, n = self.regularised(), self.population.n_rows
        here = risk._minimum(self._null())
        value, least = risk._criterion(here), max(self.ridge, 1 / (n * WIDEST_LOG_ODDS**2))
        while risk.ridge > least and n * risk.ridge * np.vdot(here.W, here.W) > ABOVE * self.b.size:
            smaller = replace(risk, ridge=max(risk.ridge / SMALLER, least))
            found = smaller._minimum(smaller.at(here.level, here.W))
            if not (likelier := smaller._criterion(found)) < value - LIKELIER:
                break
            risk, here, value = smaller, found, likelier
        return self._refit(here)

    def _null(self) -> _RefitPoint:
        return self.at(self.population.level, np.zeros_like(self.b))

    def _refit(self, point: _RefitPoint) -> Refit:
        return Refit(point.level, self.V @ point.W, self._null().risk - point.risk)

    def _minimum(self, here: _RefitPoint) -> _RefitPoint:
        """Return the point of least risk, from a start."""
        for _ in range(STEPS if self.d.size else 0):
            following = self._following(here)
            if following is None:
                break
            here, before = following, here.risk
            if before - here.risk < ENOUGH or self._perfect(here):
                break
        return here

    def _perfect(self, point: _RefitPoint) -> bool:
        """Return whether a model of classes would lose less than perfect predictions: no rows allow that."""
        return self.family.loss == "log_loss" and point.risk <= 0

    def _criterion(self, point: _RefitPoint) -> float:
        """Return minus twice the logarithm of how likely the ridge is, at its model of classes, but for a constant."""
        if self._perfect(point):
            return np.inf
        *_, cells, A = self._derivatives(point)
        volume = self._metric(cells, A).log_det() - self.b.size * np.log(self.ridge)
        return float(2 * self.population.n_rows * point.risk + volume)

    def at(self, level: Float, W: Float) -> _RefitPoint:
        """Return the point of levels (Q,) and coefficients (p, Q); its risk is infinite outside the domain of φ."""
        share, Q = self.population.share, level.size
        centre = self.mean @ W
        values, U = np.linalg.eigh(W.T @ (self.d[:, None] * W) - centre.T @ (share[:, None] * centre))
        nodes, weight = normal_nodes(Q)
        eta = (level + centre)[:, None] + nodes @ (U * np.sqrt(np.maximum(values, 0.0))).T
        with np.errstate(all="ignore"):
            phi = self.family.value(eta.reshape(-1, Q)).reshape(eta.shape[:2]) @ weight
            risk = float(share @ phi - self._target @ level - np.vdot(W, self.b) + self.ridge / 2 * np.vdot(W, W))
        return _RefitPoint(level, W, risk if np.isfinite(risk) else np.inf, eta)

    def expansion(self, level: Float, coef: Float) -> Expansion:
        """Return the quadratic model of the risk around a model (T, Q) of all columns."""
        share, Q, V = self.population.share, level.size, self.V
        point = self.at(level, V.T @ coef)
        gc, gW, cells, A = self._derivatives(point)
        mean, T = self.population.mean, len(V)
        ones = np.column_stack([np.ones(len(mean)), mean])
        S = (V * self.d) @ V.T - mean.T @ (share[:, None] * mean)
        H = np.einsum("j,ja,jqr,jb->aqbr", share, ones, cells, ones, optimize=True)
        H[1:, :, 1:] += np.einsum("ab,qr->aqbr", S, A) + self.ridge * np.einsum("ab,qr->aqbr", np.eye(T), np.eye(Q))
        slope = np.vstack([gc, V @ gW])
        size = (1 + T) * Q
        return Expansion(Q, H.reshape(size, size), np.vstack([level, coef]).ravel(), slope.ravel())

    @property
    def _target(self) -> Float:
        return np.asarray(self.family.mean(self.population.level[None])[0])

    def _following(self, here: _RefitPoint) -> _RefitPoint | None:
        """Return the point after a Newton step that lowers the risk; None if there is none."""
        level, W = self._step(here)
        for k in range(HALVINGS):
            found = self.at(here.level - level / 2**k, here.W - W / 2**k)
            if found.risk < here.risk:
                return found
        return None

    def _derivatives(self, point: _RefitPoint) -> tuple[Float, Float, Float, Float]:
        """Return the gradient (Q,) and (p, Q), and the curvatures A_j (M, Q, Q) and A."""
        share, m, W, shape = self.population.share, self.mean, point.W, point.eta.shape
        flat, weight = point.eta.reshape(-1, shape[2]), normal_nodes(shape[2])[1]
        mean = np.einsum("jgq,g->jq", self.family.mean(flat).reshape(shape), weight)
        cells = np.einsum("jgqr,g->jqr", _curvature(self.family, flat).reshape(*shape, shape[2]), weight)
        A = np.einsum("j,jqr->qr", share, cells)
        SW = self.d[:, None] * W - m.T @ (share[:, None] * (m @ W))
        slope = m.T @ (share[:, None] * mean) + SW @ A - self.b + self.ridge * W
        return share @ mean - self._target, slope, cells, A

    def _step(self, point: _RefitPoint) -> tuple[Float, Float]:
        """Return the Newton step of levels and coefficients."""
        gc, gW, cells, A = self._derivatives(point)
        metric = self._metric(cells, A)
        solved = metric.solve(np.concatenate([gW[:, :, None], metric.cross], axis=2))
        W, by_level = solved[..., 0], solved[..., 1:]
        level = np.linalg.solve(metric.of_level(by_level), gc - np.einsum("pqr,pq->r", metric.cross, W))
        return level, W - by_level @ level

    def _metric(self, cells: Float, A: Float) -> _RefitMetric:
        """Return the metric of a step, from the curvatures A_j (M, Q, Q) and A."""
        share, m, Q = self.population.share, self.mean, len(A)
        unit = np.eye(Q) * (1e-12 * np.trace(A) / Q + 1e-300)
        inverse = np.linalg.inv(self.d[:, None, None] * (A + unit) + (self.ridge * np.eye(Q) + unit))
        K = share[:, None, None] * (cells - A)
        G = np.einsum("ip,pqr,jp->iqjr", m, inverse, m, optimize=True)
        whole = np.einsum("iqs,isjr->iqjr", K, G).reshape(len(m) * Q, -1) + np.eye(len(m) * Q)
        return _RefitMetric(m, A + unit, inverse, K, whole, np.einsum("j,jp,jqr->pqr", share, m, cells))


@dataclass(frozen=True, eq=False)
class _RefitMetric:
    """The metric of a step: diagonal blocks, with inverses (p, Q, Q), and M terms m_j m_j' ⊗ K_j of rank Q.

    ``whole`` (MQ, MQ) is the matrix of Woodbury's identity, ``level`` (Q, Q) the block of the levels and ``cross``
    (p, Q, Q) that of coefficients and levels.
    """

    mean: Float
    level: Float
    inverse: Float
    K: Float
    whole: Float
    cross: Float

    def solve(self, right: Float) -> Float:
        """Return coefficients (p, Q, k) for k right-hand sides, at fixed levels."""
        found, (M, Q) = np.einsum("pqr,prs->pqs", self.inverse, right), self.K.shape[:2]
        rest = np.einsum("jqr,jp,prs->jqs", self.K, self.mean, found, optimize=True).reshape(M * Q, -1)
        y = np.linalg.solve(self.whole, rest).reshape(M, Q, -1)
        return np.asarray(found - np.einsum("pqr,jp,jrs->pqs", self.inverse, self.mean, y, optimize=True))

    def of_level(self, by_level: Float) -> Float:
        """Return the block (Q, Q) of the levels if coefficients follow them, by ``solve(cross)``."""
        return np.asarray(self.level - np.einsum("pqr,pqs->rs", self.cross, by_level))

    def log_det(self) -> float:
        """Return the logarithm of the determinant, of levels and coefficients."""
        blocks = np.linalg.slogdet(self.inverse)[1].sum()
        parts = (self.whole, self.of_level(self.solve(self.cross)))
        return float(sum(np.linalg.slogdet(part)[1] for part in parts) - blocks)


def _restricted(d: Float, b: Float, population: Population) -> float:
    """Return the ridge constant that maximises the restricted likelihood of least squares on these columns."""
    n, explained, variance = population.n_rows - 1, (b**2).sum(axis=1) / d, population.variance
    # nothing is left where the rows can be interpolated
    rest = max(variance - float(explained.sum()), 1e-6 * variance) if d.size < n else 0.0
    shrunk = GRID[:, None] / (d + GRID[:, None])
    with np.errstate(divide="ignore"):
        found = n * np.log(rest + shrunk @ explained) - np.log(shrunk).sum(axis=1)
    return float(GRID[np.argmin(found)])


def _curvature(family: Family, eta: Float) -> Float:
    """Return ∇²φ, shape (n, Q, Q)."""
    curvature, Q = family.curvature(eta), eta.shape[1]
    return np.stack([curvature.between(q, r) for q in range(Q) for r in range(Q)], axis=1).reshape(-1, Q, Q)


@cache
def normal_nodes(Q: int) -> tuple[Float, Float]:
    """Return nodes (g, Q) of the standard normal distribution and their weights (g,)."""
    if Q == 1:
        x, weight = np.polynomial.hermite_e.hermegauss(NODES)
        return x[:, None], weight / weight.sum()
    half = np.random.default_rng(0).standard_normal((max(PAIRS, 2 * Q), Q))
    half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / len(half))).T
    return np.vstack([half, -half]), np.full(2 * len(half), 0.5 / len(half))
