"""The training rows of a generalised linear model as a few numbers, to which models of any columns are fitted.

**What is kept.** The standardised rows z are described as a mixture of normal distributions. Rows with similar scores
at the last stage form a cell. Cell j has a share ω_j of the rows, taken to be normal with mean m_j and covariance
S = C − Σ ω_j m_j m_j', where C is the covariance of all rows. So C is exact, and so are the gradient and the Hessian of
the risk at the model without columns.

**The risk** of scores c + W'z is E φ(c + W'z) − ȳ'c − tr W'b. Only its first term depends on the distribution of the
rows. Newton's method minimises it in the basis of the eigenvectors of C. A score is normal in every cell, so
expectations are sums over a few nodes, and by Stein's lemma

    ∂/∂W = Σ ω_j m_j E_j[∇φ]' + S W A − b + λW,    A = Σ ω_j A_j,  A_j = E_j[∇²φ].

The metric of a step is Σ ω_j A_j ⊗ m_j m_j' + A ⊗ S + λI: diagonal blocks and M terms of rank Q.

**The ridge constant.** How much ridge all columns need says little about a few of them. So predictions use the model's
own constant, or, if larger, the one that maximises the restricted likelihood of least squares on the same columns. That
is too much where classes are far apart. So for classes, smaller constants α are tried and kept if Laplace's
approximation (`leastsquares.ridge`, here for the population) finds them much likelier. At the likeliest α, nα‖W‖² is at
most the number of coefficients: none is tried where it is not well above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.linalg.lapack import dpstrf

from budgetline.arrays import Array, Float, Mask, Positions
from budgetline.glm.families import Family
from budgetline.leastsquares.ridge import GRID

CELLS, CELL_ROWS, CELL_SCORES = 64, 5, 512
"""Most cells, fewest rows of a cell, counted as (Σw)²/Σw² so that files hold no single row, and most cells × scores."""
RANK = 1e-12
"""Pivots and eigenvalues of C below this share of the largest one are rounding noise."""
STEPS, HALVINGS, ENOUGH = 50, 12, 1e-9
"""Most steps of Newton's method, most halvings of a step, and the smallest worthwhile fall of the risk."""
NODES, PAIRS = 12, 48
"""Nodes of a normal distribution of one score; pairs of opposite nodes of one of several."""
SMALLER, LIKELIER, ABOVE = 10**0.5, 2.0, 2.0
"""Ridge constants of classes are divided by the first while that lowers the criterion by more than the second, and
nα‖W‖² is above the third times the number of coefficients."""
WIDEST_LOG_ODDS = 5.0
"""The largest prior deviation of coefficients of classes: a population says little about rows far from the others."""


@dataclass(frozen=True, eq=False)
class Population:
    """What is kept of the training rows.

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

    def basis(self) -> tuple[Float, Float]:
        """Return V (T, p) and d (p,) > 0 with V'V = I and V'CV = diag(d): no more dimensions than C has."""
        G, wide = self.factor, self.factor.shape[0] < self.factor.shape[1]
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
    """Divide rows (m, T) with weights (m,) by their scores (m, Q); return shares (M,) and means (M, T) of the cells.

    The next cell to split is the one whose scores vary most, along the score that varies most, where the variance falls
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
    """Shrink means of a sample that vary more than all rows do: C − Σ ω m m' would be indefinite."""
    found = Population(factor, share, mean, np.zeros((factor.shape[1], 0)), np.zeros(0), 0.0, 0.0)
    V, d = found.basis()
    half = np.sqrt(share)[:, None] * (mean @ V) / np.sqrt(d)
    largest = float(np.linalg.eigvalsh(half @ half.T)[-1])
    return np.asarray(mean / np.sqrt(max(largest / (1 - 1e-9), 1.0)))


@dataclass(frozen=True, eq=False)
class Expansion:
    """The quadratic model of the risk around a model: minimised where H(θ − θ*) = −gradient.

    ``theta`` (Q(1 + T),) holds intercepts, then coefficients of standardised columns, in internal scores.
    """

    n_scores: int
    H: Float
    theta: Float
    gradient: Float


