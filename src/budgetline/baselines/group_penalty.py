"""A quadratic with a penalty on the norms of groups: the problem, and its minimiser for one λ.

    min_w  ½ tr(w'Cw) − tr(b'w) + Σ_g κ_g ‖w_g‖_F,        r = b − Cw.

w is optimal iff r_g = κ_g w_g/‖w_g‖ where w_g ≠ 0 and ‖r_g‖ ≤ κ_g where w_g = 0. Once for all κ:

1. Groups that are not penalised are eliminated by a Schur complement, which is exact.
2. Every other group is rotated by the eigenvectors of its block. Norms stay, the blocks become diagonal, and the
   minimiser over one group is w_g = (D + κ/ν)⁻¹ q with q = r_g + D w_g, where ν = ‖w_g‖ solves one scalar equation.

Then two kinds of steps alternate. Groups that are zero and should not be, or the reverse, get the exact minimiser of
their block. Where the objective is smooth, all nonzero groups take Newton steps together, with the Hessian

    H = M ⊗ I_P − Σ_g v_g v_g',    M = C + diag(κ_g/‖w_g‖),    v_g = (κ_g/‖w_g‖³)^½ vec(w_g).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from budgetline.arrays import Float, Mask, Positions
from budgetline.leastsquares.gram import EPS, Gram, SizeClass, size_classes

MAX_ITERATIONS = 300
"""Newton steps for one λ; four are usual."""
SHORTEST = 1e-12
"""No step is shorter than this share of Newton's."""
SETTLED = 0.01
"""After a shortened step, groups may enter when the others violate their conditions by less than this share of it."""
DAMPING = (1e-10, 1e-7, 1e-4)
"""Share of the rank-one parts that is left out of H, to keep it definite if C is singular."""


@dataclass(frozen=True)
class Penalised:
    """The problem in the penalised groups alone, in coordinates in which every block of C is diagonal.

    ``C`` (K, K) and ``b`` (K, P) are those of the penalised columns, and ``spread`` (K,) is the diagonal of C, whose
    blocks are diagonal. Group g has the columns ``starts[g] : ends[g]``; ``group`` (K,) is the group of each column.
    ``total`` is Σ_p var(y_p), ``left`` what the free groups leave of it, ``floor`` (G,) the rounding error of ‖r_g‖.
    ``members`` (G,) are the positions of the penalised groups among all, ``paid`` (D,) marks their columns. The
    coefficients of free columns are ``level − carried @ penalised``; ``turns`` are eigenvectors of the blocks of C.
    """

    C: Float
    b: Float
    total: float
    left: float
    starts: Positions
    ends: Positions
    group: Positions
    spread: Float
    floor: Float
    members: Positions
    paid: Mask
    level: Float
    carried: Float
    turns: list[SizeClass]

    @classmethod
    def of(cls, gram: Gram, sizes: Positions, weights: Float) -> Penalised:
        """Eliminate the free groups, whose weights c_g are 0, and rotate the others; one size and weight per group."""
        C, b = gram.C, gram.b
        paid = np.repeat(weights > 0, sizes)
        members = np.flatnonzero(weights > 0)
        # 1. free groups: w_F = C_F⁺ (b_F − C_FA w_A)
        inverse = np.linalg.pinv(C[np.ix_(~paid, ~paid)], rcond=EPS * max(1, paid.size), hermitian=True)
        carried, level = inverse @ C[np.ix_(~paid, paid)], inverse @ b[~paid]
        C_left = C[np.ix_(paid, paid)]
        if carried.size:
            C_left -= C[np.ix_(paid, ~paid)] @ carried
        b_left = b[paid] - carried.T @ b[~paid]
        total = float(gram.target_variance.sum())
        left = max(total - float(np.sum(level * b[~paid])), 0.0)
        # 2. rotate
        sizes, ends = sizes[members], np.cumsum(sizes[members])
        turns = size_classes(sizes, lambda c: np.linalg.eigh(C_left[c[:, :, None], c[:, None, :]])[1])
        C_left = _turned(turns, _turned(turns, C_left).T)
        problem = C_left, _turned(turns, b_left), total, left
        where = ends - sizes, ends, np.repeat(np.arange(members.size), sizes)
        spread = np.maximum(np.diag(C_left), 0.0)
        return cls(*problem, *where, spread, rounding(sizes, total), members, paid, level, carried, turns)

    def coefficients(self, w: Float) -> Float:
        """Return the coefficients of all columns, free ones included, shape (D, P)."""
        coef = np.empty((self.paid.size, w.shape[1]))
        coef[self.paid] = _turned(self.turns, w, back=True)
        coef[~self.paid] = self.level - self.carried @ coef[self.paid]
        return coef

    def rotated(self, coef: Float) -> Float:
        """Return w of coefficients (D, P)."""
        return _turned(self.turns, coef[self.paid])

    def norms(self, w: Float) -> Float:
        """Return ‖w_g‖_F of every group, shape (G,)."""
        return np.sqrt(self.sums(np.einsum("kp,kp->k", w, w)))

    def sums(self, values: Float) -> Float:
        """Add values (K,) up within groups, shape (G,)."""
        return np.add.reduceat(values, self.starts) if self.starts.size else np.zeros(0)

    def gradient(self, w: Float) -> Float:
        """Return r = b − Cw, shape (K, P)."""
        return np.asarray(self.b - self.C @ w)

    def objective(self, w: Float, kappa: Float) -> float:
        """Return ½ tr(w'Cw) − tr(b'w) + Σ_g κ_g ‖w_g‖."""
        return float(np.sum(w * (self.C @ w / 2 - self.b)) + kappa @ self.norms(w))

    def gap(self, w: Float, r: Float, kappa: Float) -> float:
        """Return the duality gap at w for the dual point s·residual, with s such that s‖r_g‖ ≤ κ_g for all groups.

        With ρ = residual of the data augmented by √α I, ρ'y = ρ'ρ + tr(r'w), and the gap is a sum of terms ≥ 0:
        ½(1 − s)² ρ'ρ + Σ_g (κ_g‖w_g‖ − s tr(r_g'w_g)).
        """
        sizes = self.norms(r)
        with np.errstate(divide="ignore", invalid="ignore"):
            s = float(np.min(np.where(sizes > kappa, kappa / sizes, 1.0), initial=1.0))
        fitted = float(np.sum(r * w))
        squares = max(self.left - float(np.sum(self.b * w)) - fitted, 0.0)
        return max(0.5 * (1 - s) ** 2 * squares + float(kappa @ self.norms(w)) - s * fitted, 0.0)

    def violations(self, w: Float, r: Float, kappa: Float) -> Float:
        """Return ‖r_g − κ_g w_g/‖w_g‖‖ of the nonzero groups and max(0, ‖r_g‖ − κ_g) of the others, shape (G,)."""
        norms = self.norms(w)
        pull = np.divide(kappa, norms, out=np.zeros_like(norms), where=norms > 0)
        left = self.norms(r - pull[self.group, None] * w)
        return np.where(norms > 0, left, np.maximum(left - kappa, 0.0))


