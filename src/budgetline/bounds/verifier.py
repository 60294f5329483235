"""Check a certificate from moments with NumPy alone: nothing here is shared with the code that found the bounds.

For S with c(S) ≤ K, u and Δ = blockdiag(Δ_g) ≻ 0 with M = C − Δ ⪰ 0,

    F(S) = max_{w on S} tr b'w − ½ tr w'Cw  ≤  ½ tr u'Mu + Σ_{g ∈ S} ½ tr q_g' Δ_g⁻¹ q_g,    q = b − Mu.

So a bound holds for all sets of a leaf if it is at least the right side for the best S, bought in fractions; and for
all sets if every affordable set is in a leaf. Penalties of the groups of S may be subtracted on both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]
GroupLabels = NDArray[np.intp]

TOLERANCE = 1e-8
"""Numbers that are computed twice agree to this share of R(∅)."""
SLACK = 1e-12
"""Costs that differ by less than this, relatively, are equal."""
CONSTANT = 10
"""A column whose standard deviation is at most this many roundings of its mean is constant."""
SINGULAR = 1e-11
"""A smallest eigenvalue of a Δ_g below this share of its largest one may be rounding."""
ROUNDINGS, MOST_ROUNDING = 16, 1e-2
"""C is off by this many roundings times its width; if F may change by more than a percent, it is too inaccurate."""
EPS = float(np.finfo(np.float64).eps)


def verify(certificate: Any, moments: Any) -> None:
    """Raise a ValueError that names the first statement of a certificate that does not hold for these moments."""
    check_parts(certificate)
    C, b, null_value, sizes = _covariance(certificate, moments)
    lost = np.zeros(len(sizes)) if certificate.penalties is None else certificate.penalties
    _need(not certificate.duals.size or certificate.duals.shape[1:] == b.shape, "duals do not have the shape of b")
    # An error of E in C changes F by at most ‖E‖ F/λ_min(C): what is computed twice agrees to that share of R(∅).
    least, largest = np.linalg.eigvalsh(C)[[0, -1]]
    noise = ROUNDINGS * max(EPS, moments.eps) * len(C)
    why = f"the columns are too nearly dependent (alpha={certificate.alpha:g}) to check anything"
    _need(least * MOST_ROUNDING > noise, why)
    near = max(TOLERANCE, 2 * noise / least) * max(null_value, 1e-300)
    _need(abs(certificate.null_value - null_value) <= near, "null_value is not that of the moments")
    price = _Price(certificate.feature_groups)
    label = np.repeat(np.arange(len(sizes)), sizes)
    _check_values(certificate, C, b, label, price, lost, near)
    if not certificate.blocks.size:
        trivial = np.all(np.abs(certificate.bounds - certificate.everything) <= near)
        _need(trivial, "bounds without a proof must be F of all groups")
        return
    terms = [(c, v - lost) for c, v in _dual_terms(certificate, C, b, sizes, largest)]
    _check_bounds(certificate, terms, price, near)


def check_parts(certificate: Any) -> None:
    """Raise a ValueError unless all parts are finite numbers, of the right kinds and shapes; it proves nothing."""
    _check_types(certificate)
    _check_shapes(certificate, [len(columns) for columns in certificate.feature_groups.columns])


def _need(holds: object, why: str) -> None:
    if not holds:
        raise ValueError(f"the certificate does not hold: {why}")


def _raised(claimed: float, found: float, near: float, null_value: float) -> bool:
    """Tell whether a claimed bound agrees with the one found and is not below it: bounds are raised for rounding."""
    return bool(-TOLERANCE * null_value <= claimed - found <= near)


def _check_types(certificate: Any) -> None:
    """Check that every entry is a finite number of the right kind: NaN would pass many comparisons."""
    found = vars(certificate)
    for kind, names in (
        (np.float64, ("values", "budgets", "achieved", "bounds", "blocks", "duals")),
        (np.integer, ("order", "leaf_budget", "leaf_dual")),
        (np.bool_, ("included", "excluded", "leaf_included", "leaf_excluded")),
    ):
        for name in names:
            array = found[name]
            _need(isinstance(array, np.ndarray) and np.issubdtype(array.dtype, kind), f"{name} has the wrong type")
            _need(np.all(np.isfinite(array)), f"{name} has an entry that is not finite")
    for name, strictly in (("weights", True), ("penalties", False)):
        array = found[name]
        numbers = array is None or (isinstance(array, np.ndarray) and np.all(np.isfinite(array)))
        _need(numbers, f"{name} are not finite numbers")
        _need(array is None or np.all(array > 0 if strictly else array >= 0), f"{name} are not positive")
    negative = -np.inf if certificate.penalties is not None else 0.0
    for name in ("values", "achieved", "bounds"):
        _need(np.all(found[name] >= negative), f"{name} must not be negative without penalties")
    for name in ("alpha", "everything", "null_value", "gamma"):
        value, least = found[name], negative if name == "everything" else 0.0
        finite = isinstance(value, float) and np.isfinite(value)
        _need(finite and value >= least, f"{name} is not a finite number ≥ {least:g}")


def _covariance(certificate: Any, moments: Any) -> tuple[Reals, Reals, float, list[int]]:
    """Return C and b of standardised columns, group after group, R(∅), and the sizes of the groups."""
    D = moments.scatter.shape[0] - max(1, int(np.prod(moments.target_shape, dtype=int)))
    every = [column for group in certificate.feature_groups.columns for column in group]
    place = {name: d for d, name in enumerate(moments.feature_names or ())} | {d: d for d in range(D)}
    if len(every) == D and all(isinstance(column, int) and column >= 0 for column in every):
        # moments of the grouped columns alone: positions count among these
        place = {column: k for k, column in enumerate(sorted(every))}
    for column in every:
        _need(column in place, f"feature_groups names column '{str(column)[:100]}', which the moments do not have")
    columns = [place[column] for column in every]
    S = moments.scatter / moments.weight
    variance = np.diag(S)[columns]
    constant = ~(variance > (CONSTANT * EPS * np.abs(moments.mean[columns])) ** 2)
    weights = np.where(constant, 1.0, 1.0 if certificate.weights is None else certificate.weights)
    scale = np.sqrt(np.where(constant, 1.0, variance) * weights)
    C = np.where(constant[:, None] | constant, 0.0, S[np.ix_(columns, columns)] / np.outer(scale, scale))
    C[np.diag_indices(len(columns))] = 1.0 / weights + certificate.alpha
    b = np.where(constant[:, None], 0.0, S[np.ix_(columns, range(D, len(S)))] / scale[:, None])
    return C, b, float(np.diag(S)[D:].sum() / 2), [len(group) for group in certificate.feature_groups.columns]


class _Price:
    """c(S), and additive lower bounds on it: the rests of groups, and the hubs that they need."""

    def __init__(self, groups: Any) -> None:
        names = list(groups.names)
        self.own = np.array(groups.costs, dtype=float)
        self.shared = [(float(c), [names.index(m) for m in members]) for c, members in groups.shared.values()]
        self.needs = np.zeros((len(names), len(names)), dtype=bool)
        for g, needed in groups.requires.items():
            self.needs[names.index(g), [names.index(r) for r in needed]] = True
        for _ in names:
            self.needs |= (self.needs.astype(int) @ self.needs.astype(int)) > 0

    def closed(self, S: Flags) -> Flags:
        return np.asarray(S | self.needs[S].any(axis=0))

    def of(self, S: Flags) -> float:
        all_of_it = self.closed(S)
        return float(self.own[all_of_it].sum() + sum(c for c, members in self.shared if all_of_it[members].any()))

    def best(self, v: Reals, budget: float, inside: Flags, outside: Flags) -> float:
        """Return the largest value of sets with ``inside`` and without ``outside``, bought in fractions.

        Other groups of negative value are left out, also where a set would need them.
        """
        left = budget * (1 + SLACK) - self.of(inside)
        if left < -SLACK * budget:
            return -np.inf
        alone = self.own
        if self.shared or self.needs.any():
            alone = np.array([self.of(inside | (np.arange(v.size) == g)) for g in range(v.size)]) - self.of(inside)
        may, fixed, v = ~inside & ~outside & (alone <= left), v[inside].sum(), np.maximum(v, 0.0)
        hubs = [(c, members) for c, members in self.shared if not inside[members].any()]
        rest = self.own.copy()
        for h in np.flatnonzero(~inside & ~outside & self.needs.any(axis=0)):
            hubs.append((self.own[h], [int(h), *np.flatnonzero(self.needs[:, h]).tolist()]))
            rest[h] = 0.0
        home = np.full(v.size, -1)
        for k in np.argsort([c for c, _ in hubs], kind="stable"):
            home[hubs[k][1]] = k
        items = [(rest[g], v[g]) for g in np.flatnonzero(may & (home < 0))]
        for k, (cost, _) in enumerate(hubs):
            members: list[int] = np.flatnonzero(may & (home == k)).tolist()
            members.sort(key=lambda g: _rate(float(rest[g]), float(v[g])), reverse=True)
            sums = [(cost + rest[members[: i + 1]].sum(), v[members[: i + 1]].sum()) for i in range(len(members))]
            if sums:
                opening = max(range(len(sums)), key=lambda i: _rate(*sums[i]))
                items += [sums[opening], *((rest[g], v[g]) for g in members[opening + 1 :])]
        total = fixed
        for cost, value in sorted(items, key=lambda item: _rate(*item), reverse=True):
            share = 1.0 if cost <= left else left / cost
            total, left = total + share * value, left - share * cost
        return float(total)


def _rate(cost: float, value: float) -> tuple[float, float]:
    """Return value per cost for comparisons, as exponent and mantissa: the quotient may overflow."""
    if cost <= 0 or value <= 0:
        return (np.inf if cost <= 0 else -np.inf), 0.0
    (above, up), (below, down) = np.frexp(value), np.frexp(cost)
    mantissa, exponent = np.frexp(above / below)
    return float(up) - float(down) + float(exponent), float(mantissa)


def _check_shapes(certificate: Any, sizes: list[int]) -> None:
    J, B, L = len(sizes), certificate.budgets.size, certificate.leaf_budget.size
    for name, length in (("weights", sum(sizes)), ("penalties", J)):
        _need(getattr(certificate, name) is None or getattr(certificate, name).shape == (length,), f"{name} do not fit")
    order = certificate.order.tolist()
    _need(len(set(order)) == len(order), "order repeats a group")
    _need(certificate.values.shape == certificate.order.shape, "values must have one entry per group of the order")
    _need(all(0 <= g < J for g in order), "order has a group that does not exist")
    _need(B and np.all(np.diff(certificate.budgets) > 0) and certificate.budgets[0] >= 0, "budgets must increase")
    each = certificate.achieved.shape == certificate.bounds.shape == (B,)
    _need(each, "achieved, bounds must have an entry per budget")
    _need(certificate.included.shape == certificate.excluded.shape == (J,), "included, excluded must have J entries")
    duals = certificate.duals
    _need(not L or (duals.ndim == 3 and duals.shape[1] == sum(sizes)), "duals must have one row per column")
    entries = (sum(s * s for s in sizes),)
    _need(certificate.blocks.shape == entries or not (L or certificate.blocks.size), "blocks must be one per group")
    _need(certificate.leaf_dual.shape == (L,), "leaf_dual must have one entry per leaf")
    each = certificate.leaf_included.shape == certificate.leaf_excluded.shape == (L, J)
    _need(each, "leaves must have one entry per group")
    _need(np.array_equal(np.unique(certificate.leaf_dual), np.arange(len(duals))), "leaf_dual must use every dual")
    known = (certificate.leaf_budget >= 0) & (certificate.leaf_budget < B)
    _need(known.all(), "leaf_budget has an unknown budget")


def _check_values(
    certificate: Any, C: Reals, b: Reals, label: GroupLabels, price: _Price, lost: Reals, near: float
) -> None:
    """Check γ, F of all groups, and what the prefixes achieve at every budget, less their penalties."""
    inside, outside = certificate.included, certificate.excluded
    _need(not (price.closed(inside) & outside).any(), "excluded holds a group that included needs")
    _need(not outside[certificate.order].any(), "order has an excluded group")
    most = _prefix_values(np.flatnonzero(~outside), C, b, label)[-1] - lost[inside].sum()
    _need(_raised(certificate.everything, most, near, certificate.null_value), "everything is not F of all groups")
    gamma, share = _gamma(C, label), near / max(certificate.null_value, 1e-300)
    _need(abs(certificate.gamma - gamma) <= 1e-6 * gamma + 1e-10 + share, "gamma is not the smallest eigenvalue")
    prefixes = [np.isin(np.arange(outside.size), certificate.order[:j]) for j in range(certificate.order.size + 1)]
    costs = [price.of(S) for S in prefixes]
    _need(all(np.array_equal(S, price.closed(S)) for S in prefixes), "order has a group before one that it requires")
    values = [F - lost[S].sum() for F, S in zip(_prefix_values(certificate.order, C, b, label), prefixes, strict=True)]
    _need(np.all(np.abs(certificate.values - values[1:]) <= near), "values are not F of the prefixes")
    for k, budget in enumerate(certificate.budgets):
        j = [j for j, cost in enumerate(costs) if cost <= budget * (1 + SLACK)][-1]
        _need(prefixes[j][inside].all(), f"the prefix at {budget:g} lacks an included group")
        _need(certificate.bounds[k] >= values[j] - near, f"bounds: at {budget:g} the bound is below what is achieved")
        _need(abs(certificate.achieved[k] - values[j]) <= near, f"achieved at {budget:g} is not F of the prefix")


def _prefix_values(order: GroupLabels, C: Reals, b: Reals, label: GroupLabels) -> list[float]:
    """Return F of every prefix, from one factorisation: C = LL', F = ½‖L⁻¹b‖² up to the last row of the prefix."""
    columns = np.concatenate([np.flatnonzero(label == g) for g in order] or [np.empty(0, dtype=np.intp)])
    z = np.linalg.solve(np.linalg.cholesky(C[np.ix_(columns, columns)]), b[columns])
    ends = np.cumsum([np.sum(label == g) for g in order], dtype=np.intp)
    return [0.0, *(float(np.sum(z[:end] ** 2) / 2) for end in ends)]


