"""What the verifier believes about costs: lower bounds that are none too high, and leaves that leave no set out."""

from types import SimpleNamespace

import numpy as np
import pytest
from price_lists import cost_of, mask_of, random_conditions, random_prices, with_required

from budgetline.bounds.problem import Conditions
from budgetline.bounds.relaxation import Knapsack
from budgetline.bounds.verifier import _covered, _Price


def priced(prices):
    """The verifier's own idea of prices, made from plain values."""
    names = tuple(f"g{g}" for g in range(prices.own.size))
    shared = {s.name: (s.cost, [names[m] for m in s.members]) for s in prices.shared}
    requires = {names[g]: [names[h] for h in needed] for g, needed in enumerate(prices.requires) if needed}
    return _Price(SimpleNamespace(names=names, costs=prices.own, shared=shared, requires=requires))


def all_sets(J):
    return [frozenset(g for g in range(J) if k >> g & 1) for k in range(2**J)]


@pytest.mark.parametrize(("n_shared", "n_required"), [(0, 0), (2, 0), (0, 3), (3, 4)])
def test_no_set_is_worth_more_to_the_verifier(n_shared, n_required):
    rng = np.random.default_rng([n_shared, n_required, 1])
    for _ in range(25):
        J = int(rng.integers(2, 6))
        prices = random_prices(rng, J, n_shared, n_required)
        own = priced(prices)
        included, excluded = random_conditions(rng, prices, J)
        v = rng.exponential(size=J) * (rng.random(J) < 0.8)
        sets = [S for S in all_sets(J) if included <= S and not (with_required(prices, S) & excluded)]
        costs = np.array([cost_of(prices, S) for S in sets])
        for S, cost in zip(sets, costs, strict=True):
            assert own.of(mask_of(S, J)) == pytest.approx(cost, rel=1e-12)
        worth = np.array([v[sorted(S)].sum() for S in sets])
        inside, outside = mask_of(included, J), mask_of(excluded, J)
        for budget in np.unique(np.concatenate([costs, rng.uniform(0, costs.max() + 1, size=4)])):
            found = own.best(v, float(budget), inside, outside)
            within = costs <= budget * (1 + 1e-12)
            if within.any():
                assert found >= worth[within].max() * (1 - 1e-12)
            # the search must come to the same number, or its certificates are refused
            other = Knapsack(Conditions(prices, inside, outside)).most(v, np.array([budget]))[0]
            assert found == pytest.approx(other, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("n_shared", "n_required"), [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_coverage_is_what_enumeration_says(n_shared, n_required):
    """Random leaves, some of which cover all that can be bought, and some not."""
    rng = np.random.default_rng([n_shared, n_required, 2])
    said = []
    for _ in range(250):
        J = int(rng.integers(1, 6))
        prices = random_prices(rng, J, n_shared, n_required) if J > 1 else random_prices(rng, J, n_shared, 0)
        included, excluded = random_conditions(rng, prices, J)
        leaves = []
        for _ in range(int(rng.integers(0, 7))):
            draw = rng.random(J)
            share = rng.choice([0.1, 0.25])
            leaves.append((draw < share, draw > 1 - share))
        total = cost_of(prices, frozenset(range(J)))
        budget = float(rng.uniform(0, 1.2 * total))
        sets = [S for S in all_sets(J) if with_required(prices, S) == S]
        sets = [S for S in sets if included <= S and not S & excluded and cost_of(prices, S) <= budget * (1 + 1e-12)]
        masks = [mask_of(S, J) for S in sets]
        truth = all(any(m[need].all() and not m[bar].any() for need, bar in leaves) for m in masks)
        found = _covered(mask_of(included, J), mask_of(excluded, J), leaves, priced(prices), budget)
        assert not found or truth  # never claims what is not so
        assert found == truth
        said.append(found)
    assert 20 < sum(said) < 230