def rounding(sizes: Positions, total: float) -> Float:
    """Return the rounding error of ‖r_g‖ for groups of these sizes."""
    return np.asarray(64 * EPS * np.sqrt(sizes * total))


def _turned(turns: list[SizeClass], x: Float, *, back: bool = False) -> Float:
    """Rotate the rows of x, group by group: into the eigenvectors of the blocks of C, or back."""
    found = np.empty(x.shape)
    for c in turns:
        found[c.columns] = (c.blocks if back else c.blocks.transpose(0, 2, 1)) @ x[c.columns]
    return found


@dataclass(frozen=True)
class Minimum:
    """The minimiser at one λ: w and r (K, P), the gap, the largest violation relative to κ, and if it converged."""

    w: Float
    r: Float
    gap: float
    violation: float
    converged: bool


def minimise(problem: Penalised, kappa: Float, w: Float, tol: float) -> Minimum:
    """Minimise at one λ, from w."""
    allowed = tol * kappa + problem.floor
    damped = False
    for _ in range(MAX_ITERATIONS):
        r = problem.gradient(w)
        violations = problem.violations(w, r, kappa)
        gap = problem.gap(w, r, kappa)
        converged = bool(np.all(violations <= allowed)) and gap <= tol * problem.total / 2
        if converged:
            break
        # 1. single groups. A group that has just left must not return before the others have converged.
        inside = problem.norms(w) > 0
        leaving = problem.norms(r + problem.spread[:, None] * w) <= kappa
        entering = violations > allowed
        if damped and np.max(violations[inside], initial=0.0) > SETTLED * np.max(violations[~inside], initial=0.0):
            entering[:] = False
        w, r = _block_steps(problem, kappa, w, r, np.flatnonzero(np.where(inside, damped | leaving, entering)))
        # 2. all nonzero groups together
        w, damped = _joint_step(problem, kappa, w, r)
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = float(np.max(np.where(violations > problem.floor, violations / kappa, 0.0), initial=0.0))
    return Minimum(w, r, gap, worst, converged)


def _block_steps(problem: Penalised, kappa: Float, w: Float, r: Float, groups: Positions) -> tuple[Float, Float]:
    """Minimise over single groups, one after another; return w and r."""
    w, r = w.copy(), r.copy()
    for g in groups:
        here = slice(problem.starts[g], problem.ends[g])
        q = r[here] + problem.spread[here, None] * w[here]
        new = _block_minimiser(q, problem.spread[here], float(kappa[g]))
        r -= problem.C[:, here] @ (new - w[here])
        w[here] = new
    return w, r


