"""The shipped data against the raw files they were made from; skipped where those are absent."""

import csv
import gzip
import hashlib
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from budgetline.datasets import load_bank, load_heart, load_mfeat, load_nhanes, load_thyroid
from budgetline.datasets.loaders import read_archive

ROOT = Path(__file__).resolve().parents[2]
RAW = ROOT.parent / "shared" / "data"
needs_raw_data = pytest.mark.skipif(not RAW.is_dir(), reason="needs the raw data in ../shared/data")


def prices(path):
    """Read 'name: full, discounted' lines."""
    lines = [line.replace(":", " ").replace(",", " ").split() for line in path.read_text().splitlines()]
    return {line[0]: tuple(map(float, line[1:])) for line in lines if line}


def whole_price(names, expense):
    first, *others = names
    return expense[first][0] + sum(expense[name][1] for name in others)


@needs_raw_data
def test_heart_values_are_those_of_uci():
    archive = read_archive("heart")
    lines = "".join(
        (RAW / "heart_turney" / f"processed.{site}.data").read_text()
        for site in ("cleveland", "hungarian", "switzerland", "va")
    ).split()
    expected = np.array([[float(cell.replace("?", "nan")) for cell in line.split(",")] for line in lines])
    np.testing.assert_array_equal(archive["values"], expected)
    np.testing.assert_array_equal(load_heart(sites="all").target, expected[:, -1] > 0)


@needs_raw_data
def test_heart_prices_are_turneys():
    expense = prices(RAW / "heart_turney" / "costs" / "heart-disease.expense")
    groups = load_heart(as_frame=True).feature_groups
    for cost, columns in zip(groups.costs, groups.columns, strict=True):
        features = list(dict.fromkeys(column.split("=")[0] for column in columns))
        assert cost == pytest.approx(whole_price(features, expense), abs=1e-9)
        assert cost == pytest.approx(whole_price(features[::-1], expense), abs=1e-9)


@needs_raw_data
def test_thyroid_values_are_those_of_uci():
    thyroid = load_thyroid()
    for part, rows in (("train", ~thyroid.is_test), ("test", thyroid.is_test)):
        raw = np.loadtxt(RAW / "ann_thyroid_turney" / f"ann-{part}.data")
        np.testing.assert_array_equal(thyroid.data[rows], raw[:, :-1])
        np.testing.assert_array_equal(thyroid.target[rows], raw[:, -1])


@needs_raw_data
def test_thyroid_prices_are_turneys():
    expense = prices(RAW / "ann_thyroid_turney" / "costs" / "ann-thyroid.expense")
    groups = load_thyroid(as_frame=True).feature_groups
    for cost, columns in zip(groups.costs, groups.columns, strict=True):
        priced = [column for column in columns if column in expense]
        assert cost == pytest.approx(whole_price(priced, expense), abs=1e-9)


@needs_raw_data
def test_nhanes_values_and_groups_are_the_prepared_ones():
    nhanes = load_nhanes(as_frame=True)
    folder = RAW / "nhanes_2017_2018"
    with gzip.open(folder / "prepared_hba1c_adults.csv.gz", "rt", newline="") as file:
        header, *rows = csv.reader(file)
    raw = np.array(rows, dtype=float)
    assert nhanes.feature_names == header[1:]
    changed = nhanes.data.to_numpy() != raw[:, 1:]
    assert set(raw[:, 1:][changed]) == {5555, 7777, 9999}, "only codes among the numbers were replaced"
    assert not np.isin(nhanes.data.to_numpy()[:, changed.any(axis=0)], (5555, 7777, 9999)).any()
    assert nhanes.data.to_numpy()[raw[:, 1:] == 5555].tolist() == [22] * int((raw[:, 1:] == 5555).sum())
    np.testing.assert_array_equal(nhanes.target.to_numpy(), raw[:, 0])
    with (folder / "prepared_groups.csv").open(newline="") as file:
        table = {row["component"]: (float(row["cost"]), int(row["n_columns"])) for row in csv.DictReader(file)}
    groups = nhanes.feature_groups
    found = zip(groups.names, groups.costs.tolist(), map(len, groups.columns), strict=True)
    assert {name: (cost, size) for name, cost, size in found} == table


@needs_raw_data
def test_mfeat_values_are_those_of_uci_but_for_rounding():
    digits = load_mfeat()
    groups = digits.feature_groups
    for name, columns in zip(groups.names, groups.columns, strict=True):
        with gzip.open(RAW / "mfeat" / f"mfeat-{name}.csv.gz", "rt", newline="") as file:
            raw = np.array(list(csv.reader(file))[1:], dtype=float)
        np.testing.assert_array_equal(digits.target, raw[:, -1])
        off = np.abs(digits.data[:, list(columns)] - raw[:, :-1]).max(axis=0) / raw[:, :-1].std(axis=0)
        assert off.max() <= (5e-4 if name in ("fou", "kar", "zer") else 0)


@needs_raw_data
def test_the_build_tool_gives_the_shipped_files(tmp_path):
    tool = tmp_path / "tools" / "build_datasets.py"
    tool.parent.mkdir()
    tool.write_bytes((ROOT / "tools" / "build_datasets.py").read_bytes())
    subprocess.run([sys.executable, str(tool), str(RAW)], check=True, capture_output=True)
    built = tmp_path / "src" / "budgetline" / "datasets" / "data"
    for name in ("heart", "thyroid", "nhanes", "mfeat"):
        with np.load(built / f"{name}.npz", allow_pickle=False) as archive:
            shipped = read_archive(name)
            assert set(archive.files) == set(shipped)
            for key, array in shipped.items():
                np.testing.assert_array_equal(archive[key], array)
    bank = Path(load_bank().filename)
    assert gzip.decompress((built / bank.name).read_bytes()) == gzip.decompress(bank.read_bytes())


def test_checksums_in_the_attribution_match():
    folder = files("budgetline.datasets").joinpath("data")
    sources = folder.joinpath("SOURCES.md").read_text(encoding="utf-8")
    for name in ("heart.npz", "thyroid.npz", "nhanes.npz", "mfeat.npz", "bank.csv.gz"):
        assert f"{name}: {hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest()}" in sources
