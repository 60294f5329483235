"""Random prices, and what sets cost by definition."""

import numpy as np

from budgetline.groups.prices import Prices, SharedCost


def random_prices(rng, J, n_shared, n_required):
    """Own costs, shared costs, and requirements without cycles (a group requires earlier ones of a random order)."""
    own = rng.choice([0.0, 0.1, 0.5, 1.0, 3.0], size=J) * rng.choice([1.0, 100.0])
    shared = []
    for k in range(n_shared):
        members = rng.choice(J, size=rng.integers(1, J + 1), replace=False)
        shared.append(SharedCost(f"s{k}", float(rng.choice([0.0, 0.3, 2.0, 50.0])), tuple(sorted(map(int, members)))))
    direct = [set() for _ in range(J)]
    order = rng.permutation(J)
    for _ in range(n_required):
        a, b = sorted(rng.choice(J, size=2, replace=False))
        direct[order[b]].add(int(order[a]))
    closed = []
    for g in range(J):
        found, new = [], sorted(direct[g])
        while new:
            h = new.pop()
            if h not in found:
                found.append(h)
                new += sorted(direct[h])
        closed.append(tuple(sorted(found, key=lambda h: order.tolist().index(h))))
    return Prices(own, tuple(shared), tuple(closed) if n_required else ())


def with_required(prices, S):
    return S | {h for g in S for h in (prices.requires[g] if prices.requires else ())}


def cost_of(prices, S):
    """c(S), by its definition."""
    bought = with_required(prices, S)
    return sum(prices.own[g] for g in bought) + sum(s.cost for s in prices.shared if bought & set(s.members))


def mask_of(S, J):
    return np.isin(np.arange(J), sorted(S))


def random_conditions(rng, prices, J):
    """Groups that are in, with all that they require, and groups that are out, with all that require them."""
    draw = rng.random(J)
    included = with_required(prices, set(np.flatnonzero(draw < 0.2).tolist()))
    excluded = set(np.flatnonzero(draw > 0.8).tolist()) - included
    if prices.requires:
        excluded = {h for h in excluded if not any(h in prices.requires[g] for g in included)}
        excluded |= {g for g in range(J) if excluded & set(prices.requires[g])}
    return included, excluded - included
