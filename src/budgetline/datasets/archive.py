"""The data files that ship with the package, and the object that every loader returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from budgetline.arrays import Array, Float
from budgetline.groups import FeatureGroups
from budgetline.messages import shown


def read_archive(name: str) -> dict[str, Array]:
    """Return every array of ``data/<name>.npz`` by name; pickled objects are refused."""
    resource = files("budgetline.datasets").joinpath("data", f"{name}.npz")
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def unscale(integers: NDArray[np.int32], decimals: NDArray[np.int8]) -> Float:
    """Return the decimal numbers (n, D) stored as integers, each times ten to the number of decimals of its column.

    The division rounds once, so the results equal the doubles that the printed numbers denote.
    """
    values: Float = np.ascontiguousarray(integers / 10.0**decimals)
    return values


def check_option(name: str, value: object, options: tuple[str, str]) -> None:
    """Raise an error unless ``value`` is one of two options."""
    if value not in options:
        raise ValueError(f"{name} must be {shown(options[0])} or {shown(options[1])}, got {shown(value)}")


def make_bunch(
    data: Float,
    target: Array,
    target_name: str,
    feature_names: Sequence[str],
    members: Mapping[str, Sequence[str]],
    costs: Mapping[str, float],
    *,
    as_frame: bool,
    shared: Mapping[str, tuple[float, Sequence[str]]] | None = None,
    requires: Mapping[str, Sequence[str]] | None = None,
    **extra: object,
) -> Bunch:
    """Return what a loader returns: data, target, frame, feature_names, feature_groups and ``extra``.

    ``members`` are the column names of each group; ``costs`` may also hold those of other groups. If ``as_frame``,
    data and target are pandas objects and the groups hold column names, else positions.
    """
    table, labels, frame = data, target, None
    groups: dict[str, list[str]] | dict[str, list[int]] = {group: list(names) for group, names in members.items()}
    if as_frame:
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ImportError("as_frame=True needs pandas: pip install 'budgetline[pandas]'") from error
        table = pandas.DataFrame(data, columns=list(feature_names))
        labels = pandas.Series(target, name=target_name)
        frame = table.assign(**{target_name: labels})
    else:
        position = {name: index for index, name in enumerate(feature_names)}
        groups = {group: [position[name] for name in names] for group, names in members.items()}
    priced = FeatureGroups(groups, {group: costs[group] for group in groups}, shared=shared, requires=requires)
    names = list(feature_names)
    return Bunch(data=table, target=labels, frame=frame, feature_names=names, feature_groups=priced, **extra)
