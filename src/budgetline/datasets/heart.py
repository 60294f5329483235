"""The UCI heart disease data with Turney's prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from sklearn.utils import Bunch

from budgetline.arrays import Float
from budgetline.datasets.archive import check_option, make_bunch, read_archive

FeatureKind = Literal["numeric", "binary", "categorical"]
KINDS: dict[str, FeatureKind] = {
    **dict.fromkeys(("age", "trestbps", "chol", "thalach", "oldpeak", "ca"), "numeric"),
    **dict.fromkeys(("sex", "fbs", "exang"), "binary"),
    **dict.fromkeys(("cp", "restecg", "slope", "thal"), "categorical"),
}
# Turney charges the first test of a procedure in full and the others at a discount; this is the price of the whole
# procedure, which does not depend on the order.
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
# Turney's prices of single tests: the tests of a procedure share what its first test costs more.
SINGLE_COSTS = {"chol": 5.17, "fbs": 3.10, "thalach": 1.0, "thal": 1.0, "exang": 1.0, "oldpeak": 1.0, "slope": 1.0}
SHARED = {
    "blood draw": (2.10, ("chol", "fbs")),
    "thallium scan": (101.90, ("thalach", "thal")),
    "exercise test": (86.30, ("exang", "oldpeak", "slope")),
}
# No living patient has either: outside Cleveland (123 + 49 and 1 rows) zero means "not measured".
ZERO_IS_MISSING = ("trestbps", "chol")

DESCR = """\
Heart disease (angiographic status) with the prices of the tests

Target: 1 if any major vessel is narrowed by more than 50 % (UCI's num > 0), else 0.
Rows: Cleveland 303, or 920 with Hungary 294, Switzerland 123 and VA Long Beach 200, in this order.
Features: age, sex, cp (chest pain type 1-4, 4 = asymptomatic), trestbps (resting blood pressure), chol (serum
cholesterol), fbs (fasting blood sugar > 120 mg/dl), restecg (resting ECG 0-2), thalach (maximum heart rate), exang
(angina under exercise), oldpeak (ST depression under exercise), slope (of the ST segment 1-3), ca (major vessels
coloured by fluoroscopy), thal (thallium scan: 3 normal, 6 fixed, 7 reversible defect). cp, restecg, slope and thal
are one-hot without the most frequent category. Missing values are the median or the most frequent value, with a 0/1
column "feature=missing"; trestbps = 0 and chol = 0 count as missing. Outside Cleveland thal, slope and above all ca
are mostly missing, and whether they are says much about the site.
Groups: nine procedures. Costs: Canadian dollars, total 323.97; tests of one procedure share its price. With
tests="single" there is one group per test, and the tests of a procedure share what its first test costs more: blood
draw 2.10, thallium scan 101.90, exercise test 86.30.

Source: Janosi, Steinbrunn, Pfisterer and Detrano (1988), UCI Machine Learning Repository, dataset 45,
https://doi.org/10.24432/C52P4X. Licence: CC BY 4.0. Principal investigators: Andras Janosi, M.D. (Budapest); William
Steinbrunn, M.D. (Zurich); Matthias Pfisterer, M.D. (Basel); Robert Detrano, M.D., Ph.D. (Long Beach and Cleveland).
Prices: Turney (1995), JAIR 2, 369-409, from the Ontario Health Insurance Program's fee schedule.
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
        data (n_samples, n_features); target, 1 for disease and 0 for none; feature_names; feature_groups, nine
        procedures or thirteen tests, costs in Canadian dollars; site, the hospital of each row; frame, a DataFrame of
        data and target or None; DESCR, with the source, licence and citation.

    Examples
    --------
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> heart.data.shape, heart.feature_groups
    ((303, 20), FeatureGroups(9 groups, 20 columns, total cost 323.97))
    >>> load_heart(tests="single").feature_groups
    FeatureGroups(13 groups, 20 columns, total cost 323.97)
    """
    check_option("sites", sites, ("cleveland", "all"))
    check_option("tests", tests, ("panel", "single"))
    archive = read_archive("heart")
    rows = np.full(len(archive["site"]), True) if sites == "all" else archive["site"] == "cleveland"
    raw = dict(zip(archive["columns"].tolist(), archive["values"][rows].T, strict=True))
    known = raw | {name: np.where(raw[name] == 0, np.nan, raw[name]) for name in ZERO_IS_MISSING}
    # with one group per test, a procedure of one test keeps its name
    single = {test if len(own) > 1 else group: (test,) for group, own in MEMBERS.items() for test in own}
    members: dict[str, list[str]] = {}
    columns: dict[str, Float] = {}
    for group, features in (single if tests == "single" else MEMBERS).items():
        own = group_columns({name: known[name] for name in features})
        members[group], columns = list(own), columns | own
    costs = {group: cost for group, (cost, _) in PROCEDURES.items()} | SINGLE_COSTS
    data, target = np.column_stack(list(columns.values())), (raw["num"] > 0).astype(np.int64)
    shared, site = SHARED if tests == "single" else None, archive["site"][rows]
    return make_bunch(
        data, target, "disease", list(columns), members, costs, as_frame=as_frame, shared=shared, site=site, DESCR=DESCR
    )


def group_columns(features: Mapping[str, Float]) -> dict[str, Float]:
    """Return the coded columns of a group, without those that are constant or repeat an earlier one exactly."""
    kept: dict[str, Float] = {}
    for feature, values in features.items():
        for name, column in encode_feature(feature, values, KINDS[feature]).items():
            if np.ptp(column) > 0 and not any(np.array_equal(column, other) for other in kept.values()):
                kept[name] = column
    return kept


def encode_feature(name: str, values: Float, kind: FeatureKind) -> dict[str, Float]:
    """Return numeric columns, by name, for a raw feature (n,) that is NaN where it is missing.

    A missing value becomes the median (numeric) or the most frequent value (binary, categorical), and a 0/1 column
    ``name=missing`` says where. A categorical feature becomes a 0/1 column ``name=value`` per value but the commonest.
    """
    missing = np.isnan(values)
    distinct, counts = np.unique(values[~missing], return_counts=True)
    mode = distinct[np.argmax(counts)]
    filled = np.where(missing, np.median(values[~missing]) if kind == "numeric" else mode, values)
    columns = {name: filled}
    if kind == "categorical":
        columns = {f"{name}={value:g}": (filled == value).astype(float) for value in distinct if value != mode}
    return columns | ({f"{name}=missing": missing.astype(float)} if missing.any() else {})
