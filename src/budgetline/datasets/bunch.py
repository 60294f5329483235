"""Put a loaded matrix, its target and its priced groups into the object that every loader returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from budgetline.groups import FeatureGroups


def make_bunch(
    data: NDArray[np.float64],
    target: NDArray[Any],
    *,
    feature_names: Sequence[str],
    members: Mapping[str, Sequence[str]],
    costs: Mapping[str, float],
    target_name: str,
    descr: str,
    as_frame: bool,
    shared: Mapping[str, tuple[float, Sequence[str]]] | None = None,
    requires: Mapping[str, Sequence[str]] | None = None,
    **extra: object,
) -> Bunch:
    """Assemble the Bunch of a loader.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features)
    target : ndarray of shape (n_samples,)
    feature_names : sequence of str
    members : mapping of str to sequence of str
        The column names of each group.
    costs : mapping of str to float
    target_name, descr : str
    as_frame : bool
        Whether `data` becomes a pandas DataFrame and the groups use column names.
    shared, requires : mapping, optional
        Costs that groups share, and groups that require others, as in FeatureGroups.
    **extra : object
        Further entries of the Bunch.

    Returns
    -------
    sklearn.utils.Bunch
        With `data`, `target`, `frame`, `feature_names`, `feature_groups`, `DESCR` and `extra`.
    """
    names = list(feature_names)
    table: Any = data
    labels: Any = target
    frame: Any = None
    groups: dict[str, Any] = {group: list(columns) for group, columns in members.items()}
    if as_frame:
        pandas = _import_pandas()
        table = pandas.DataFrame(data, columns=names)
        labels = pandas.Series(target, name=target_name)
        frame = table.assign(**{target_name: labels})
    else:
        position = {name: index for index, name in enumerate(names)}
        groups = {group: [position[name] for name in columns] for group, columns in members.items()}
    own = {group: float(costs[group]) for group in groups}
    return Bunch(
        data=table,
        target=labels,
        frame=frame,
        feature_names=names,
        feature_groups=FeatureGroups(groups, own, shared=shared, requires=requires),
        DESCR=descr,
        **extra,
    )


def _import_pandas() -> Any:
    # Only as_frame=True needs pandas, which is an optional dependency.
    try:
        import pandas
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install 'budgetline[pandas]'") from error
    return pandas
