"""Ridge-penalised generalised linear models by Newton's method, warm-started, with a safeguard.

For Z = [1, standardised columns], n × (1 + T), parameters θ of shape (1 + T, Q) and scores η = Zθ,

    r(θ) = Σ ω_i (φ(η_i) − y_i'η_i) + λ/2 ‖θ_{1:}‖²
    ∇r   = Z' diag(ω) (∇φ(η) − y) + λ [0; θ_{1:}]
    H    = Σ ω_i ∇²φ(η_i) ⊗ z_i z_i' + λ diag(0, 1, …, 1)

The intercept, row 0 of θ, is not penalised. The factor of H is kept as long as steps with it reduce the gradient
quickly: a gradient costs two passes over Z, a Hessian T of them. Large systems of several scores are solved by
conjugate gradients, preconditioned by the blocks of H that belong to one score.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

from budgetline.data.rows import CHUNK_BYTES
from budgetline.objectives.families import Family
from budgetline.threads import in_threads

Float = NDArray[np.float64]

MAX_ITERATIONS = 200
DIRECT_SIZE = 1500
"""Systems of several scores are solved by conjugate gradients above this size."""
CHEAP = 10**7
"""Below this many multiplications a Hessian costs next to nothing."""
STALE = 0.2
"""A step must bring the gradient down to this share, or the next one gets a fresh Hessian."""


@dataclass(frozen=True)
class Problem:
    """A family with its targets (n, Q), weights (n,) that sum to one, ridge constant and tolerance."""

    family: Family
    targets: Float
    weight: Float
    alpha: float
    tol: float

    def risk(self, theta: Float, eta: Float) -> float:
        """Return r(θ)."""
        loss = self.family.value(eta) - np.einsum("nq,nq->n", self.targets, eta)
        return float(self.weight @ loss + self.alpha / 2 * np.sum(theta[1:] ** 2))

    def residual(self, eta: Float) -> Float:
        """Return ω(y − ∇φ(η)), shape (n, Q); Z' of it is minus the gradient of the unpenalised risk."""
        return np.asarray(self.weight[:, None] * (self.targets - self.family.mean(eta)))

    def curvature(self, eta: Float) -> Float:
        """Return ω∇²φ(η), shape (n, Q, Q)."""
        return np.asarray(self.weight[:, None, None] * self.family.curvature(eta))


@dataclass(frozen=True)
class Fit:
    """A minimiser: θ (1 + T, Q), its scores (n, Q) and its risk."""

    theta: Float
    eta: Float
    risk: float


def minimise(problem: Problem, Z: Float, start: Fit) -> Fit:
    """Minimise r over θ from a start, whose θ has as many rows as Z has columns.

    Stops when no entry of the gradient exceeds ``problem.tol``, or when rounding allows no further progress. Warns when
    neither happens, as with separable classes and λ = 0.
    """
    theta, eta, risk = start.theta, start.eta, start.risk
    penalty = np.full((len(theta), 1), problem.alpha)
    penalty[0] = 0
    solver: Direct | ConjugateGradients | None = None
    fresh = False
    previous = np.inf
    for _ in range(MAX_ITERATIONS):
        gradient = penalty * theta - transposed_product(Z, problem.residual(eta))
        size = float(np.abs(gradient).max())
        if size <= problem.tol or (fresh and size > 0.9 * previous and size <= 1e3 * problem.tol):
            return _polished(problem, Z, Fit(theta, eta, risk), gradient, solver)
        fresh = solver is None or size > STALE * previous
        if solver is None or fresh:
            solver = _solver(Z, problem.curvature(eta), problem.alpha)
        step = -solver.solve(gradient)
        along = product(Z, step)
        accepted = _search(problem, theta, eta, risk, step, along, float(np.sum(gradient * step)))
        if accepted is None:
            if fresh:
                break
            solver, previous = None, np.inf
            continue
        theta, eta, risk = accepted
        previous = size
    _warn(problem, eta)
    return Fit(theta, eta, risk)


def _polished(problem: Problem, Z: Float, fit: Fit, gradient: Float, solver: Direct | ConjugateGradients | None) -> Fit:
    """Take one more step: a gradient at the tolerance leaves digits that Newton's method gives away for nothing."""
    if solver is None or Z.size * Z.shape[1] <= CHEAP:
        solver = _solver(Z, problem.curvature(fit.eta), problem.alpha)
    step = -solver.solve(gradient)
    theta, eta = fit.theta + step, fit.eta + product(Z, step)
    return Fit(theta, eta, min(problem.risk(theta, eta), fit.risk))


def _search(
    problem: Problem, theta: Float, eta: Float, risk: float, step: Float, along: Float, slope: float
) -> tuple[Float, Float, float] | None:
    """Halve the step until the risk falls enough, up to rounding; None if it never does."""
    length = 1.0
    for _ in range(40):
        new_theta, new_eta = theta + length * step, eta + length * along
        with np.errstate(over="ignore", invalid="ignore"):
            new = problem.risk(new_theta, new_eta)
        if new <= risk + 1e-4 * length * slope + 1e-14 * (1 + abs(risk)):
            return new_theta, new_eta, new
        length /= 2
    return None


