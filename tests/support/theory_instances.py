"""Small problems given by their moments, on which every statement can be checked against all 2^J subsets.

A ``Batch`` holds N problems that share their groups, so that tables over all subsets, greedy runs and bounds
are one vectorised pass. ``batch[i]`` is an ``Instance``; ``Instance.data()`` is a data matrix with exactly
those moments, on which any implementation can be run; ``worst_ratio`` judges any order, whoever found it.

Every ratio is bound / achieved: a statement holds on an instance when its ratio is at most 1 + ``ROUNDING``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDING = 1e-7  # what a ratio may exceed 1 by; condition numbers are kept below about 1e6
FLOOR = 1e-12  # added to the denominator of a ratio, relative to F of everything

GROUP_SIZES = (
    (1, 1),
    (1, 1, 1),
    (2, 2),
    (1, 2, 3),
    (1, 1, 1, 1, 1),
    (2, 1, 2, 1),
    (3, 1, 2, 2, 1),
    (1, 2, 1, 1, 2, 1),
    (1, 1, 1, 1, 1, 1, 1),
)


@dataclass(frozen=True)
class Instance:
    """One problem: X'X/n (unit diagonal), X'Y/n, groups, costs and the ridge constant."""

    sigma: Array  # (D, D)
    b: Array  # (D, P)
    groups: tuple[tuple[int, ...], ...]
    costs: Array  # (J,)
    alpha: float

    def data(self, *, noise: float = 1.0, seed: int = 0) -> tuple[Array, Array]:
        """X (n, D), Y (n, P) whose centred moments are exactly ``sigma`` and ``b``."""
        D, P = self.b.shape
        n = 3 * (D + P) + 2
        Z = np.random.default_rng(seed).standard_normal((n, D + P))
        Q = np.sqrt(n) * np.linalg.qr(Z - Z.mean(0))[0]
        values, vectors = np.linalg.eigh(self.sigma)
        keep = values > 1e-12
        values, vectors = values[keep], vectors[:, keep]
        Q_X = Q[:, : len(values)]
        X = (Q_X * np.sqrt(values)) @ vectors.T
        Y = (Q_X / np.sqrt(values)) @ (vectors.T @ self.b) + noise * Q[:, D:]
        return X, Y

    def batch(self) -> "Batch":
        return Batch(self.sigma[None], self.b[None], self.groups, self.costs[None], np.array([self.alpha]))


@dataclass(frozen=True)
class Batch:
    """N problems with the same groups; a subset of groups is the bits of an integer below 2^J."""

    sigma: Array  # (N, D, D)
    b: Array  # (N, D, P)
    groups: tuple[tuple[int, ...], ...]
    costs: Array  # (N, J)
    alpha: Array  # (N,)

    def __len__(self) -> int:
        return len(self.sigma)

    def __getitem__(self, i: int) -> Instance:
        return Instance(self.sigma[i], self.b[i], self.groups, self.costs[i], float(self.alpha[i]))

    @property
    def J(self) -> int:
        return len(self.groups)

    @property
    def D(self) -> int:
        return self.sigma.shape[1]

    @cached_property
    def C(self) -> Array:
        return self.sigma + self.alpha[:, None, None] * np.eye(self.D)

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """(2^J, J): whether subset s holds group g."""
        return (np.arange(2**self.J)[:, None] >> np.arange(self.J)) & 1 == 1

    @cached_property
    def _columns(self) -> NDArray[np.bool_]:
        """(2^J, D): whether subset s holds column d."""
        of_group = np.zeros((self.J, self.D), dtype=bool)
        for g, columns in enumerate(self.groups):
            of_group[g, list(columns)] = True
        return self.membership @ of_group

    @cached_property
    def w(self) -> Array:
        """(N, 2^J, D, P): C_S⁻¹ b_S, zero outside S (where the system solved is the identity)."""
        inside = self._columns.astype(float)
        blocks = self.C[:, None] * inside[:, :, None] * inside[:, None, :]
        blocks = blocks + (1 - inside)[:, :, None] * np.eye(self.D)
        return np.linalg.solve(blocks, self.b[:, None] * inside[:, :, None])

    @cached_property
    def F(self) -> Array:
        """(N, 2^J): ½ tr(b_S' C_S⁻¹ b_S)."""
        return 0.5 * np.einsum("nsdp,ndp->ns", self.w, self.b)

    @cached_property
    def r(self) -> Array:
        """(N, 2^J, D, P): b − C w(S), the gradient after each subset."""
        return self.b[:, None] - np.einsum("nde,nsep->nsdp", self.C, self.w)

    @cached_property
    def subset_costs(self) -> Array:
        """(N, 2^J)."""
        return self.costs @ self.membership.T.astype(float)

    @cached_property
    def gamma(self) -> Array:
        """(N,): λ_min(Δ^{-1/2} C Δ^{-1/2}), Δ the block diagonal of C."""
        root = np.zeros_like(self.C)
        for columns in self.groups:
            block = np.ix_(range(len(self)), columns, columns)
            values, vectors = np.linalg.eigh(self.C[block])
            root[block] = (vectors / np.sqrt(values)[:, None, :]) @ vectors.swapaxes(1, 2)
        return np.linalg.eigvalsh(root @ self.C @ root)[:, 0]

    @cached_property
    def gamma_raw(self) -> Array:
        """(N,): (λ* + λ)/(1 + λ), the paper's formula, with λ* of the covariance as it stands."""
        return np.linalg.eigvalsh(self.C)[:, 0] / (1 + self.alpha)

    def scores(self, rule: str) -> Array:
        """(N, 2^J, J): every group's score after each subset; ``printed`` whitens with X_g'X_g/n alone."""
        if rule == "forward":
            union = np.arange(2**self.J)[:, None] | (1 << np.arange(self.J))
            return 2 * (self.F[:, union] - self.F[:, :, None])
        out = np.empty((len(self), 2**self.J, self.J))
        for g, columns in enumerate(self.groups):
            r = self.r[:, :, list(columns)]
            block = np.ix_(range(len(self)), columns, columns)
            if rule in ("omp", "printed"):
                inverse = np.linalg.inv((self.C if rule == "omp" else self.sigma)[block])
                out[:, :, g] = np.einsum("nsdp,nde,nsep->ns", r, inverse, r)
            elif rule == "no-whiten":
                out[:, :, g] = np.sum(r**2, axis=(2, 3))
            elif rule == "single":
                out[:, :, g] = np.max(np.sum(r**2, axis=3), axis=2)
            else:
                raise ValueError(f"unknown rule {rule!r}")
        return out

    def run(self, rule: str, schedule: str = "greedy", c_min: Array | None = None) -> Ints:
        """(N, J): the order of every problem, by looking scores up in the table. Ties are not treated."""
        table = self.scores(rule)
        rows = np.arange(len(self))
        chosen, spent = np.zeros(len(self), dtype=np.int64), np.zeros(len(self))
        order = np.empty((len(self), self.J), dtype=np.int64)
        for j in range(self.J):
            allowed = ~self.membership[chosen]
            if schedule == "doubling":
                allowed = _doubling(allowed, self.costs, spent if j or c_min is None else c_min)
            rate = np.where(allowed, table[rows, chosen] / self.costs, -np.inf)
            g = order[:, j] = np.argmax(rate, axis=1)
            chosen, spent = chosen | (1 << g), spent + self.costs[rows, g]
        return order


def _doubling(remaining: NDArray[np.bool_], costs: Array, limit: Array) -> NDArray[np.bool_]:
    """Keep groups within the limit or, where there are none, those of the lowest cost."""
    within = remaining & (costs <= limit[:, None])
    lowest = np.min(np.where(remaining, costs, np.inf), axis=1, keepdims=True)
    return np.where(within.any(1, keepdims=True), within, remaining & (costs == lowest))


# The statements. Each takes orders (N, J) and gives the worst ratio bound/achieved per problem, (N,).


def _prefixes(batch: Batch, order: Ints) -> tuple[Array, Array]:
    """F (N, J+1) and cost (N, J+1) of the prefixes of length 0 … J."""
    subsets = np.concatenate([np.zeros((len(batch), 1), dtype=np.int64), np.cumsum(1 << order, axis=1)], axis=1)
    costs = np.cumsum(np.take_along_axis(batch.costs, order, axis=1), axis=1)
    return np.take_along_axis(batch.F, subsets, axis=1), np.pad(costs, ((0, 0), (1, 0)))


def lemma_ratio(batch: Batch, order: Ints, gamma: Array | None = None) -> Array:
    """Lemma 3.1, every step and every S: γ(F(S) − F(G_{j−1}))·c(g_j) ≤ c(S)·(F(G_j) − F(G_{j−1}))."""
    gamma = batch.gamma if gamma is None else gamma
    F, cost = _prefixes(batch, order)
    gain, price = np.diff(F)[:, :, None], np.diff(cost)[:, :, None]
    S, K = batch.F[:, None, 1:], batch.subset_costs[:, None, 1:]
    left = gamma[:, None, None] * (S - F[:, :-1, None]) * price
    return np.max(left / (K * (gain + FLOOR * F[:, -1:, None])), axis=(1, 2))


def theorem_ratio(batch: Batch, order: Ints, gamma: Array | None = None, measure: str = "objective") -> Array:
    """Theorem 3.2, every prefix of cost B and every S of cost K: F(G_B) ≥ (1 − exp(−γB/K))·F(S)."""
    gamma = batch.gamma if gamma is None else gamma
    F, cost = _prefixes(batch, order)
    exponent = gamma[:, None, None] * cost[:, 1:, None] / batch.subset_costs[:, None, 1:]
    ratio = _exponential_ratio(exponent, F[:, 1:, None], batch.F[:, None, 1:], F[:, -1:, None], measure)
    return np.max(ratio, axis=(1, 2))


def doubling_ratio(
    batch: Batch, order: Ints, c0: float, c_min: Array | None = None, measure: str = "objective"
) -> Array:
    """The corrected doubling theorem, every S and B: F(G_B) ≥ (1 − exp(−γ(c0/2 − 2)))·F(S), c(S) ≤ B/c0.

    F(G_B) grows with B, so for a given S only the smallest B that admits it matters: c0·c(S), or c_min if
    that is more (no claim is made below c_min).
    """
    return _budget_ratio(batch, order, batch.gamma * (c0 / 2 - 2), c0, c_min, measure)


def paper_doubling_ratio(
    batch: Batch, order: Ints, gamma: Array, c_min: Array | None = None, measure: str = "objective"
) -> Array:
    """The paper's Theorem 4.5 with a γ of one's choice: F(G_B) ≥ (1 − exp(−γ²/(1+γ)))·F(S), c(S) ≤ B/4."""
    return _budget_ratio(batch, order, gamma**2 / (1 + gamma), 4.0, c_min, measure)


def _budget_ratio(batch: Batch, order: Ints, exponent: Array, c0: float, c_min: Array | None, measure: str) -> Array:
    budgets = c0 * batch.subset_costs[:, 1:]
    budgets = budgets if c_min is None else np.maximum(budgets, c_min[:, None])
    achieved = explained_at(batch, order, budgets)
    ratio = _exponential_ratio(exponent[:, None], achieved, batch.F[:, 1:], batch.F[:, -1:], measure)
    return np.max(ratio, axis=1)


def _exponential_ratio(exponent: Array, achieved: Array, target: Array, total: Array, measure: str) -> Array:
    """Compare ``achieved`` with (1 − e^{−exponent})·target; both measures are ≤ 1 together.

    ``objective`` is bound/achieved. It also nears 1 where nothing is at stake (a large exponent, achieved
    equal to target), so ``exponent`` compares exponents instead: claimed over −ln(1 − achieved/target).
    """
    achieved = achieved + FLOOR * total
    if measure == "objective":
        return -np.expm1(-exponent) * target / achieved
    short = achieved < target
    realised = -np.log1p(-np.where(short, achieved / np.where(short, target, 1.0), 0.5))
    return np.where(short, exponent / realised, 0.0)


def explained_at(batch: Batch, order: Ints, budgets: Array) -> Array:
    """(N, M): F of the longest prefix within each budget, up to rounding of the budget."""
    F, cost = _prefixes(batch, order)
    stage = np.sum(cost[:, None, :] <= budgets[:, :, None] * (1 + 1e-12), axis=2) - 1
    return np.take_along_axis(F, stage, axis=1)


def submodularity_ratio(batch: Batch) -> Array:
    """(N,): the largest γ ≤ 1 with γ·gain(x | A) ≤ gain(x | A') for all A' ⊆ A and x, the paper's Eq. 5."""
    gain = batch.scores("forward")
    subsets = np.arange(2**batch.J)
    nested = (subsets[:, None] & ~subsets[None, :]) == 0  # [A', A]
    ratio = np.ones(len(batch))
    for g in range(batch.J):
        outside = ~batch.membership[:, g]
        pairs = nested & outside[:, None] & outside[None, :]
        small, large = (gain[:, side, g] for side in np.nonzero(pairs))
        ratio = np.minimum(ratio, np.min(small / np.maximum(large, 1e-300), axis=1))
    return np.maximum(ratio, 0)


def worst_ratio(instance: Instance, order: Ints, statement: str, **options: float) -> float:
    """Worst bound/achieved of an order: ``lemma``, ``theorem``, or ``doubling`` (options c0, c_min)."""
    check = {"lemma": lemma_ratio, "theorem": theorem_ratio, "doubling": doubling_ratio}[statement]
    if options.get("c_min") is not None:
        options = options | {"c_min": np.array([options["c_min"]])}
    return float(check(instance.batch(), np.asarray(order)[None], **options)[0])


# Where instances come from.


@dataclass(frozen=True)
class Genes:
    """Free parameters of N problems: what the hill-climber perturbs."""

    factors: Array  # (N, D, D); sigma is the correlation matrix of the rows
    b: Array  # (N, D, P)
    log_costs: Array  # (N, J)
    log_alpha: Array  # (N,)

    def batch(self, sizes: tuple[int, ...]) -> Batch:
        rows = self.factors / np.linalg.norm(self.factors, axis=2, keepdims=True)
        sigma = rows @ rows.swapaxes(1, 2)
        edges = np.cumsum((0, *sizes))
        groups = tuple(tuple(range(a, z)) for a, z in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        return Batch(sigma, self.b, groups, np.exp(self.log_costs), np.exp(self.log_alpha))

    def perturbed(self, rng: np.random.Generator) -> "Genes":
        """Move a random part of each problem by a random amount, from 1e-3 to 1."""
        N = len(self.b)
        fields = {}
        for name in ("factors", "b", "log_costs", "log_alpha"):
            value = getattr(self, name)
            tail = (1,) * (value.ndim - 1)
            size = 10 ** rng.uniform(-3, 0, (N, *tail)) * (rng.random((N, *tail)) < 0.5)
            touched = rng.random(value.shape) < rng.uniform(0.1, 1, (N, *tail))
            fields[name] = value + size * touched * rng.standard_normal(value.shape)
        fields["log_costs"] = np.clip(fields["log_costs"], -7, 7)
        fields["log_alpha"] = np.clip(fields["log_alpha"], *LOG_ALPHA)
        return Genes(**fields)

    def where(self, mask: NDArray[np.bool_], other: "Genes") -> "Genes":
        """Take ``other``'s problems where the mask holds."""
        pick = {}
        for name, mine in vars(self).items():
            pick[name] = np.where(mask.reshape(-1, *(1,) * (mine.ndim - 1)), getattr(other, name), mine)
        return Genes(**pick)


LOG_ALPHA = (np.log(1e-4), np.log(3.0))


def random_genes(rng: np.random.Generator, n: int, sizes: tuple[int, ...], targets: int = 1) -> Genes:
    """Correlations from none to near collinear, costs from equal to spread over orders of magnitude."""
    D, J = sum(sizes), len(sizes)
    common = rng.standard_normal((n, 1, D)) * rng.choice([0, 0.5, 2, 5], (n, 1, 1))
    return Genes(
        factors=rng.standard_normal((n, D, D)) + common * rng.choice([-1, 1], (n, D, 1)),
        b=rng.standard_normal((n, D, targets)) * 10 ** (rng.uniform(-2, 0, (n, D, 1)) * rng.integers(0, 2, (n, 1, 1))),
        log_costs=rng.standard_normal((n, J)) * rng.choice([0.05, 0.5, 1, 2], (n, 1)),
        log_alpha=rng.uniform(*LOG_ALPHA, n),
    )


def trap_genes(rng: np.random.Generator, n: int, c0: float) -> Genes:
    """Seven single features on which doubling does badly at B = c0·K (4 < c0 < 8), half of them perturbed.

    Two features of cost 1 (K = 2) explain little alone and much together. The decoys have a slightly better
    rate than either alone, except that the first two, taken before the pair is affordable, have none. Their
    costs double the total until just above B/2, and the last one then overshoots B. Random problems are of
    no use here: with seven groups and c0 > 4, F(G_B) ≥ F(S) on all we saw.
    """
    sigma = np.tile(np.eye(7), (n, 1, 1))
    gamma = 10 ** rng.uniform(-3, -0.3, n)
    sigma[:, 0, 1] = sigma[:, 1, 0] = gamma - 1
    unit = (c0 + 0.01) / 8
    costs = np.array([1, 1, unit, unit, 2 * unit, 4 * unit, 8 * unit])
    b = np.sqrt(np.array([1, 1, 1e-6, 1e-6, 1.02, 1.02, 1.02]) * costs)
    genes = Genes(
        factors=np.linalg.cholesky(sigma),
        b=np.tile(b[:, None], (n, 1, 1)),
        log_costs=np.tile(np.log(costs), (n, 1)),
        log_alpha=np.full(n, LOG_ALPHA[0]),
    )
    return genes.where(rng.random(n) < 0.5, genes.perturbed(rng))


def random_batch(rng: np.random.Generator, n: int, sizes: tuple[int, ...], targets: int = 1) -> Batch:
    return random_genes(rng, n, sizes, targets).batch(sizes)


def random_instance(rng: np.random.Generator, sizes: tuple[int, ...] | None = None, targets: int = 1) -> Instance:
    sizes = GROUP_SIZES[rng.integers(len(GROUP_SIZES))] if sizes is None else sizes
    return random_batch(rng, 1, sizes, targets)[0]


@dataclass(frozen=True)
class Climb:
    """Outcome of N parallel hill-climbs: ratios at the start, at the end, and the worst of all visited."""

    start: Array
    end: Array
    visited: float
    batch: Batch


def climb(
    rng: np.random.Generator,
    genes: Genes,
    sizes: tuple[int, ...],
    steps: int,
    ratio: Callable[[Batch], Array],
) -> Climb:
    """Maximise ``ratio`` from every start in ``genes`` at once; keep a perturbation where it is no worse."""
    start = best = ratio(genes.batch(sizes))
    visited = float(np.max(best))
    for _ in range(steps):
        trial = genes.perturbed(rng)
        value = ratio(trial.batch(sizes))
        visited = max(visited, float(np.max(value)))
        genes, best = genes.where(value >= best, trial), np.maximum(value, best)
    return Climb(start, best, visited, genes.batch(sizes))


# Named instances.

COUNTEREXAMPLE_NAMES = ("junk1", "junk2", "tiny", "x", "z")


def counterexample(eps: float = 0.005) -> Instance:
    """Theorem 4.5 of the paper fails here (with the spectral γ = ½, c_min = 99, rule forward), see DESIGN §2."""
    c_x = 99 + eps
    tiny_gain = 1.02 * 3 * eps / c_x  # after junk2: ½ (½ b_junk2)² / (1 − ¼) = b_junk2²/6
    b_junk2 = np.sqrt(6 * tiny_gain)
    c_z = 198 + 3 * eps
    sigma = np.eye(5)
    sigma[1, 2] = sigma[2, 1] = 0.5
    b = np.array([np.sqrt(1.05) * b_junk2, b_junk2, 0.0, np.sqrt(2.0), np.sqrt(2 * 1.02 * c_z / c_x)])
    costs = np.array([99, 99, 3 * eps, c_x, c_z])
    return Instance(sigma, b[:, None], tuple((d,) for d in range(5)), costs, 0.0)


def hard_instance(n: int) -> Instance:
    """Independent X_1 … X_n at cost i with Y = Σ e^{i/2} X_i, so that 2F(S) = Σ_{i∈S} e^i; λ = 0."""
    i = np.arange(1, n + 1)
    return Instance(np.eye(n), np.exp(i / 2)[:, None], tuple((d,) for d in range(n)), i.astype(float), 0.0)


def printed_whitening_instance(closeness: float = 1e-4) -> Instance:
    """Whitening without λ (λ = 0.3): a pair of near duplicates, with b along their difference, looks best.

    Its printed score is 1.01 against 1 of the other group, but it gains ½·1.01·closeness/(closeness + λ)
    against ½/(1 + λ). The groups are independent: γ = 1, the paper's and ours.
    """
    sigma = np.eye(3)
    sigma[0, 1] = sigma[1, 0] = 1 - closeness
    t = np.sqrt(1.01 * closeness / 2)
    return Instance(sigma, np.array([[t], [-t], [1.0]]), ((0, 1), (2,)), np.ones(2), 0.3)


def raw_covariance_instance(rho: float = 0.9) -> Instance:
    """λ_min of the raw covariance overstates γ by 1 + rho: two pairs, all four correlated rho.

    Along (1, 1, −1, −1) the covariance has its least eigenvalue 1 − rho, and each group has variance 1 + rho.
    """
    sigma = np.full((4, 4), rho) + (1 - rho) * np.eye(4)
    return Instance(sigma, np.array([[1.0], [1], [-1], [-1]]), ((0, 1), (2, 3)), np.ones(2), 0.0)


def unwhitened_instance(closeness: float = 1e-4) -> Instance:
    """Independent groups (γ = 1) on which ``no-whiten`` and ``single`` take the lesser one first.

    The pair of near duplicates explains ‖b‖²/2closeness, and neither rule sees more than ‖b‖² = 2; the other
    scores 2.25 and explains half of that.
    """
    sigma = np.eye(3)
    sigma[0, 1] = sigma[1, 0] = 1 - closeness
    return Instance(sigma, np.array([[1.0], [-1.0], [1.5]]), ((0, 1), (2,)), np.ones(2), 0.0)
