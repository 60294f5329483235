"""Groups as plain JSON and back, with every entry checked: what files hold of them."""

from __future__ import annotations

from typing import Any

from budgetline.groups.feature_groups import FeatureGroups


def plain_groups(groups: FeatureGroups) -> dict[str, Any]:
    """Return groups as JSON; what they share and require only where they do, so that older versions read the rest."""
    plain = {
        "names": list(groups.names),
        "columns": [list(columns) for columns in groups.columns],
        "costs": groups.costs.tolist(),
        "remainder": groups.remainder,
    }
    if groups.shared:
        plain["shared"] = [[name, cost, list(members)] for name, (cost, members) in groups.shared.items()]
    if groups.requires:
        plain["requires"] = [[name, list(required)] for name, required in groups.requires.items()]
    return plain


def groups_of(plain: Any) -> FeatureGroups:
    """Return the groups of :func:`plain_groups`."""
    if not isinstance(plain, dict) or set(plain) - {"shared", "requires"} != {"names", "columns", "costs", "remainder"}:
        raise ValueError("feature groups need names, columns, costs and remainder")
    names, columns, costs = plain["names"], plain["columns"], plain["costs"]
    if not all(isinstance(part, list) for part in (names, columns, costs)):
        raise ValueError("names, columns and costs of feature groups must be lists")
    if not (len(names) == len(columns) == len(costs) == len(set(map(str, names)))):
        raise ValueError("feature groups need one set of columns and one cost for every name")
    members = [c for group in columns for c in (group if isinstance(group, list) else [None])]
    if not all(type(name) is str for name in names) or not all(type(c) in (str, int) for c in members):
        raise ValueError("names of feature groups must be texts, and their columns names or positions")
    if not all(type(cost) is float for cost in costs) or not isinstance(plain["remainder"], str):
        raise ValueError("costs of feature groups must be numbers, and their remainder a word")
    remainder: Any = plain["remainder"]
    shared = {name: (cost, sharing) for name, cost, sharing in _listed(plain, "shared", str, float, list)}
    requires = dict(_listed(plain, "requires", str, list))
    given = dict(zip(names, columns, strict=True))
    groups = FeatureGroups(given, costs, remainder=remainder, shared=shared, requires=requires)
    if plain_groups(groups) != plain:  # names given twice, members out of order, and the like
        raise ValueError("feature groups are not in the form in which they are written")
    return groups


def _listed(plain: dict[str, Any], key: str, *kinds: type) -> list[list[Any]]:
    """Return what groups share or require, if anything: entries of these types, the last a list of texts."""
    found = plain.get(key, [])
    if not isinstance(found, list) or not all(
        isinstance(entry, list) and tuple(map(type, entry)) == kinds and all(type(name) is str for name in entry[-1])
        for entry in found
    ):
        raise ValueError(f"{key} of feature groups is not as it is written")
    return found
