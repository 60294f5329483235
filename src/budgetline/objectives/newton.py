"""Ridge-penalised generalised linear models by Newton's method, warm-started, with a line search.

An engine gives risk, gradient and Hessian for parameters θ of some columns (see ``statistics/engines.py``); the ridge
λ/2 ‖θ_{1:}‖², which leaves out the intercept, is added here.

If a Hessian is expensive, its factor serves many steps and stages. It grows by the columns that are added, BFGS updates
correct it within a stage, and it is computed afresh only when that is expected to save more passes over the rows than
it costs. Large systems of several scores are solved by conjugate gradients, preconditioned by the blocks of H that
belong to one score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotri
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from budgetline.arrays import Float
from budgetline.messages import warn
from budgetline.statistics.engines import Engine, Ints, Point
from budgetline.statistics.lagged import LaggedHessian

MAX_STEPS, MAX_HALVINGS = 200, 40
SCREEN = 10.0
"""A fit that would have to gain more than this many times what a Newton step promises is not worth finishing."""
DIRECT_SIZE = 1500
"""Systems of several scores are solved by conjugate gradients above this size."""
COLUMNS_PER_PASS = 48
"""The Hessian of this many columns takes about as long as one pass for risk and gradient (39 on 2 cores, 200 on 16)."""
RENEWAL_PASSES = 2.0
"""Collecting the rows of which a Hessian is renewed takes about as long as so many passes, besides their products."""
FACTOR_PASSES = 0.04
"""Factoring a Hessian of k parameters takes as long as this many passes, times k² and divided by the rows."""
COLUMNS_PER_BLOCK = 60
"""Inverting the blocks of all scores takes as long as one product with the Hessian per this many parameters."""
PROGRESS = 0.8
"""A step that shrinks the gradient to this part or less makes progress."""
SMALL_STEP = 1e-3
"""Steps up to this part of the largest coefficient are taken without a line search, once the gradient is small."""
CLOSE, MOST_LAST_STEPS = 1e-9, 4
"""Last steps are taken while they exceed this part of the largest coefficient; there are at most so many."""
SINGLE = 1e7
"""Inverses of blocks with a smaller condition number are kept in single precision."""
ROUNDING = 1e-14
"""Two risks, of which the larger is about 1, may differ by so much without a meaning."""
SOUND = 1e-6
"""A factor does not grow by columns of which less than this share is new: that share may be wrong altogether."""

Pair = tuple[Float, Float]
"""A step and the change of the gradient along it."""


class Metric(Protocol):
    """An approximation of the Hessian of a fit, to solve with."""

    @property
    def stale(self) -> bool:
        """Whether it is known to be out of date."""

    def solve(self, fit: Fit, gradient: Float, part: float) -> Float:
        """Return about H⁻¹ gradient, both of the shape of θ; about this part of the gradient may be left."""

    def grown(self, fit: Fit) -> Metric | None:
        """Return the metric of a fit over more columns, or None if there is no good one."""


@dataclass(frozen=True)
class Fit:
    """A model: columns (k,) of Z, the first being 0; θ (k, Q); λ; the engine's point at θ.

    ``metric`` belongs to the Hessian at an earlier point, if there is one. The risk is known to be at most ``most``.
    """

    columns: Ints
    theta: Float
    alpha: float
    point: Point
    metric: Metric | None = None
    most: float = np.inf

    @property
    def risk(self) -> float:
        """The risk with the ridge; rounding does not raise it above ``most``."""
        return min(self.point.risk + self.alpha / 2 * float(np.vdot(self.theta[1:], self.theta[1:])), self.most)

    def widened(self, columns: Ints) -> Fit:
        """Return the same model over columns that begin with its own."""
        more = np.zeros((columns.size - self.columns.size, self.theta.shape[1]))
        return replace(self, columns=columns, theta=np.vstack([self.theta, more]))

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

    def factor(self, past: LaggedHessian | None = None) -> Factor:
        """Return the Cholesky factor of the Hessian; of about the Hessian, if there is one to renew."""
        lagged = self.point.renewed(self.columns, past)
        H = with_ridge(lagged.H.copy(), self.alpha, len(lagged.H) // self.columns.size)
        return Factor(factored(H), lagged)

    def hessian(self, score: int | None = None) -> Float:
        """Return the Hessian of the risk, shape (kQ, kQ), or only the part (k, k) of one score."""
        H = self.point.hessian(self.columns, score)
        return with_ridge(H, self.alpha, len(H) // self.columns.size)


@dataclass(frozen=True)
class Factor:
    """The factor U of a Hessian U'U, perhaps at an earlier point; ``past`` is that of its first columns."""

    U: Float
    past: LaggedHessian
    stale = False

    def solve(self, fit: Fit, gradient: Float, part: float) -> Float:
        """Solve with U'U."""
        half = dtrsv(self.U, gradient.ravel(), trans=1)  # two steps are faster than LAPACK's solution of one system
        return np.asarray(dtrsv(self.U, half, overwrite_x=True)).reshape(gradient.shape)

    def grown(self, fit: Fit) -> Factor | None:
        """Append the columns that the fit has more, with their products at its point.

        The rest is scaled as the entry of the intercept, the mean curvature, has changed.
        """
        known, Q = len(self.U), fit.theta.shape[1]
        level = float(np.trace(fit.point.hessian(fit.columns[:1])) / (self.U[:Q, :Q] ** 2).sum())
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
        if np.any(np.diag(corner) ** 2 <= SOUND * np.diag(block)):
            return None
        U = np.zeros((known + len(block), known + len(block)), order="F")
        U[:known, :known], U[:known, known:], U[known:, known:] = base, K, corner.T
        return Factor(U, self.past)


