"""The UCI heart disease data with Turney's prices."""

from __future__ import annotations

from typing import Literal

import numpy as np
from sklearn.utils import Bunch

from budgetline.arrays import Float
from budgetline.datasets.archive import check_option, make_bunch, read_archive
from budgetline.datasets.encoding import Column, Kind, drop_redundant, encode_feature

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("age", "trestbps", "chol", "thalach", "oldpeak", "ca"), "numeric"),
    **dict.fromkeys(("sex", "fbs", "exang"), "binary"),
    **dict.fromkeys(("cp", "restecg", "slope", "thal"), "categorical"),
}

# The price and the tests of each medical procedure. Turney charges the first test of a procedure in full and the others
# at a discount; this is the price of the whole procedure, which does not depend on the order.
PROCEDURES = {
    "age": (1.00, ("age",)),
    "sex": (1.00, ("sex",)),
    "cp": (1.00, ("cp",)),
    "trestbps": (1.00, ("trestbps",)),
    "blood": (10.37, ("chol", "fbs")),
    "ecg": (15.50, ("restecg",)),
    "thallium": (103.90, ("thalach", "thal")),
    "exercise": (89.30, ("exang", "oldpeak", "slope")),
    "fluoroscopy": (100.90, ("ca",)),
}
MEMBERS = {group: tests for group, (_, tests) in PROCEDURES.items()}
COSTS = {group: cost for group, (cost, _) in PROCEDURES.items()}

# Turney's own prices of single tests: the tests of a procedure share what its first test costs more.
SINGLE_COSTS = {
    "chol": 5.17,
    "fbs": 3.10,
    **dict.fromkeys(("thalach", "thal", "exang", "oldpeak", "slope"), 1.00),
}
SHARED = {
    "blood draw": (2.10, ("chol", "fbs")),
    "thallium scan": (101.90, ("thalach", "thal")),
    "exercise test": (86.30, ("exang", "oldpeak", "slope")),
}

# No living patient has either: outside Cleveland (123 + 49 and 1 rows) zero stands for "not measured".
ZERO_IS_MISSING = ("trestbps", "chol")

DESCR = """\
Heart disease (angiographic status) with the prices of the tests

Target: 1 if any major vessel is narrowed by more than 50 % (UCI's num > 0), else 0.
Rows: Cleveland 303, or 920 with Hungary 294, Switzerland 123 and VA Long Beach 200, in this order.
Features: age, sex, cp (chest pain type 1-4, 4 = asymptomatic), trestbps (resting blood pressure), chol
(serum cholesterol), fbs (fasting blood sugar > 120 mg/dl), restecg (resting ECG 0-2), thalach (maximum
heart rate), exang (angina under exercise), oldpeak (ST depression under exercise), slope (of the ST
segment 1-3), ca (major vessels coloured by fluoroscopy), thal (thallium scan: 3 normal, 6 fixed, 7
reversible defect). cp, restecg, slope and thal are one-hot without the most frequent level. Missing values
are the median or the most frequent value, with a 0/1 column "feature=missing"; trestbps = 0 and chol = 0
count as missing. Outside Cleveland thal, slope and above all ca are mostly missing, and whether they are
says much about the site. Groups: nine procedures. Costs: Canadian dollars, total 323.97; tests of one
procedure share its price. With tests="single" there is one group per test, and the tests of a procedure
share what its first test costs more: blood draw 2.10, thallium scan 101.90, exercise test 86.30.

Source: Janosi, Steinbrunn, Pfisterer and Detrano (1988), UCI Machine Learning Repository, dataset 45,
https://doi.org/10.24432/C52P4X. Licence: CC BY 4.0. Principal investigators: Andras Janosi, M.D.
(Budapest); William Steinbrunn, M.D. (Zurich); Matthias Pfisterer, M.D. (Basel); Robert Detrano, M.D.,
Ph.D. (Long Beach and Cleveland). Prices: Turney (1995), JAIR 2, 369-409, from the Ontario Health Insurance
Program's fee schedule.
"""


def load_heart(
    *,
    sites: Literal["cleveland", "all"] = "cleveland",
    tests: Literal["panel", "single"] = "panel",
    as_frame: bool = False,
) -> Bunch:
    """Load the UCI heart disease data with Turney's prices of medical tests.

    Parameters
    ----------
    sites : {"cleveland", "all"}, default="cleveland"
        The 303 patients of Cleveland, or the 920 of all four hospitals.
    tests : {"panel", "single"}, default="panel"
        One group per procedure, or one per test: tests of one procedure then share its cost.
    as_frame : bool, default=False
        Return pandas objects, and groups of column names instead of positions.

    Returns
    -------
    sklearn.utils.Bunch
        - data : ndarray or DataFrame of shape (n_samples, n_features), float64
        - target : ndarray or Series of shape (n_samples,), 1 for disease and 0 for none
        - feature_names : list of str
        - feature_groups : FeatureGroups, nine procedures or thirteen tests, costs in Canadian dollars
        - site : ndarray of str of shape (n_samples,), the hospital
        - frame : DataFrame of data and target, or None
        - DESCR : str, with the source, licence and citation

    Examples
    --------
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> heart.data.shape, heart.feature_groups.names[4:7]
    ((303, 20), ('blood', 'ecg', 'thallium'))
    >>> print(round(float(heart.feature_groups.costs.sum()), 2))
    323.97
    >>> load_heart(tests="single").feature_groups
    FeatureGroups(13 groups, 20 columns, total cost 323.97)
    """
    check_option("sites", sites, ("cleveland", "all"))
    check_option("tests", tests, ("panel", "single"))
    archive = read_archive("heart")
    rows = np.full(len(archive["site"]), True) if sites == "all" else archive["site"] == "cleveland"
    raw = dict(zip(archive["columns"].tolist(), archive["values"][rows].T, strict=True))
    groups = _encoded(raw, MEMBERS if tests == "panel" else _single_members())
    columns = [column for group in groups.values() for column in group]
    return make_bunch(
        np.column_stack([column.values for column in columns]),
        (raw["num"] > 0).astype(np.int64),
        feature_names=[column.name for column in columns],
        members={group: [column.name for column in own] for group, own in groups.items()},
        costs=COSTS | SINGLE_COSTS,
        shared=SHARED if tests == "single" else None,
        target_name="disease",
        descr=DESCR,
        as_frame=as_frame,
        site=archive["site"][rows],
    )


def _encoded(raw: dict[str, Float], members: dict[str, tuple[str, ...]]) -> dict[str, list[Column]]:
    """Return the columns of every group."""
    known = raw | {name: np.where(raw[name] == 0, np.nan, raw[name]) for name in ZERO_IS_MISSING}
    return {
        group: drop_redundant([c for name in features for c in encode_feature(name, known[name], KINDS[name])])
        for group, features in members.items()
    }


def _single_members() -> dict[str, tuple[str, ...]]:
    """Return one group per test; a procedure of one test keeps its name."""
    found: dict[str, tuple[str, ...]] = {}
    for group, tests in MEMBERS.items():
        found |= {group: tests} if len(tests) == 1 else {test: (test,) for test in tests}
    return found
