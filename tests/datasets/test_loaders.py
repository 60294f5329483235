"""The loaders: shapes, published costs, coding of missing values, frames and error messages."""

import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import budgetline.datasets
from budgetline.datasets import load_bank, load_heart, load_mfeat, load_nhanes, load_thyroid
from budgetline.datasets.loaders import encode_feature, group_columns, read_archive

LOADERS = {
    "cleveland": load_heart,
    "all sites": lambda **options: load_heart(sites="all", **options),
    "thyroid": load_thyroid,
    "nhanes": load_nhanes,
    "mfeat": load_mfeat,
    "nhanes without DIQ": lambda **options: load_nhanes(drop=("DIQ",), **options),
}


@pytest.fixture(params=LOADERS)
def load(request):
    return LOADERS[request.param]


def columns_of(groups, name):
    return groups.columns[groups.names.index(name)]


def test_the_package_exports_five_names():
    loaders = {"load_bank", "load_heart", "load_mfeat", "load_nhanes", "load_thyroid"}
    assert set(budgetline.datasets.__all__) == loaders


def test_data_are_finite_float64_and_not_constant(load):
    bunch = load()
    assert bunch.data.dtype == np.float64
    assert bunch.data.flags.c_contiguous
    assert bunch.data.shape == (len(bunch.target), len(bunch.feature_names))
    assert np.isfinite(bunch.data).all()
    assert np.isfinite(bunch.target).all()
    assert (np.ptp(bunch.data, axis=0) > 0).all()
    assert bunch.frame is None


def test_every_column_is_in_exactly_one_group(load):
    bunch = load()
    members = [column for group in bunch.feature_groups.columns for column in group]
    assert sorted(members) == list(range(bunch.data.shape[1]))
    assert len(set(bunch.feature_names)) == len(bunch.feature_names)


def test_frame_holds_the_same_data_and_groups_by_name(load):
    pandas = pytest.importorskip("pandas")
    array, frame = load(), load(as_frame=True)
    assert isinstance(frame.data, pandas.DataFrame)
    assert isinstance(frame.target, pandas.Series)
    assert list(frame.data.columns) == array.feature_names
    np.testing.assert_array_equal(frame.data.to_numpy(), array.data)
    np.testing.assert_array_equal(frame.target.to_numpy(), array.target)
    assert list(frame.frame.columns) == [*array.feature_names, frame.target.name]
    assert frame.feature_groups.names == array.feature_groups.names
    np.testing.assert_array_equal(frame.feature_groups.costs, array.feature_groups.costs)
    for by_name, by_position in zip(frame.feature_groups.columns, array.feature_groups.columns, strict=True):
        assert list(by_name) == [array.feature_names[position] for position in by_position]