class ScoreInverses:
    """Conjugate gradients, preconditioned by the inverses of the blocks of one score, perhaps of an earlier point.

    Large inverses are kept in single precision where that is enough for a preconditioner.
    """

    def __init__(self, fit: Fit) -> None:
        inverses, condition = [], 0.0
        for q in range(fit.theta.shape[1]):
            H = fit.hessian(q)
            inverse, _ = dpotri(factored(H))  # only its upper triangle
            condition = max(condition, float(np.trace(H) * np.trace(inverse)))
            inverses.append(np.triu(inverse) + np.triu(inverse, 1).T)
        self._inverses = np.array(inverses, dtype=np.float32 if condition < SINGLE else np.float64)
        self._counts: list[int] = []

    @property
    def stale(self) -> bool:
        """Whether the solutions have taken so many products more than the first one that new inverses are cheaper."""
        wasted = sum(self._counts) - len(self._counts) * min(self._counts, default=0)
        return wasted > self._inverses[:, 0].size / COLUMNS_PER_BLOCK

    def solve(self, fit: Fit, gradient: Float, part: float) -> Float:
        """Solve with the Hessian of the fit; leave a part of the gradient."""
        shape, size, count = fit.theta.shape, fit.theta.size, 0

        def multiply(p: Float) -> Float:
            nonlocal count
            count += 1
            V = p.reshape(shape)
            product = fit.point.product(fit.columns, V)
            product[1:] += fit.alpha * V[1:]
            return product.ravel()

        def precondition(residual: Float) -> Float:
            scores = residual.reshape(shape).T.astype(self._inverses.dtype)
            return np.column_stack([A @ r for A, r in zip(self._inverses, scores, strict=True)]).ravel()

        H, M = (LinearOperator((size, size), matvec=f, dtype=np.float64) for f in (multiply, precondition))
        found = np.asarray(cg(H, gradient.ravel(), rtol=part, maxiter=size, M=M)[0]).reshape(shape)
        self._counts.append(count)
        return found

    def grown(self, fit: Fit) -> None:
        """Begin again."""