def _gamma(C: Reals, label: GroupLabels) -> float:
    """Return the smallest eigenvalue of C in coordinates in which the block of every group is I."""
    white = np.zeros_like(C)
    for g in range(label[-1] + 1):
        here = np.ix_(label == g, label == g)
        white[here] = np.linalg.inv(np.linalg.cholesky(C[here]))
    return max(0.0, float(np.linalg.eigvalsh(white @ C @ white.T)[0]))


def _dual_terms(certificate: Any, C: Reals, b: Reals, sizes: list[int], largest: float) -> list[tuple[float, Reals]]:
    """Check Δ, and return ½ tr u'Mu and v of every dual."""
    M, v = C.copy(), np.zeros((len(certificate.duals), len(sizes)))
    entries = np.split(certificate.blocks, np.cumsum([s * s for s in sizes])[:-1])
    parts = [slice(end - s, end) for end, s in zip(np.cumsum(sizes), sizes, strict=True)]
    blocks = [entry.reshape(s, s) for entry, s in zip(entries, sizes, strict=True)]
    for g, (part, block) in enumerate(zip(parts, blocks, strict=True)):
        _need(np.array_equal(block, block.T), f"blocks: Δ of group {g} is not symmetric")
        M[part, part] -= block
    # A computed eigenvalue is off by less than this; so M is positive semidefinite if it is above.
    margin = 4 * len(C) * EPS * largest
    _need(np.linalg.eigvalsh(M)[0] >= margin, "blocks: C − Δ is not positive semidefinite")
    products = [M @ u for u in certificate.duals]
    for g, (part, block) in enumerate(zip(parts, blocks, strict=True)):
        spectrum, V = np.linalg.eigh(block)
        _need(spectrum[0] > SINGULAR * spectrum[-1], f"blocks: Δ of group {g} is not positive definite")
        for k, Mu in enumerate(products):
            v[k, g] = np.sum((V.T @ (b - Mu)[part]) ** 2 / spectrum[:, None]) / 2  # never negative
    terms = zip(certificate.duals, products, v, strict=True)
    return [(float(np.sum(u * Mu) / 2), row) for u, Mu, row in terms]


