"""Loaders of the data sets that ship with the package; ``data/*.txt`` describe them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from budgetline.arrays import Array, Float
from budgetline.groups import FeatureGroups
from budgetline.messages import shown, some
from budgetline.packages import imported

T = TypeVar("T")
DATA = files("budgetline.datasets").joinpath("data")
FeatureKind = Literal["numeric", "binary", "categorical"]


def load_bank() -> Bunch:
    """Load a sample of the UCI bank marketing data as a raw, unprocessed table of text and numbers.

    Returns
    -------
    sklearn.utils.Bunch
        Dictionary-like object with the fields data, a pandas DataFrame of shape (1131, 16); target, "yes" or "no";
        frame, a DataFrame with both; feature_names; filename, the CSV file from which the data were read; and DESCR,
        with the source, licence and citation.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier
    >>> from budgetline.datasets import load_bank
    >>> bank = load_bank()
    >>> model = AnytimeClassifier(encoding="spline", rule="score").fit(bank.data, bank.target)
    >>> model.sequence_.groups[:3]
    ('duration', 'poutcome', 'month')
    """
    filename = str(DATA.joinpath("bank.csv.gz"))
    frame = imported("pandas", "load_bank needs pandas", "pandas").read_csv(filename)
    data = frame.drop(columns="y")
    about = {"feature_names": data.columns.tolist(), "filename": filename, "DESCR": _description("bank")}
    return Bunch(data=data, target=frame["y"], target_name="y", frame=frame, **about)


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
        Whether to load the 303 patients from Cleveland or the 920 patients from all four hospitals.
    tests : {"panel", "single"}, default="panel"
        Whether to form one group per procedure or one group per test. With "single", the tests of a procedure share its
        cost.
    as_frame : bool, default=False
        Whether to return pandas objects. The groups then contain column names instead of positions.

    Returns
    -------
    sklearn.utils.Bunch
        Dictionary-like object with the fields data, of shape (n_samples, n_features); target, 1 for disease and 0 for
        no disease; feature_names; target_name; feature_groups, nine procedures or thirteen tests with costs in Canadian
        dollars; site, the hospital of each row; frame, a DataFrame of data and target, or None; and DESCR, with the
        source, licence and citation.

    Examples
    --------
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> heart.data.shape, heart.feature_groups
    ((303, 20), FeatureGroups(9 groups, 20 columns, total cost 323.97))
    >>> load_heart(tests="single").feature_groups
    FeatureGroups(13 groups, 20 columns, total cost 323.97)
    """
    _check_option("sites", sites, ("cleveland", "all"))
    _check_option("tests", tests, ("panel", "single"))
    archive, facts = read_archive("heart"), _facts("heart")
    rows = np.full(len(archive["site"]), True) if sites == "all" else archive["site"] == "cleveland"
    raw = dict(zip(archive["columns"].tolist(), archive["values"][rows].T, strict=True))
    # no living patient has either: outside Cleveland zero means "not measured"
    known = raw | {name: np.where(raw[name] == 0, np.nan, raw[name]) for name in ("trestbps", "chol")}
    kinds = {name: kind for kind, names in facts["kinds"].items() for name in names}
    procedures = {group: own for group, (_, own) in facts["procedures"].items()}
    # with one group per test, a procedure of one test keeps its name
    single = {test if len(own) > 1 else group: (test,) for group, own in procedures.items() for test in own}
    members: dict[str, list[str]] = {}
    columns: dict[str, Float] = {}
    for group, features in (single if tests == "single" else procedures).items():
        own = group_columns({name: known[name] for name in features}, kinds)
        members[group], columns = list(own), columns | own
    # Turney charges the first test of a procedure in full, the others at a discount: single tests share the difference
    costs = {group: cost for group, (cost, _) in facts["procedures"].items()} | facts["single costs"]
    groups = FeatureGroups(members, _of(members, costs), shared=facts["shared"] if tests == "single" else None)
    data, target = np.column_stack(list(columns.values())), (raw["num"] > 0).astype(np.int64)
    return _bunch("heart", data, list(columns), groups, target, "disease", as_frame, site=archive["site"][rows])


def load_mfeat(*, as_frame: bool = False) -> Bunch:
    """Load the UCI Multiple Features data: handwritten digits, described by six families of features.

    No prices are published for these features, so the cost of a family is its number of features.

    Parameters
    ----------
    as_frame : bool, default=False
        Whether to return pandas objects. The groups then contain column names instead of positions.

    Returns
    -------
    sklearn.utils.Bunch
        The same fields as for `load_heart`, but with group_titles (a readable title for each family) instead of site.
        ``data`` has the shape (2000, 649), and ``target`` is the digit. The rows are sorted by digit. The column
        ``"fou_000"`` is the first Fourier coefficient.

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
    data = _unscaled(np.asarray(whole + archive["lowest"], dtype=np.int32), archive["decimals"])
    names = [name for own in members.values() for name in own]
    groups = FeatureGroups(members, {family: float(len(own)) for family, own in members.items()})
    target = archive["target"].astype(np.int64)
    return _bunch("mfeat", data, names, groups, target, "digit", as_frame, group_titles=_facts("mfeat")["titles"])


def load_nhanes(*, as_frame: bool = False, drop: str | Iterable[str] = ()) -> Bunch:
    """Load the NHANES 2017-2018 data for predicting the HbA1c of adults from survey components with costs.

    Parameters
    ----------
    as_frame : bool, default=False
        Whether to return pandas objects. The groups then contain column names instead of positions.
    drop : str or iterable of str, default=()
        Components to leave out, for instance ``("DIQ",)``, the questions about diabetes itself.

    Returns
    -------
    sklearn.utils.Bunch
        The same fields as for `load_heart`, but with group_titles (a readable title for each component) instead of
        site. Without `drop`, ``data`` has the shape (5018, 250). ``target`` is HbA1c in percent. ``feature_groups``
        contains up to 22 components, whose costs are inconvenience scores.

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
        raise ValueError(f"drop has unknown components {some(unknown)}; the known components are {', '.join(costs)}")
    kept = [group for group in costs if group not in dropped]
    if not kept:
        raise ValueError("drop removes all components")
    columns = np.flatnonzero(np.isin(archive["component"], kept))
    names, component = archive["columns"][columns], archive["component"][columns]
    data = _unscaled(archive["values"][:, columns], archive["decimals"][columns])
    groups = FeatureGroups({group: names[component == group].tolist() for group in kept}, _of(kept, costs))
    titles = _of(kept, _facts("nhanes")["titles"])
    return _bunch("nhanes", data, names.tolist(), groups, archive["target"], "LBXGH", as_frame, group_titles=titles)