def product(Z: Float, V: Float) -> Float:
    """Return Z·V, rows dealt to threads."""
    out = np.empty((len(Z), V.shape[1]))

    def lane(slices: list[slice]) -> None:
        for s in slices:
            np.matmul(Z[s], V, out=out[s])

    in_threads(lane, _slices(Z))
    return out


def transposed_product(Z: Float, E: Float) -> Float:
    """Return Z'·E, rows dealt to threads."""
    return np.asarray(sum(in_threads(lambda slices: sum(Z[s].T @ E[s] for s in slices), _slices(Z))))


def weighted_gram(Z: Float, weight: Float) -> Float:
    """Return Z' diag(weight) Z, rows dealt to threads; weights may be of either sign."""
    positive = bool(np.all(weight >= 0))

    def lane(slices: list[slice]) -> Float:
        total = np.zeros((Z.shape[1], Z.shape[1]))
        for s in slices:
            if positive:
                block = np.ascontiguousarray(Z[s]) * np.sqrt(weight[s])[:, None]
                total += block.T @ block
            else:
                total += Z[s].T @ (weight[s][:, None] * Z[s])
        return total

    return np.asarray(sum(in_threads(lane, _slices(Z))))


def hessian(Z: Float, curvature: Float, alpha: float) -> Float:
    """Return H, shape (Q(1 + T), Q(1 + T)), rows ordered as θ.ravel()."""
    width, Q = Z.shape[1], curvature.shape[1]
    H = np.empty((width, Q, width, Q))
    for q in range(Q):
        for r in range(q + 1):
            H[:, q, :, r] = H[:, r, :, q] = weighted_gram(Z, curvature[:, q, r])
        H[np.arange(1, width), q, np.arange(1, width), q] += alpha
    return H.reshape(width * Q, width * Q)


class Direct:
    """Newton steps from the Cholesky factor of H."""

    def __init__(self, Z: Float, curvature: Float, alpha: float) -> None:
        self._factor = factored(hessian(Z, curvature, alpha))

    def solve(self, gradient: Float) -> Float:
        """Return H⁻¹ gradient, both of the shape of θ."""
        return np.asarray(cho_solve(self._factor, gradient.ravel(), check_finite=False)).reshape(gradient.shape)


class ConjugateGradients:
    """Inexact Newton steps from products with H, preconditioned by its blocks of one score each."""

    def __init__(self, Z: Float, curvature: Float, alpha: float) -> None:
        self._Z, self._curvature, self._alpha = Z, curvature, alpha
        self._blocks = []
        for q in range(curvature.shape[1]):
            block = weighted_gram(Z, curvature[:, q, q])
            block[np.arange(1, len(block)), np.arange(1, len(block))] += alpha
            self._blocks.append(factored(block))

    def solve(self, gradient: Float) -> Float:
        """Return an x with ‖Hx − gradient‖ a small part of ‖gradient‖, the smaller the nearer the optimum."""
        target = min(1e-2, float(np.linalg.norm(gradient)) ** 0.5) * float(np.linalg.norm(gradient))
        x, residual = np.zeros_like(gradient), gradient.copy()
        z = self._precondition(residual)
        p, rho = z, float(np.sum(residual * z))
        for _ in range(gradient.size):
            Hp = self._multiply(p)
            step = rho / float(np.sum(p * Hp))
            x, residual = x + step * p, residual - step * Hp
            if np.linalg.norm(residual) <= target:
                break
            z = self._precondition(residual)
            rho, before = float(np.sum(residual * z)), rho
            p = z + (rho / before) * p
        return x

    def _multiply(self, p: Float) -> Float:
        along = np.einsum("nqr,nr->nq", self._curvature, product(self._Z, p))
        Hp = transposed_product(self._Z, along)
        Hp[1:] += self._alpha * p[1:]
        return Hp

    def _precondition(self, residual: Float) -> Float:
        columns = zip(self._blocks, residual.T, strict=True)
        return np.column_stack([cho_solve(block, column, check_finite=False) for block, column in columns])


def _solver(Z: Float, curvature: Float, alpha: float) -> Direct | ConjugateGradients:
    small = curvature.shape[1] == 1 or Z.shape[1] * curvature.shape[1] <= DIRECT_SIZE
    return (Direct if small else ConjugateGradients)(Z, curvature, alpha)


def _slices(Z: Float) -> list[slice]:
    size = max(Z.shape[1], CHUNK_BYTES // (8 * Z.shape[1]))
    return [slice(start, start + size) for start in range(0, len(Z), size)]


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


def _warn(problem: Problem, eta: Float) -> None:
    warnings.warn(
        f"a stage did not converge (alpha={problem.alpha:g}, largest score {np.abs(eta).max():.3g}): the classes may "
        "be separable, so that the coefficients have no finite optimum. Raise alpha.",
        ConvergenceWarning,
        stacklevel=2,
    )