def _check_bounds(certificate: Any, terms: list[tuple[float, Reals]], price: _Price, near: float) -> None:
    """Check that the leaves of every budget cover all sets, and that its bound is that of the worst leaf."""
    own = np.empty(certificate.budgets.size)
    for k, budget in enumerate(certificate.budgets):
        leaves = np.flatnonzero(certificate.leaf_budget == k)
        pairs = [(certificate.leaf_included[i], certificate.leaf_excluded[i]) for i in leaves]
        covered = _covered(certificate.included, certificate.excluded, pairs, price, float(budget))
        _need(covered, f"the leaves at budget {budget:g} do not cover all sets")
        found = [terms[certificate.leaf_dual[i]] for i in leaves]
        values = [c + price.best(v, float(budget), *pair) for (c, v), pair in zip(found, pairs, strict=True)]
        own[k] = np.max(values, initial=-np.inf)
    expected = np.minimum(np.minimum.accumulate(own[::-1])[::-1], certificate.everything)
    for k, budget in enumerate(certificate.budgets):
        follows = _raised(certificate.bounds[k], expected[k], near, certificate.null_value)
        _need(follows, f"the bound at budget {budget:g} does not follow from its leaves")


def _covered(inside: Flags, outside: Flags, leaves: list[tuple[Flags, Flags]], price: _Price, budget: float) -> bool:
    """Tell whether every affordable set with ``inside`` and without ``outside`` is in a leaf."""
    inside = price.closed(inside)
    outside = outside | price.needs[:, outside].any(axis=1)
    if (inside & outside).any() or price.of(inside) > budget * (1 + SLACK):
        return True  # there is no such set
    leaves = [(needed, barred) for needed, barred in leaves if not ((needed & outside) | (barred & inside)).any()]
    undecided = [np.flatnonzero((needed & ~inside) | (barred & ~outside)) for needed, barred in leaves]
    if not all(groups.size for groups in undecided):
        return True
    if not undecided:
        return False
    counts = np.bincount(np.concatenate(undecided), minlength=inside.size)
    g = np.arange(inside.size) == int(np.argmax(counts))
    return _covered(inside | g, outside, leaves, price, budget) and _covered(inside, outside | g, leaves, price, budget)
