"""Groups as plain records in files, and a check of orders in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from budgetline.arrays import Positions
from budgetline.codec import As, plain_of, read_record
from budgetline.groups.feature_groups import FeatureGroups


@dataclass(frozen=True)
class GroupsRecord:
    """Groups as a file holds them: shared costs as (name, cost, groups), requirements as (group, groups)."""

    names: tuple[str, ...]
    columns: tuple[tuple[str | int, ...], ...]
    costs: tuple[float, ...]
    remainder: str
    shared: tuple[tuple[str, float, tuple[str, ...]], ...] = ()
    requires: tuple[tuple[str, tuple[str, ...]], ...] = ()


def plain_groups(groups: FeatureGroups) -> dict[str, object]:
    """Return groups as plain JSON."""
    shared = tuple((name, cost, members) for name, (cost, members) in groups.shared.items())
    costs, requires = tuple(groups.costs.tolist()), tuple(groups.requires.items())
    return plain_of(GroupsRecord(groups.names, groups.columns, costs, groups.remainder, shared, requires))


def groups_of(plain: object, where: str) -> FeatureGroups:
    """Return the groups of :func:`plain_groups`; ``where`` names them in errors."""
    record = read_record(GroupsRecord, plain, where)
    if not len(record.names) == len(record.columns) == len(record.costs) == len(set(record.names)):
        raise ValueError(f"{where} must have one list of columns and one cost for every name")
    return FeatureGroups(
        dict(zip(record.names, record.columns, strict=True)),
        record.costs,
        remainder=record.remainder,  # type: ignore[arg-type]
        shared={name: (cost, members) for name, cost, members in record.shared},
        requires=dict(record.requires),
    )


StoredGroups = Annotated[FeatureGroups, As(plain_groups, groups_of)]
"""The type of groups in a record."""


def check_order(order: Positions, groups: FeatureGroups) -> None:
    """Raise an error unless the entries are positions of different groups, each after those that it requires."""
    if np.unique(order).size < order.size or np.any((order < 0) | (order >= len(groups))):
        raise ValueError("order is not an order of the groups")
    if groups.prices.out_of_order(order.tolist()) is not None:
        raise ValueError("order has a group before one that it requires")
