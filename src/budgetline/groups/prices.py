"""The cost of a set of groups: own costs, costs that several groups share, and groups that others require.

    c(S) = Σ_{g ∈ S̄} own_g + Σ_{s: members_s ∩ S̄ ≠ ∅} cost_s,      S̄ = S and all groups that it requires.

The cost of a step depends on what was bought before: c(g | S) = c(S ∪ g) − c(S). Without shared costs and requirements
c is additive, and everything here is a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Mask, Positions

LARGEST_TOTAL = 1e300
"""The largest total cost, so that sums and products of costs stay within the range of float64."""


@dataclass(frozen=True)
class SharedCost:
    """A cost that is paid once, by the first of its members (positions of groups), such as a blood draw."""

    name: str
    cost: float
    members: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Prices:
    """The cost of every set of J groups, and of every next group.

    ``requires[g]`` are all groups that g requires, directly or not, each after its own requirements; () if no group
    requires another.
    """

    own: Float
    shared: tuple[SharedCost, ...] = ()
    requires: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):
            total = self.total
        if total > LARGEST_TOTAL and np.isfinite(self.own).all():
            more = f"more than {LARGEST_TOTAL:g}: give them in a larger unit"
            raise ValueError(f"the costs of all groups add up to {total:g}, {more}")

    @property
    def additive(self) -> bool:
        """Whether the cost of a set is the sum of its groups' own costs."""
        return not self.shared and not any(self.requires)

    @property
    def total(self) -> float:
        """The cost of all groups."""
        return float(self.own.sum()) + sum(s.cost for s in self.shared)

    @cached_property
    def demanding(self) -> list[int]:
        """The groups that require others."""
        return [g for g, required in enumerate(self.requires) if required]

    @cached_property
    def needers(self) -> tuple[Positions, ...]:
        """For every shared cost the groups that need it: its members, and all groups that require a member."""
        found = []
        for item in self.shared:
            needs = set(item.members)
            needs.update(g for g, required in enumerate(self.requires) if needs.intersection(required))
            found.append(np.array(sorted(needs), dtype=np.intp))
        return tuple(found)

    @cached_property
    def dependents(self) -> dict[int, Positions]:
        """The groups that require a group, directly or not, for every group that others require; in order."""
        found: dict[int, list[int]] = {}
        for g, required in enumerate(self.requires):
            for h in required:
                found.setdefault(h, []).append(g)
        return {h: np.array(found[h], dtype=np.intp) for h in sorted(found)}

    def closure(self, groups: Iterable[int]) -> Mask:
        """Return the mask (J,) of groups and all their requirements."""
        mask = np.zeros(self.own.size, dtype=bool)
        for g in groups:
            mask[g] = True
            if self.requires:
                mask[list(self.requires[g])] = True
        return mask

    def missing(self, g: int, chosen: Mask) -> list[int]:
        """Return the groups that S needs to get g: the missing requirements in a valid order, then g."""
        return [h for h in (*self.requires[g], g) if not chosen[h]] if self.requires else [g]

    def completed(self, order: Iterable[int]) -> list[int]:
        """Return the order with all required groups moved, or inserted, before the groups that require them."""
        done = np.zeros(self.own.size, dtype=bool)
        found: list[int] = []
        for g in order:
            new = [] if done[g] else self.missing(g, done)
            found += new
            done[new] = True
        return found

    def out_of_order(self, order: Sequence[int]) -> tuple[int, int] | None:
        """Return the first group that comes before a group it requires, and that group; None if the order is valid."""
        before: set[int] = set()
        for g in order if any(self.requires) else ():
            if lacking := [h for h in self.requires[g] if h not in before]:
                return g, lacking[0]
            before.add(g)
        return None

    def cost(self, mask: Mask) -> float:
        """Return c(S) of the groups of a mask (J,) and all their requirements."""
        closed = self.closure(np.flatnonzero(mask).tolist()) if any(self.requires) else mask
        return float(self.own[closed].sum()) + sum(s.cost for s in self.shared if closed[list(s.members)].any())

    def marginal(self, chosen: Mask) -> Float:
        """Return c(g | S) of every group, shape (J,), including missing requirements; 0 for groups in S.

        S must contain the requirements of its groups, as every prefix of a sequence does.
        """
        extra = np.where(chosen, 0.0, self.own)
        for k in self.unpaid(chosen):
            extra[self.needers[k]] += self.shared[k].cost  # none of them is in S
        for g in self.demanding:
            if not chosen[g]:
                extra[g] += sum(self.own[h] for h in self.requires[g] if not chosen[h])
        return extra

    def added(self, groups: Sequence[int], chosen: Mask) -> float:
        """Return c(S ∪ A) − c(S). A and S must be disjoint, and S ∪ A must contain the requirements of its groups."""
        needed = sorted({k for g in groups for k in self._shares.get(g, ())})
        extra = sum(self.shared[k].cost for k in needed if not chosen[self._members[k]].any())
        return float(self.own[list(groups)].sum()) + extra

    def unpaid(self, chosen: Mask) -> list[int]:
        """Return the positions of the shared costs that no group in S has paid."""
        return [k for k, members in enumerate(self._members) if not chosen[members].any()]

    def steps(self, order: ArrayLike) -> Float:
        """Return the cost of each step of an order in which no group comes before one that it requires."""
        groups = np.asarray(order, dtype=np.intp)
        if self.additive:
            return np.asarray(self.own[groups])
        bought, costs = np.zeros(self.own.size, dtype=bool), []
        for g in groups.tolist():
            costs.append(self.added([g], bought))
            bought[g] = True
        return np.array(costs, dtype=np.float64)

    def spread(self) -> Float:
        """Return one cost per group, shape (J,), for methods that need additive costs.

        A shared cost is divided among its members. The cost of a required group is counted again, in equal parts, for
        the groups that require it and for itself: a group is free only if everything that it needs is free.
        """
        costs = self.own.copy()
        for item in self.shared:
            costs[list(item.members)] += item.cost / len(item.members)
        extra = np.zeros_like(costs)
        for h, others in self.dependents.items():
            extra[others] += costs[h] / (1 + others.size)
        return costs + extra

    @cached_property
    def _members(self) -> tuple[Positions, ...]:
        return tuple(np.array(item.members, dtype=np.intp) for item in self.shared)

    @cached_property
    def _shares(self) -> dict[int, list[int]]:
        """Positions of the shared costs of every group that has any, in order."""
        found: dict[int, list[int]] = {}
        for k, item in enumerate(self.shared):
            for g in item.members:
                found.setdefault(g, []).append(k)
        return found
