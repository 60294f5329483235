"""Ridge-penalised generalised linear models by Newton's method, warm-started, with a line search.

An engine gives risk, gradient and Hessian for parameters θ of some columns (see ``statistics/engines.py``); the ridge
λ/2 ‖θ_{1:}‖², which leaves out the intercept, is added here.

If a Hessian is expensive, its factor is kept as long as steps with it reduce the gradient quickly: a gradient costs
two products with the rows, a Hessian k of them. Large systems of several scores are solved by conjugate gradients,
preconditioned by the blocks of H that belong to one score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from budgetline.arrays import Float
from budgetline.messages import warn
from budgetline.statistics.engines import Engine, Ints, Point

Solver = Callable[[Float], Float]
"""Maps a gradient to H⁻¹ gradient, both of the shape of θ."""

MAX_STEPS, MAX_HALVINGS = 200, 40
DIRECT_SIZE = 1500
"""Systems of several scores are solved by conjugate gradients above this size."""
CHEAP = 10**7
"""Below this many multiplications a Hessian is cheap."""
STALE = 0.2
"""A step must bring the gradient down to this share, or the next one gets a fresh Hessian."""


@dataclass(frozen=True)
class Fit:
    """A model: columns (k,) of Z, the first being 0; θ (k, Q); λ; the engine's point at θ; risk with the ridge."""

    columns: Ints
    theta: Float
    alpha: float
    point: Point
    risk: float

    @classmethod
    def at(cls, columns: Ints, theta: Float, alpha: float, point: Point) -> Fit:
        """Return the model at a point."""
        return cls(columns, theta, alpha, point, point.risk + alpha / 2 * float(np.vdot(theta[1:], theta[1:])))

    def widened(self, columns: Ints) -> Fit:
        """Return the same model over columns that begin with its own."""
        more = np.zeros((columns.size - self.columns.size, self.theta.shape[1]))
        return Fit(columns, np.vstack([self.theta, more]), self.alpha, self.point, self.risk)

    @cached_property
    def slopes(self) -> Float:
        """Minus the gradient of the risk without the ridge, for all columns of X, shape (D, Q)."""
        return self.point.gradient(None)

    def gradient(self) -> Float:
        """Return the gradient of the risk, shape (k, Q)."""
        gradient = -self.point.gradient(self.columns)
        gradient[1:] += self.alpha * self.theta[1:]
        return gradient

    @cached_property
    def factor(self) -> tuple[Float, bool]:
        """The Cholesky factor of the Hessian."""
        return factored(self.hessian())

    def hessian(self, score: int | None = None) -> Float:
        """Return the Hessian of the risk, shape (kQ, kQ), or only the part (k, k) of one score."""
        H = self.point.hessian(self.columns, score)
        return with_ridge(H, self.alpha, len(H) // self.columns.size)


def minimise(engine: Engine, start: Fit, columns: Ints, tol: float) -> Fit:
    """Minimise the risk over columns that begin with those of the start, until no entry of the gradient exceeds tol.

    The search also ends when rounding allows no further progress. It warns when neither happens, as with separable
    classes and λ = 0.
    """
    fit = start.widened(columns)
    # Newton's method squares the error: with a Hessian available, one step from here ends well below tol
    enough = max(tol, min(tol, 1.0) ** 0.85) if engine.eager else tol
    solver: Solver | None = None
    fresh, size, previous = False, np.inf, np.inf
    for _ in range(MAX_STEPS):
        gradient = fit.gradient()
        size = float(np.abs(gradient).max())
        if size <= enough or (fresh and size > 0.9 * previous and size <= 1e3 * tol):
            return _polished(engine, fit, gradient, solver)
        fresh = solver is None or engine.eager or size > STALE * previous
        if solver is None or fresh:
            solver = _solver(engine, fit)
        accepted = _search(engine, fit, gradient, -solver(gradient))
        if accepted is not None:
            fit, previous = accepted, size
        elif fresh:
            break
        else:
            solver, previous = None, np.inf
    warn(
        f"a stage did not converge (alpha={fit.alpha:g}, gradient {size:.1g}): the classes may be separable, so that "
        "the coefficients have no finite optimum. Raise alpha.",
        ConvergenceWarning,
    )
    return fit


def _search(engine: Engine, fit: Fit, gradient: Float, step: Float) -> Fit | None:
    """Halve the step until the risk falls enough, up to rounding; None if it never does."""
    slope, length = float(np.vdot(gradient, step)), 1.0
    for _ in range(MAX_HALVINGS):
        theta = fit.theta + length * step
        new = Fit.at(fit.columns, theta, fit.alpha, engine.at(fit.columns, theta))
        if new.risk <= fit.risk + 1e-4 * length * slope + 1e-14 * (1 + abs(fit.risk)):
            return new
        length /= 2
    return None


def _polished(engine: Engine, fit: Fit, gradient: Float, solver: Solver | None) -> Fit:
    """Take one more step: at the tolerance, Newton's method still gains digits at almost no cost."""
    if solver is None or engine.eager or engine.n_rows * fit.columns.size**2 <= CHEAP:
        solver = _solver(engine, fit)
    theta = fit.theta - solver(gradient)
    new = Fit.at(fit.columns, theta, fit.alpha, fit.point.near(fit.columns, theta))
    return new if new.risk <= fit.risk else Fit(fit.columns, theta, fit.alpha, new.point, fit.risk)


def _solver(engine: Engine, fit: Fit) -> Solver:
    if fit.theta.shape[1] > 1 and fit.theta.size > DIRECT_SIZE and not engine.eager:
        return _conjugate_gradients(fit)
    factor = fit.factor
    return lambda gradient: cho_solve(factor, gradient.ravel(), check_finite=False).reshape(gradient.shape)


def _conjugate_gradients(fit: Fit) -> Solver:
    """Return a solver that leaves a small part of the gradient, smaller near the optimum."""
    shape, size = fit.theta.shape, fit.theta.size
    factors = [factored(fit.hessian(q)) for q in range(shape[1])]

    def multiply(p: Float) -> Float:
        V = p.reshape(shape)
        product = fit.point.product(fit.columns, V)
        product[1:] += fit.alpha * V[1:]
        return product.ravel()

    def precondition(residual: Float) -> Float:
        scores = zip(factors, residual.reshape(shape).T, strict=True)
        return np.column_stack([cho_solve(factor, score, check_finite=False) for factor, score in scores]).ravel()

    H, M = (LinearOperator((size, size), matvec=f, dtype=np.float64) for f in (multiply, precondition))

    def solve(gradient: Float) -> Float:
        part = min(1e-2, float(np.linalg.norm(gradient)) ** 0.5)
        return np.asarray(cg(H, gradient.ravel(), rtol=part, maxiter=size, M=M)[0]).reshape(shape)

    return solve


def with_ridge(H: Float, alpha: float, first: int = 0) -> Float:
    """Add the ridge to the diagonal of H (…, m, m), beginning with one of its entries."""
    rest = np.arange(first, H.shape[-1])
    H[..., rest, rest] += alpha
    return H


def factored(H: Float) -> tuple[Float, bool]:
    """Return the Cholesky factor of H; where it is singular (λ = 0), a little damping keeps the steps in its range."""
    diagonal = np.diag(H).copy()
    damping = 0.0
    for _ in range(20):
        try:
            c, lower = cho_factor(H + damping * np.eye(len(H)), check_finite=False)
            if np.all(np.diag(c) ** 2 > 1e-13 * diagonal):
                return c, lower
        except np.linalg.LinAlgError:
            pass
        damping = 10 * damping if damping else 1e-11 * float(diagonal.max()) + 1e-300
    raise np.linalg.LinAlgError("the Hessian is not finite or not positive semidefinite: is φ convex?")