@dataclass(frozen=True, eq=False)
class Refit:
    """A fitted model: levels (Q,), coefficients (T, Q), and how far its penalised risk is below that of stage 0."""

    level: Float
    coef: Float
    gain: float


@dataclass(frozen=True, eq=False)
class _RefitPoint:
    """A model in the basis, its risk, and its scores at the nodes of every cell, shape (M, nodes, Q)."""

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
        """Return the model with the smallest risk."""
        return self._refit(self._minimum(self._null()))

    def likeliest(self) -> Refit:
        """Return the model of classes with about the likeliest ridge, at least this one."""
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

    def expansion(self, level: Float, coef: Float) -> Expansion:
        """Return the quadratic model of the risk around a model (T, Q) of all columns."""
        share, mean, Q, V = self.population.share, self.population.mean, level.size, self.V
        gc, gW, cells, A = self._derivatives(self.at(level, V.T @ coef))
        ones, T = np.column_stack([np.ones(len(mean)), mean]), len(V)
        S = (V * self.d) @ V.T - mean.T @ (share[:, None] * mean)
        H = np.einsum("j,ja,jqr,jb->aqbr", share, ones, cells, ones, optimize=True)
        H[1:, :, 1:] += np.einsum("ab,qr->aqbr", S, A) + self.ridge * np.einsum("ab,qr->aqbr", np.eye(T), np.eye(Q))
        size, slope = (1 + T) * Q, np.vstack([gc, V @ gW])
        return Expansion(Q, H.reshape(size, size), np.vstack([level, coef]).ravel(), slope.ravel())

    def _null(self) -> _RefitPoint:
        return self.at(self.population.level, np.zeros_like(self.b))

    def _refit(self, point: _RefitPoint) -> Refit:
        return Refit(point.level, self.V @ point.W, self._null().risk - point.risk)

    def _minimum(self, here: _RefitPoint) -> _RefitPoint:
        """Return the point of least risk, by Newton steps that are halved until the risk falls."""
        for _ in range(STEPS if self.d.size else 0):
            level, W = self._step(here)
            tried = (self.at(here.level - level / 2**k, here.W - W / 2**k) for k in range(HALVINGS))
            found = next((point for point in tried if point.risk < here.risk), None)
            if found is None:
                break
            here, before = found, here.risk
            if before - here.risk < ENOUGH or self._perfect(here):
                break
        return here

    def _perfect(self, point: _RefitPoint) -> bool:
        """Return whether a model of classes loses less than perfect predictions, which no rows allow."""
        return self.family.loss == "log_loss" and point.risk <= 0

    def _criterion(self, point: _RefitPoint) -> float:
        """Return −2 log likelihood of the ridge at its model of classes, up to a constant."""
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

    @property
    def _target(self) -> Float:
        return np.asarray(self.family.mean(self.population.level[None])[0])

    def _derivatives(self, point: _RefitPoint) -> tuple[Float, Float, Float, Float]:
        """Return the gradient (Q,) and (p, Q), and the curvatures A_j (M, Q, Q) and A."""
        share, m, W, shape = self.population.share, self.mean, point.W, point.eta.shape
        flat, weight, Q = point.eta.reshape(-1, shape[2]), normal_nodes(shape[2])[1], shape[2]
        curvature = self.family.curvature(flat)
        blocks = np.stack([curvature.between(q, r) for q in range(Q) for r in range(Q)], axis=1)
        mean = np.einsum("jgq,g->jq", self.family.mean(flat).reshape(shape), weight)
        cells = np.einsum("jgqr,g->jqr", blocks.reshape(*shape, Q), weight)
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


@cache
def normal_nodes(Q: int) -> tuple[Float, Float]:
    """Return nodes (g, Q) of the standard normal distribution and their weights (g,)."""
    if Q == 1:
        x, weight = np.polynomial.hermite_e.hermegauss(NODES)
        return x[:, None], weight / weight.sum()
    half = np.random.default_rng(0).standard_normal((max(PAIRS, 2 * Q), Q))
    half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / len(half))).T
    return np.vstack([half, -half]), np.full(2 * len(half), 0.5 / len(half))