def _joint_step(problem: Penalised, kappa: Float, w: Float, r: Float) -> tuple[Float, bool]:
    """Take a Newton step in the nonzero groups; return w and whether the step had to be shortened.

    A small group that a full step would reverse limits the step of all others. Then a step without that group is tried
    as well.
    """
    step = _newton_step(problem, kappa, w, r)
    length = _line_search(problem, kappa, w, r, step)
    if length == 1:
        return w + step, not step.any()
    reached = w + length * step
    norms = problem.norms(w)
    turned = problem.sums(np.einsum("kp,kp->k", w, step)) < -(norms**2)
    without = np.where((turned & (norms > 0))[problem.group, None], 0.0, w)
    r = problem.gradient(without)
    step = _newton_step(problem, kappa, without, r)
    without = without + _line_search(problem, kappa, without, r, step) * step
    return min(reached, without, key=lambda x: problem.objective(x, kappa)), True


def _block_minimiser(q: Float, spread: Float, kappa: float) -> Float:
    """Minimise ½ Σ_i d_i ‖w_i‖² − tr(q'w) + κ‖w‖ over w of shape (s, P).

    ν = ‖w‖ solves (Σ_i ‖q_i‖²/(d_i ν + κ)²)^(−½) = 1. The left side is a power mean of affine functions, so concave and
    increasing, and Newton's method from ν = 0 converges from below.
    """
    squares = np.einsum("kp,kp->k", q, q)
    if squares.sum() <= kappa**2:
        return np.zeros_like(q)
    size = 0.0
    for _ in range(100):
        scale = spread * size + kappa
        value = float(np.sum(squares / scale**2))
        slope = float(np.sum(squares * spread / scale**3))
        step = (value**1.5 - value) / slope if slope > 0 else 0.0
        size += step
        if step <= 4 * EPS * size:
            break
    return np.asarray(size * q / (spread * size + kappa)[:, None])


def _newton_step(problem: Penalised, kappa: Float, w: Float, r: Float) -> Float:
    """Return H⁻¹(r − κw/‖w‖) over the nonzero groups, shape (K, P); zero elsewhere, or everywhere if H is singular."""
    step = np.zeros_like(w)
    norms = problem.norms(w)
    active = np.flatnonzero(norms > 0)
    if active.size == 0:
        return step
    columns = np.flatnonzero(norms[problem.group] > 0)
    group = np.searchsorted(active, problem.group[columns])
    pull = (kappa[active] / norms[active])[group]
    M = problem.C[np.ix_(columns, columns)] if columns.size < len(w) else problem.C.copy()
    M[np.arange(columns.size), np.arange(columns.size)] += pull
    V = w[columns] * (np.sqrt(kappa[active] / norms[active] ** 3))[group, None]
    step[columns] = _solved(M, V, group, r[columns] - pull[:, None] * w[columns])
    return step


def _solved(M: Float, V: Float, group: Positions, gradient: Float) -> Float:
    """Return H⁻¹·gradient (K, P) of H = M ⊗ I − Σ v_g v_g', zero if H is singular."""
    P = V.shape[1]
    H, v, group = (np.kron(M, np.eye(P)), V.ravel(), np.repeat(group, P)) if P > 1 else (M, V[:, 0], group)
    rank_one = np.where(group[:, None] == group, np.outer(v, v), 0.0)
    for damping in DAMPING:
        factor, failed = lapack.dpotrf((H - rank_one / (1 + damping)).T)
        if not failed:
            return np.asarray(lapack.dpotrs(factor, gradient.ravel())[0]).reshape(gradient.shape)
    return np.zeros_like(gradient)


def _line_search(problem: Penalised, kappa: Float, w: Float, r: Float, step: Float) -> float:
    """Return 1 if the full step decreases the objective enough (Armijo), else the minimiser over the line.

    The objective changes by t·slope + terms of second order that are ≥ 0 and computed without cancellation:
    ‖w + td‖ − ‖w‖ − t d_∥ = t²‖d_⊥‖²/(‖w + td‖ + ‖w‖ + t d_∥), where d_∥ and d_⊥ are along and across w.
    """
    norms = problem.norms(w)
    inside = norms > 0
    norms, kappa = norms[inside], kappa[inside]
    along = problem.sums(np.einsum("kp,kp->k", w, step))[inside] / norms
    across = np.maximum(problem.norms(step)[inside] ** 2 - along**2, 0.0)
    slope = float(kappa @ along - np.sum(r * step))
    curvature = float(np.sum(step * (problem.C @ step)))
    base = norms + along
    length = np.sqrt(base**2 + across)
    bend = np.where(base > 0, across / np.where(base > 0, length + base, 1.0), length - base)
    if slope + curvature / 2 + float(kappa @ bend) <= 1e-4 * slope:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 2 * EPS * high and high > SHORTEST:
        t = (low + high) / 2
        base = norms + t * along
        length = np.sqrt(base**2 + t**2 * across)
        turned = np.divide(base * along + t * across, length, out=np.zeros_like(base), where=length > 0) - along
        low, high = (t, high) if slope + t * curvature + float(kappa @ turned) < 0 else (low, t)
    return high