def test_without_pandas_the_message_says_what_to_install(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[pandas\]'"):
        load(as_frame=True)
    assert len(load().data) > 0


def test_description_names_source_licence_groups_and_costs(load):
    description = load().DESCR
    for word in ("Source:", "Licence:", "Groups:", "Costs:"):
        assert word in description


@pytest.mark.parametrize(
    "credit",
    [
        "Janosi",
        "Steinbrunn",
        "Pfisterer",
        "Detrano",
        "Quinlan",
        "Turney",
        "Kachuee",
        "Duin",
        "Moro",
        "Rita",
        "Cortez",
        "CC BY 4.0",
        "public domain",
    ],
)
def test_attribution_ships_with_the_data(credit):
    assert credit in files("budgetline.datasets").joinpath("data", "SOURCES.md").read_text(encoding="utf-8")


def test_shipped_files_are_small_and_hold_no_objects():
    sizes = {f.name: len(f.read_bytes()) for f in files("budgetline.datasets").joinpath("data").iterdir()}
    texts = {f"{name}.txt" for name in ("bank", "heart", "thyroid", "nhanes", "mfeat")} | {"SOURCES.md", "facts.json"}
    assert set(sizes) == {"bank.csv.gz", "heart.npz", "thyroid.npz", "nhanes.npz", "mfeat.npz"} | texts
    assert sum(sizes.values()) < 2_000_000
    for name in ("heart", "thyroid", "nhanes", "mfeat"):
        assert all(array.dtype.kind in "biufU" for array in read_archive(name).values())


# -- bank ------------------------------------------------------------------------------------------------


def test_bank_is_a_raw_table():
    bank = load_bank()
    assert bank.data.shape == (1131, 16)
    assert bank.frame.columns.tolist() == [*bank.feature_names, "y"]
    assert set(bank.target) == {"yes", "no"}
    assert 0.08 < (bank.target == "yes").mean() < 0.16
    assert (bank.data.dtypes != "int64").sum() == 9  # text
    for word in ("Source:", "Licence: CC BY 4.0", "Groups:", "Costs:"):
        assert word in bank.DESCR


def test_bank_needs_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[pandas\]'"):
        load_bank()


# -- heart -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sites", "rows", "positive"), [("cleveland", 303, 139), ("all", 920, 509)])
def test_heart_rows_and_diagnoses(sites, rows, positive):
    heart = load_heart(sites=sites)
    assert len(heart.data) == rows
    assert heart.target.sum() == positive
    assert set(heart.target.tolist()) == {0, 1}
    assert heart.target.dtype == np.int64
    assert heart.site.shape == (rows,)


@pytest.mark.parametrize("sites", ["cleveland", "all"])
def test_heart_groups_have_turneys_prices(sites):
    groups = load_heart(sites=sites).feature_groups
    assert dict(zip(groups.names, groups.costs.tolist(), strict=True)) == {
        "age": 1.0, "sex": 1.0, "cp": 1.0, "trestbps": 1.0, "blood": 10.37, "ecg": 15.5, "thallium": 103.9,
        "exercise": 89.3, "fluoroscopy": 100.9,
    }  # fmt: skip
    assert groups.costs.sum() == pytest.approx(323.97, abs=1e-9)


def test_heart_cleveland_columns():
    heart = load_heart(as_frame=True)
    groups = heart.feature_groups
    assert columns_of(groups, "cp") == ("cp=1", "cp=2", "cp=3")  # 4 is the most frequent
    assert columns_of(groups, "thallium") == ("thalach", "thal=6", "thal=7", "thal=missing")
    assert columns_of(groups, "exercise") == ("exang", "oldpeak", "slope=2", "slope=3")
    assert columns_of(groups, "fluoroscopy") == ("ca", "ca=missing")
    assert heart.data["thal=missing"].sum() == 2
    assert heart.data["ca=missing"].sum() == 4
    assert set(heart.data.loc[heart.data["ca=missing"] == 1, "ca"]) == {0.0}


def test_heart_zero_pressure_and_cholesterol_are_missing():
    data = load_heart(sites="all", as_frame=True).data
    assert data["chol=missing"].sum() == 30 + 172  # "?" and zero
    assert data["trestbps=missing"].sum() == 59 + 1
    assert data["chol"].min() > 0
    assert data["trestbps"].min() > 0
    assert data["ca=missing"].sum() == 611


def test_heart_groups_hold_no_repeated_column():
    heart = load_heart(sites="all")
    for group in heart.feature_groups.columns:
        assert np.unique(heart.data[:, list(group)], axis=1).shape[1] == len(group)


def test_heart_rejects_unknown_sites():
    with pytest.raises(ValueError, match="sites must be 'cleveland' or 'all', got 'zurich'"):
        load_heart(sites="zurich")


# -- coding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("numeric", {"x": [1, 1, 2, 9, 1.5], "x=missing": [0, 0, 0, 0, 1]}),
        ("binary", {"x": [1, 1, 2, 9, 1], "x=missing": [0, 0, 0, 0, 1]}),
        ("categorical", {"x=2": [0, 0, 1, 0, 0], "x=9": [0, 0, 0, 1, 0], "x=missing": [0, 0, 0, 0, 1]}),
    ],
)
def test_coding_of_a_feature_with_a_missing_value(kind, expected):
    columns = encode_feature("x", np.array([1.0, 1.0, 2.0, 9.0, np.nan]), kind)
    assert {name: values.tolist() for name, values in columns.items()} == expected


