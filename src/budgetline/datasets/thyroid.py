"""The UCI thyroid data (ann-thyroid) with Turney's prices."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch

from budgetline.datasets.archive import check_option, make_bunch, read_archive, unscale

ASSAYS = ("TSH", "T3", "TT4", "T4U")
BLOOD = (*ASSAYS, "FTI")
# One blood draw and four assays; FTI is computed from TT4 and T4U and costs nothing more.
DRAW_COST = 2.10
ASSAY_COSTS = {"TSH": 20.68, "T3": 9.31, "TT4": 12.41, "T4U": 9.31, "FTI": 0.00}
BLOOD_COST = 53.81
QUESTION_COST = 1.00

DESCR = """\
Thyroid disease with the prices of questions and blood tests

Target: class 1, 2 or 3; 3 (normal, 92.6 %) is the large one.
Rows: 7200; is_test marks the 3428 of UCI's test file. Features: 21, six continuous (scaled by the donors) and fifteen
0/1; nothing is missing. 71 rows repeat another row.
Groups: sixteen questions, and one blood panel {TSH, T3, TT4, T4U, FTI}. Costs: Canadian dollars; a question 1, the
panel 53.81 = 2.10 for the draw + 20.68 + 9.31 + 12.41 + 9.31; total 69.81. FTI is computed from TT4 and T4U. With
tests="single" every test is a group of its own: TSH, T3, TT4 and T4U share the draw, and FTI is free but requires TT4
and T4U.

Source: Quinlan (1986), UCI Machine Learning Repository, dataset 102 (Thyroid Disease, files ann-train.data and
ann-test.data), https://doi.org/10.24432/C5D010. Licence: CC BY 4.0. Prices: Turney (1995), JAIR 2, 369-409, from the
Ontario Health Insurance Program's fee schedule.
"""


def load_thyroid(*, tests: Literal["panel", "single"] = "panel", as_frame: bool = False) -> Bunch:
    """Load the UCI thyroid data with Turney's prices of questions and blood tests.

    Parameters
    ----------
    tests : {"panel", "single"}, default="panel"
        One group of all five blood tests, or one group each: the four assays share the cost of the blood draw, and FTI,
        which is computed from TT4 and T4U, is free but requires both.
    as_frame : bool, default=False
        Return pandas objects, and groups of column names instead of positions.

    Returns
    -------
    sklearn.utils.Bunch
        data (7200, 21); target, the class 1, 2 or 3; is_test, UCI's test rows; feature_names; feature_groups, sixteen
        questions and a blood panel or five tests, costs in Canadian dollars; frame, a DataFrame of data and target or
        None; DESCR, with the source, licence and citation.

    Examples
    --------
    >>> from budgetline.datasets import load_thyroid
    >>> thyroid = load_thyroid()
    >>> thyroid.data[~thyroid.is_test].shape
    (3772, 21)
    >>> thyroid.feature_groups.names[-1], float(thyroid.feature_groups.costs[-1])
    ('blood', 53.81)
    >>> tests = load_thyroid(tests="single").feature_groups
    >>> tests.shared, tests.requires
    ({'blood draw': (2.1, ('TSH', 'T3', 'TT4', 'T4U'))}, {'FTI': ('TT4', 'T4U')})
    """
    check_option("tests", tests, ("panel", "single"))
    archive = read_archive("thyroid")
    names = archive["columns"].tolist()
    questions = [name for name in names if name not in BLOOD]
    members: dict[str, tuple[str, ...]] = {name: (name,) for name in questions} | {"blood": BLOOD}
    extra: dict[str, Any] = {"is_test": archive["is_test"], "DESCR": DESCR}
    if tests == "single":
        members = {name: (name,) for name in (*questions, *BLOOD)}
        extra |= {"shared": {"blood draw": (DRAW_COST, ASSAYS)}, "requires": {"FTI": ("TT4", "T4U")}}
    costs = dict.fromkeys(questions, QUESTION_COST) | ASSAY_COSTS | {"blood": BLOOD_COST}
    data, target = unscale(archive["values"], archive["decimals"]), archive["target"].astype(np.int64)
    return make_bunch(data, target, "class", names, members, costs, as_frame=as_frame, **extra)