def minimise(
    engine: Engine, start: Fit, columns: Ints, tol: float, hopeless: Callable[[float], bool] | None = None
) -> Fit:
    """Minimise the risk over columns that begin with those of the start, until no entry of the gradient exceeds tol.

    The search also ends when rounding allows no further progress. It warns when neither happens, as with separable
    classes and λ = 0. Once it converges, it gives up if ``hopeless`` says so of a risk far below the one it promises.
    """
    fit = start.widened(columns)
    # Newton's method squares the error: with a Hessian available, one step from here ends well below tol
    enough = max(tol, min(tol, 1.0) ** 0.85) if engine.eager else tol
    known = start.metric
    metric = (
        None if known is None or _large(fit) or not _grows(engine, fit, known, hopeless is None) else known.grown(fit)
    )
    pairs: list[Pair] = []
    fresh, size, previous, before, served = False, np.inf, np.inf, 0.0, 0
    for _ in range(MAX_STEPS):
        size = float(np.abs(fit.gradient).max())
        stuck = fresh and size > 0.9 * previous and size <= 1e3 * tol
        if size <= enough or stuck:
            polished = _polished(engine, fit, metric, pairs, size > tol / 10)
            if polished is not None or size <= tol or stuck:
                return replace(polished or replace(fit, metric=metric), most=start.risk)
        if hopeless is not None and metric is not None:
            promised = float(np.vdot(fit.gradient, _solved(metric, pairs, fit, 0.1))) / 2
            if promised <= 0.1 * before and hopeless(fit.risk - SCREEN * promised):
                return fit
            before = promised
        fresh = (
            metric is None or metric.stale or _worthwhile(engine, fit, metric, size / previous, size / enough, served)
        )
        whole = fresh and known is None
        if metric is None or fresh:
            metric, pairs, served = _metric(engine, fit, known), [], 0
            known = metric
        part = max(min(0.1, (size / previous) ** 2 or 0.1), 0.03 * tol / size)  # as exact as the next gradient is small
        accepted = _search(engine, fit, -_solved(metric, pairs, fit, part))
        if accepted is not None:
            pair = accepted.theta - fit.theta, accepted.gradient - fit.gradient
            if isinstance(metric, Factor) and float(np.vdot(*pair)) > 0:  # others are rounding
                pairs.append(pair)
            fit, previous, served = accepted, size, served + 1
        elif whole:
            break
        else:
            metric, known, previous = None, None, np.inf
    warn(
        f"a stage did not converge (alpha={fit.alpha:g}, gradient {size:.1g}): the classes may be separable, so that "
        "the coefficients have no finite optimum. Raise alpha.",
        ConvergenceWarning,
    )
    return replace(fit, metric=metric, most=start.risk)


def _grows(engine: Engine, fit: Fit, known: Metric, wanted: bool) -> bool:
    """Return whether what is known serves more columns: no row of it has changed, or a new Hessian costs more.

    A fit that may be given up begins with a new one, if that costs little: what it promises is then better known.
    """
    share = _outdated(fit, known) if wanted or _price(engine, fit) >= 2 else 1.0
    return (wanted and share == 0) or _price(engine, fit, share) >= 2


def _outdated(fit: Fit, known: Metric) -> float:
    """Return the share of the rows that would have to be multiplied again to renew what is known."""
    return fit.point.outdated(known.past) if isinstance(known, Factor) else 1.0


def _price(engine: Engine, fit: Fit, share: float = 1.0) -> float:
    """Return how many passes a new Hessian costs, or one of which a share of the rows is multiplied again."""
    if engine.eager:
        return 0.0
    size, whole = fit.theta.size, fit.theta.size / COLUMNS_PER_PASS
    found = min(whole, RENEWAL_PASSES + share * whole) if 0 < share < 1 else whole
    return found + FACTOR_PASSES * size**2 / engine.n_rows


def _worthwhile(engine: Engine, fit: Fit, metric: Metric, ratio: float, excess: float, served: int) -> bool:
    """Return whether a new Hessian is expected to save time, as with it about two more steps would do.

    The last step has brought the gradient down to ``ratio`` (0: no step yet); it has to come down by ``excess``. Two
    steps are a hope: nearly separable classes need many, whatever the Hessian. So a metric that makes progress serves
    for as many steps as a new one costs.
    """
    if engine.eager or ratio == 0:
        return engine.eager
    steps = np.log(excess) / -np.log(ratio) if ratio < 1 else np.inf
    if steps <= 2 + min(RENEWAL_PASSES, _price(engine, fit)):  # whatever a new one costs
        return False
    price = _price(engine, fit, _outdated(fit, metric))
    return bool(steps > price + 2) and (served >= price or ratio > PROGRESS)