def test_constant_and_repeated_columns_are_dropped():
    flag = np.array([0.0, 1.0, 1.0])
    features = {"fbs": flag, "ca": np.ones(3), "sex": flag.copy(), "exang": 1 - flag}
    columns = group_columns(features, dict.fromkeys(features, "binary"))
    assert list(columns) == ["fbs", "exang"]


# -- thyroid ---------------------------------------------------------------------------------------------


def test_thyroid_shape_split_and_classes():
    thyroid = load_thyroid()
    assert thyroid.data.shape == (7200, 21)
    assert thyroid.is_test.dtype == bool
    assert thyroid.is_test.sum() == 3428
    assert np.bincount(thyroid.target[~thyroid.is_test]).tolist() == [0, 93, 191, 3488]
    assert np.bincount(thyroid.target[thyroid.is_test]).tolist() == [0, 73, 177, 3178]


def test_thyroid_costs():
    groups = load_thyroid(as_frame=True).feature_groups
    assert len(groups.names) == 17
    assert groups.costs[:16].tolist() == [1.0] * 16
    assert all(columns == (name,) for name, columns in zip(groups.names[:16], groups.columns, strict=False))
    assert columns_of(groups, "blood") == ("TSH", "T3", "TT4", "T4U", "FTI")
    assert groups.costs[-1] == pytest.approx(2.10 + 20.68 + 9.31 + 12.41 + 9.31)


# -- NHANES ----------------------------------------------------------------------------------------------


def test_nhanes_shape_and_costs():
    nhanes = load_nhanes()
    groups = nhanes.feature_groups
    assert nhanes.data.shape == (5018, 250)
    assert 3 < nhanes.target.min() < nhanes.target.mean() < nhanes.target.max() < 20  # percent
    assert len(groups.names) == 22
    assert (groups.costs.min(), groups.costs.max(), groups.costs.sum()) == (4, 60, 524)
    assert set(nhanes.group_titles) == set(groups.names)
    assert np.linalg.matrix_rank((nhanes.data - nhanes.data.mean(0)) / nhanes.data.std(0)) == 221


@pytest.mark.parametrize("drop", [("DIQ",), ["DIQ"], "DIQ"])
def test_nhanes_drop_leaves_components_out(drop):
    whole, rest = load_nhanes(), load_nhanes(drop=drop)
    assert "DIQ" not in rest.feature_groups.names
    assert "DIQ" not in rest.group_titles
    assert rest.feature_groups.costs.sum() == 524 - 16
    kept = [not name.startswith("DIQ") for name in whole.feature_names]
    np.testing.assert_array_equal(rest.data, whole.data[:, kept])


def test_nhanes_unknown_component_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'XYZ'.*known components are BMX, BPX, .*WHQ"):
        load_nhanes(drop=("DIQ", "XYZ"))


def test_nhanes_cannot_drop_everything():
    with pytest.raises(ValueError, match="drop removes all components"):
        load_nhanes(drop=load_nhanes().feature_groups.names)


# -- mfeat -----------------------------------------------------------------------------------------------


def test_mfeat_families_digits_and_costs():
    digits = load_mfeat(as_frame=True)
    groups = digits.feature_groups
    sizes = {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47, "mor": 6}
    assert dict(zip(groups.names, map(len, groups.columns), strict=True)) == sizes
    assert dict(zip(groups.names, groups.costs.tolist(), strict=True)) == sizes  # one per feature, as DESCR says
    assert all(column.startswith(name) for name, c in zip(groups.names, groups.columns, strict=True) for column in c)
    assert np.bincount(digits.target).tolist() == [200] * 10
    assert set(digits.group_titles) == set(groups.names)


def test_mfeat_pixels_look_like_digits():
    digits = load_mfeat()
    pixels = digits.data[:, list(columns_of(digits.feature_groups, "pix"))]
    assert set(np.unique(pixels)) == set(range(7))
    zeros, ones = (pixels[digits.target == digit].mean(axis=0).reshape(16, 15) for digit in (0, 1))
    assert zeros[8, 7] < 1 < 3 < ones[8, 7]  # a hole in the middle, a stroke through it


def test_no_module_reads_outside_the_package():
    for path in Path(budgetline.datasets.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "shared/" not in text
        assert "urlopen" not in text