def load_thyroid(*, tests: Literal["panel", "single"] = "panel", as_frame: bool = False) -> Bunch:
    """Load the UCI thyroid data with Turney's prices of questions and blood tests.

    Parameters
    ----------
    tests : {"panel", "single"}, default="panel"
        Whether to put all five blood tests into one group or each into its own group. With "single", the four assays
        share the cost of the blood draw. FTI, which is computed from TT4 and T4U, is free but requires both.
    as_frame : bool, default=False
        Whether to return pandas objects. The groups then contain column names instead of positions.

    Returns
    -------
    sklearn.utils.Bunch
        The same fields as for `load_heart`, but with is_test (which marks the rows of UCI's test set) instead of site.
        ``data`` has the shape (7200, 21), and ``target`` is the class 1, 2 or 3. ``feature_groups`` contains sixteen
        questions and either one blood panel or five blood tests, with costs in Canadian dollars.

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
    _check_option("tests", tests, ("panel", "single"))
    archive, facts = read_archive("thyroid"), _facts("thyroid")
    names, blood = archive["columns"].tolist(), list(facts["costs"])
    members: dict[str, list[str]] = {name: [name] for name in names if name not in blood}
    costs = dict.fromkeys(members, 1.0)
    if tests == "single":  # one blood draw and four assays; FTI is computed from two of them and costs nothing more
        members |= {name: [name] for name in blood}
        groups = FeatureGroups(members, costs | facts["costs"], shared=facts["shared"], requires=facts["requires"])
    else:
        groups = FeatureGroups(members | {"blood": blood}, costs | {"blood": facts["panel cost"]})
    data, target = _unscaled(archive["values"], archive["decimals"]), archive["target"].astype(np.int64)
    return _bunch("thyroid", data, names, groups, target, "class", as_frame, is_test=archive["is_test"])


# -- what the loaders share ------------------------------------------------------------------------------------


def _bunch(
    name: str,
    data: Float,
    names: list[str],
    groups: FeatureGroups,
    target: Array,
    target_name: str,
    as_frame: bool,
    **extra: object,
) -> Bunch:
    """Return what a loader returns; if ``as_frame``, pandas objects and groups of names, otherwise of positions."""
    about = {"feature_names": names, "target_name": target_name, "DESCR": _description(name), **extra}
    if not as_frame:
        columns = groups.resolve(names, len(names)).columns
        positions = {group: own.tolist() for group, own in zip(groups.names, columns, strict=True)}
        placed = FeatureGroups(positions, groups.costs, shared=groups.shared, requires=groups.requires)
        return Bunch(data=data, target=target, frame=None, feature_groups=placed, **about)
    pandas = imported("pandas", "as_frame=True needs pandas", "pandas")
    table, labels = pandas.DataFrame(data, columns=names), pandas.Series(target, name=target_name)
    frame = table.assign(**{target_name: labels})
    return Bunch(data=table, target=labels, frame=frame, feature_groups=groups, **about)


def _of(groups: Iterable[str], found: Mapping[str, T]) -> dict[str, T]:
    return {group: found[group] for group in groups}


def _description(name: str) -> str:
    return DATA.joinpath(f"{name}.txt").read_text(encoding="utf-8")


def _facts(name: str) -> dict[str, Any]:
    """Return prices and readable titles of groups; those of NHANES are after the titles of the CDC's data files."""
    found: dict[str, Any] = json.loads(DATA.joinpath("facts.json").read_text(encoding="utf-8"))[name]
    return found


def _check_option(name: str, value: object, options: tuple[str, str]) -> None:
    if value not in options:
        raise ValueError(f"{name} must be {shown(options[0])} or {shown(options[1])}, got {shown(value)}")


def read_archive(name: str) -> dict[str, Array]:
    """Return every array of ``data/<name>.npz`` by name; pickled objects are refused."""
    with DATA.joinpath(f"{name}.npz").open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _unscaled(integers: NDArray[np.int32], decimals: NDArray[np.int8]) -> Float:
    """Return the decimal numbers (n, D) stored as integers, each times ten to the number of decimals of its column.

    The division rounds once, so the results equal the doubles that the printed numbers denote.
    """
    values: Float = np.ascontiguousarray(integers / 10.0**decimals)
    return values


def group_columns(features: Mapping[str, Float], kinds: Mapping[str, FeatureKind]) -> dict[str, Float]:
    """Return the coded columns of a group, without those that are constant or repeat an earlier one exactly."""
    kept: dict[str, Float] = {}
    for feature, values in features.items():
        for name, column in encode_feature(feature, values, kinds[feature]).items():
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