def _solved(metric: Metric, pairs: list[Pair], fit: Fit, part: float) -> Float:
    """Return about H⁻¹ gradient: that of the metric, corrected by BFGS updates (the two-loop recursion)."""
    q, lengths = fit.gradient.copy(), []
    for s, y in reversed(pairs):
        lengths.append(float(np.vdot(s, q) / np.vdot(s, y)))
        q -= lengths[-1] * y
    found = metric.solve(fit, q, part)
    for (s, y), length in zip(pairs, reversed(lengths), strict=True):
        found += (length - float(np.vdot(y, found) / np.vdot(s, y))) * s
    return found


def _search(engine: Engine, fit: Fit, step: Float) -> Fit | None:
    """Halve the step until the risk falls enough, up to rounding; None if it never does."""
    slope, length = float(np.vdot(fit.gradient, step)), 1.0
    for _ in range(MAX_HALVINGS):
        theta = fit.theta + length * step
        new = Fit(fit.columns, theta, fit.alpha, engine.at(fit.columns, theta))
        if _falls(fit, new, -1e-4 * length * slope):
            return new
        length /= 2
    return None


def _falls(fit: Fit, new: Fit, least: float) -> bool:
    """Return whether the risk falls by so much from one fit to another, up to rounding.

    As it is convex, it falls at least by minus the new gradient times the step. If that is enough, or if a small step
    halves the gradient, no loss is computed.
    """
    step = new.theta - fit.theta
    falls = least - ROUNDING <= -float(np.vdot(new.gradient, step)) < np.inf
    small = not falls and np.abs(step).max() <= SMALL_STEP * np.abs(fit.theta).max()
    if falls or (small and np.abs(new.gradient).max() <= 0.5 * np.abs(fit.gradient).max()):
        return True
    return new.risk <= fit.risk - least + ROUNDING * (1 + abs(fit.risk))


def _polished(engine: Engine, fit: Fit, metric: Metric | None, pairs: list[Pair], needed: bool) -> Fit | None:
    """Take last steps if needed, or if they cost little: at the tolerance, Newton's method still gains digits.

    There are several if the metric is out of date, until one would be below ``CLOSE``: the gradient is small, but where
    the curvature is small, too, the coefficients may be off. Steps that are not small are not taken (None if there is
    no other): their optimum is far away, as with separable classes and λ = 0.
    """
    best: Fit | None = None
    if metric is None or engine.eager or fit.theta.size < COLUMNS_PER_PASS:  # a new Hessian costs little
        metric, pairs = _metric(engine, fit), []
    elif not needed:
        best = replace(fit, metric=metric)
        if not isinstance(metric, Factor):  # to find a step takes products with the Hessian
            return best
    for _ in range(MOST_LAST_STEPS):
        step = _solved(metric, pairs, fit, 1e-2)
        size, largest = float(np.abs(step).max()), float(np.abs(fit.theta).max())
        if size > SMALL_STEP * largest or (best is not None and size <= CLOSE * largest):
            break
        theta = fit.theta - step
        new = Fit(fit.columns, theta, fit.alpha, fit.point.near(fit.columns, theta), metric)
        if not _falls(fit, new, 0.0):
            break
        best = fit = new
        if engine.eager:
            break
    return best


def _metric(engine: Engine, fit: Fit, known: Metric | None = None) -> Metric:
    """Return the metric of the Hessian at a fit; of about that Hessian, if one is known that can be renewed."""
    if _large(fit) and not engine.eager:
        return ScoreInverses(fit)
    return fit.factor(known.past if isinstance(known, Factor) else None)


def _large(fit: Fit) -> bool:
    return fit.theta.shape[1] > 1 and fit.theta.size > DIRECT_SIZE


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
