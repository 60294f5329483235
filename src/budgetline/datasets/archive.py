"""Read the data files that ship with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_archive(name: str) -> dict[str, NDArray[Any]]:
    """Read every array of ``data/<name>.npz``; pickled objects are refused.

    Parameters
    ----------
    name : str
        Name of the archive without its ending.

    Returns
    -------
    dict of str to ndarray
        The arrays by name.
    """
    resource = files("budgetline.datasets").joinpath("data", f"{name}.npz")
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def unscale(integers: NDArray[np.int32], decimals: NDArray[np.int8]) -> NDArray[np.float64]:
    """Give back the decimal numbers stored as integers.

    Parameters
    ----------
    integers : ndarray of shape (n_samples, n_features)
        Each value times ten to the number of decimals of its column.
    decimals : ndarray of shape (n_features,)
        Number of decimals of each column.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        The values. The division rounds once, so they equal the doubles that the printed numbers denote.
    """
    values: NDArray[np.float64] = np.ascontiguousarray(integers / 10.0**decimals)
    return values
