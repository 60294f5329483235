"""Ridge-penalised generalised linear models by Newton's method, warm-started, with a line search.

An engine gives risk, gradient and Hessian for parameters θ of some columns (see ``glm/engines.py``). The ridge
λ/2 ‖θ_{1:}‖², which leaves out the intercept, is added here.

A step solves with a *metric*, an approximation of the Hessian. How good it has to be depends on what a Hessian costs:

1. *Few parameters, or a source, whose passes bring the Hessian along.* Every step has a new, exact Hessian.
2. *Many parameters in memory.* The Cholesky factor of one Hessian serves many steps and stages. At the beginning of a
   stage it grows by the new columns; BFGS updates correct it after every step. When the last step shrank the gradient
   so little that many more would follow, the factor is replaced by that of a Hessian which is updated in part
   (``glm/partial_hessian.py``).
3. *Many parameters of several scores.* Steps are found by conjugate gradients on products with the Hessian,
   preconditioned by the blocks of H that belong to one score.

The search ends where no entry of the gradient exceeds a tolerance, and then takes last steps until these are negligible
compared with the coefficients: where the curvature is small, a small gradient alone leaves coefficients open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotri
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from budgetline.arrays import Float, Positions
from budgetline.glm.engines import Engine, Point
from budgetline.messages import warn

DIRECT_SIZE = 1500
"""Systems of several scores with more parameters are solved by conjugate gradients."""
WITHIN = 0.15
"""An updated Hessian is exact up to this part: smaller values multiply more rows, larger ones take more steps. For the
rows that it saves see ``partial_hessian.py``."""
PATIENCE = 6
"""A factor is replaced when more steps than this are expected with it. It is the first value tried: sequences of
``benchmarks/glm.py`` took 0.82 to 0.99 times the CPU time of pricing Hessians in passes."""
SMALL_STEP = 1e-3
"""Steps up to this part of the largest coefficient may be taken without computing the risk: two thirds of the passes do
without it."""
CLOSE = 1e-9
"""Last steps are taken while they exceed this part of the largest coefficient. Without them, coefficients of e-mails
with splines and alpha=1e-5 were off by 1e-7."""

MAX_STEPS = 200
ROUNDING = 50 * float(np.finfo(np.float64).eps)
"""Two risks of about 1 may differ by this much because of rounding."""

StepPair = tuple[Float, Float]
"""A step and the change of the gradient along it."""


@dataclass(frozen=True)
class GlmFit:
    """A model: columns (k,) of Z, the first being 0; θ (k, Q); λ; the engine's point at θ.

    ``metric`` belongs to the Hessian at an earlier point, if there is one.
    """

    columns: Positions
    theta: Float
    alpha: float
    point: Point
    metric: StepMetric | None = None

    @cached_property
    def risk(self) -> float:
        """The risk with the ridge."""
        return self.point.risk + self.alpha / 2 * float(np.vdot(self.theta[1:], self.theta[1:]))

    @cached_property
    def slopes(self) -> Float:
        """Minus the gradient of the risk without the ridge, for all columns of X, shape (D, Q)."""
        return self.point.gradient(None)

    @cached_property
    def gradient(self) -> Float:
        """The gradient of the risk, shape (k, Q)."""
        gradient = -self.point.gradient(self.columns)
        gradient[1:] += self.alpha * self.theta[1:]
        return gradient

    @property
    def largest(self) -> float:
        """The largest entry of the gradient."""
        return float(np.abs(self.gradient).max())

    def hessian(self, score: int | None = None, within: float = 0.0) -> Float:
        """Return the Hessian of the risk, shape (kQ, kQ), or only the part (k, k) of one score."""
        H = self.point.hessian(self.columns, score, within)
        return with_ridge(H, self.alpha, len(H) // self.columns.size)

    def widened(self, columns: Positions) -> GlmFit:
        """Return the same model over columns that begin with its own."""
        more = np.zeros((columns.size - self.columns.size, self.theta.shape[1]))
        return replace(self, columns=columns, theta=np.vstack([self.theta, more]))

    def moved(self, engine: Engine, step: Float) -> GlmFit:
        """Return the model after a step."""
        theta = self.theta + step
        return replace(self, theta=theta, point=engine.at(self.columns, theta))


@dataclass(frozen=True)
class HessianFactor:
    """The factor U of a Hessian U'U, perhaps of an earlier point."""

    U: Float

    def solve(self, fit: GlmFit, gradient: Float, part: float) -> Float:
        """Solve with U'U."""
        half = dtrsv(self.U, gradient.ravel(), trans=1)  # two steps are faster than LAPACK's solution of one system
        return np.asarray(dtrsv(self.U, half, overwrite_x=True)).reshape(gradient.shape)

    def grown(self, fit: GlmFit) -> HessianFactor | None:
        """Append new columns of the fit, with their products at its point; None if they depend on others.

        The rest is scaled as the entry of the intercept, the mean curvature, has changed.
        """
        known, Q = len(self.U), fit.theta.shape[1]
        mean = sum(float(fit.point.hessian(fit.columns[:1], q)[0, 0]) for q in range(Q))
        level = mean / float((self.U[:Q, :Q] ** 2).sum())
        if not level > 0:
            return None
        base = np.sqrt(level) * self.U
        cross = fit.point.cross(fit.columns, fit.columns[known // Q :])
        K = solve_triangular(base, cross[:known], trans="T", check_finite=False)
        block = with_ridge(cross[known:], fit.alpha)
        try:
            corner = np.linalg.cholesky(block - K.T @ K)
        except np.linalg.LinAlgError:
            return None
        if np.any(np.diag(corner) ** 2 <= 1e-6 * np.diag(block)):  # the little that is new may be wrong altogether
            return None
        U = np.zeros((known + len(block), known + len(block)), order="F")
        U[:known, :known], U[:known, known:], U[known:, known:] = base, K, corner.T
        return HessianFactor(U)


class ScoreInverses:
    """Conjugate gradients, preconditioned by the inverses of the blocks of one score, perhaps of an earlier point."""

    def __init__(self, fit: GlmFit) -> None:
        inverses = []
        for q in range(fit.theta.shape[1]):
            inverse, _ = dpotri(factored(fit.hessian(q)))  # only its upper triangle
            inverses.append(np.triu(inverse) + np.triu(inverse, 1).T)
        self._inverses = np.array(inverses)
        self._counts: list[int] = []

    @property
    def stale(self) -> bool:
        """Whether the last solution took more than three times as many products as the first one."""
        return bool(self._counts) and self._counts[-1] > 3 * self._counts[0]

    def solve(self, fit: GlmFit, gradient: Float, part: float) -> Float:
        """Solve with the Hessian of the fit; about this part of the gradient may be left."""
        shape, size, count = fit.theta.shape, fit.theta.size, 0

        def multiply(p: Float) -> Float:
            nonlocal count
            count += 1
            V = p.reshape(shape)
            product = fit.point.product(fit.columns, V)
            product[1:] += fit.alpha * V[1:]
            return product.ravel()

        def precondition(residual: Float) -> Float:
            scores = residual.reshape(shape).T
            return np.column_stack([A @ r for A, r in zip(self._inverses, scores, strict=True)]).ravel()

        H, M = (LinearOperator((size, size), matvec=f, dtype=np.float64) for f in (multiply, precondition))
        found = np.asarray(cg(H, gradient.ravel(), rtol=part, maxiter=size, M=M)[0]).reshape(shape)
        self._counts.append(count)
        return found

    def grown(self, fit: GlmFit) -> None:
        """Begin again."""


StepMetric = HessianFactor | ScoreInverses


def minimise(
    engine: Engine,
    start: GlmFit,
    columns: Positions,
    tol: float,
    hopeless: Callable[[float, float], bool] | None = None,
) -> GlmFit:
    """Minimise the risk over columns that begin with those of the start, until no entry of the gradient exceeds tol.

    The search also ends when rounding allows no further progress; it warns when neither happens. Once it converges, it
    gives up if ``hopeless`` is true of the risk and of how much the next step promises to lower it.
    """
    fit = start.widened(columns)
    cheap = fit.theta.size <= engine.few
    known = None if cheap or _many_scores(fit) or engine.drift(start.point) > engine.stale else start.metric
    metric: StepMetric | None = None if known is None else known.grown(fit)
    pairs: list[StepPair] = []
    within, previous, before, served, new = WITHIN, np.inf, 0.0, 0, False
    for _ in range(MAX_STEPS):
        size = fit.largest
        stuck = new and 0.9 * previous < size <= 1e3 * tol
        if size <= tol or stuck:
            return _polished(engine, fit, None if cheap else metric, pairs, tol)
        if hopeless is not None and metric is not None:
            promised = float(np.vdot(fit.gradient, _solved(metric, pairs, fit, 0.1))) / 2
            if promised <= 0.1 * before and hopeless(fit.risk, promised):
                return fit
            before = promised
        new = metric is None or cheap or _worn(metric, size / previous, size / tol, served)
        if metric is None or new:
            metric, pairs, served = _metric(engine, fit, 0.0 if cheap else within), [], 0
        part = max(min(0.1, (size / previous) ** 2 or 0.1), 0.03 * tol / size)  # as exact as the next gradient is small
        accepted = _search(engine, fit, -_solved(metric, pairs, fit, part))
        if accepted is not None:
            pair = accepted.theta - fit.theta, accepted.gradient - fit.gradient
            if isinstance(metric, HessianFactor) and float(np.vdot(*pair)) > 0:  # others are rounding
                pairs.append(pair)
            fit, previous, served, within = accepted, size, served + 1, WITHIN
        elif new and (cheap or within == 0):
            break
        else:
            metric, within, previous = None, 0.0, np.inf
    warn(
        f"a stage did not converge (alpha={fit.alpha:g}): the classes, or the order of the rows in their sets, may be "
        "separable, so that the coefficients have no finite optimum. Raise alpha.",
        ConvergenceWarning,
    )
    return replace(fit, metric=metric)


def _metric(engine: Engine, fit: GlmFit, within: float) -> StepMetric:
    """Return the metric of the Hessian at a fit, or of one that is nearly the same."""
    if _many_scores(fit) and fit.theta.size > engine.few:
        return ScoreInverses(fit)
    return HessianFactor(factored(fit.hessian(within=within)))


def _many_scores(fit: GlmFit) -> bool:
    return fit.theta.shape[1] > 1 and fit.theta.size > DIRECT_SIZE


def _worn(metric: StepMetric, ratio: float, excess: float, served: int) -> bool:
    """Return whether too many more steps are expected with a metric, after a step that left ``ratio`` of the gradient.

    The gradient has to come down by ``excess``. Nearly separable classes need many steps whatever the Hessian, so a
    metric that makes progress serves for some steps.
    """
    if isinstance(metric, ScoreInverses) or not served:
        return isinstance(metric, ScoreInverses) and metric.stale
    steps = np.log(excess) / -np.log(ratio) if ratio < 1 else np.inf
    return bool(steps > PATIENCE) and (2 * served >= PATIENCE or ratio > 0.8)


def _solved(metric: StepMetric, pairs: list[StepPair], fit: GlmFit, part: float) -> Float:
    """Return about H⁻¹ gradient: that of the metric, corrected by BFGS updates (the two-loop recursion)."""
    q, lengths = fit.gradient.copy(), []
    for s, y in reversed(pairs):
        lengths.append(float(np.vdot(s, q) / np.vdot(s, y)))
        q -= lengths[-1] * y
    found = metric.solve(fit, q, part)
    for (s, y), length in zip(pairs, reversed(lengths), strict=True):
        found += (length - float(np.vdot(y, found) / np.vdot(s, y))) * s
    return found


def _search(engine: Engine, fit: GlmFit, step: Float) -> GlmFit | None:
    """Halve the step until the risk falls enough, up to rounding; None if it never does."""
    slope = float(np.vdot(fit.gradient, step))
    for length in 0.5 ** np.arange(40):
        new = fit.moved(engine, length * step)
        if _falls(fit, new, -1e-4 * length * slope):
            return new
    return None


def _falls(fit: GlmFit, new: GlmFit, least: float) -> bool:
    """Return whether the risk falls by at least this much from one fit to another, up to rounding.

    As it is convex, it falls at least by minus the new gradient times the step. If that is enough, or if a small step
    halves the gradient, no loss is computed.
    """
    step = new.theta - fit.theta
    if least - ROUNDING <= -float(np.vdot(new.gradient, step)) < np.inf:
        return True
    small = np.abs(step).max() <= SMALL_STEP * np.abs(fit.theta).max()
    if small and new.largest <= 0.5 * fit.largest:
        return True
    return new.risk <= fit.risk - least + ROUNDING * (1 + abs(fit.risk))


def _polished(engine: Engine, fit: GlmFit, metric: StepMetric | None, pairs: list[StepPair], tol: float) -> GlmFit:
    """Take up to four last steps, until one would be below ``CLOSE``; without a metric, one is computed and used once.

    Steps that are not small are not taken: their optimum is far away, as with separable classes and λ = 0. Conjugate
    gradients take none if the gradient is far below the tolerance.
    """
    needed, pairs = metric is None, [] if metric is None else pairs
    metric = metric or _metric(engine, fit, 0.0)
    for _ in range(0 if isinstance(metric, ScoreInverses) and fit.largest <= tol / 10 else 4):
        step = -_solved(metric, pairs, fit, 1e-2)
        size, largest = float(np.abs(step).max()), float(np.abs(fit.theta).max())
        if size > SMALL_STEP * largest or not (needed or size > CLOSE * largest):
            break
        new = fit.moved(engine, step)
        if not _falls(fit, new, 0.0):
            break
        fit, needed = new, False
    return replace(fit, metric=metric)


def with_ridge(H: Float, alpha: float, first: int = 0) -> Float:
    """Add the ridge to the diagonal of H (…, m, m), beginning with one of its entries."""
    rest = np.arange(first, H.shape[-1])
    H[..., rest, rest] += alpha
    return H


def factored(H: Float) -> Float:
    """Return U with U'U = H; where H is singular (λ = 0), a little damping keeps the steps in its range."""
    diagonal = np.diag(H).copy()
    damping = 0.0
    for _ in range(20):
        try:
            # other threads can go on meanwhile, unlike with SciPy's; the transpose is in the order of LAPACK
            U = np.asarray(np.linalg.cholesky(H + damping * np.eye(len(H)) if damping else H)).T
            if np.all(np.diag(U) ** 2 > 1e-13 * diagonal):
                return U
        except np.linalg.LinAlgError:
            pass
        damping = 10 * damping if damping else 1e-11 * float(diagonal.max()) + 1e-300
    raise np.linalg.LinAlgError("the Hessian is not finite or not positive semidefinite: is φ convex?")
