"""Identifiers and free text: found in tables as people have them, in any chunks; good columns are left alone."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from budgetline import datasets
from budgetline.data import description
from budgetline.data.description import describe
from budgetline.data.identifiers import identifier
from budgetline.data.named_files import NamedFiles
from budgetline.encoding.raw import column_of, raw_data

ZOO = Path(__file__).parents[3] / "shared" / "data" / "zoo"
KNOWN = {
    "ames.csv": {"Order", "PID"},
    "horse.csv": {"hospital_number"},
    "titanic.csv": {"PassengerId", "Name"},
    "telco.csv": {"customerID"},
    "googleplay.csv": {"App"},
    "hmeq.csv": set(),
    "loans.csv": set(),
    "bikes_rent.csv": set(),
    "student-mat.csv": set(),
}


def identifiers(frame):
    data, names = raw_data(frame)
    return {name: reason for d, name in enumerate(names) if (reason := identifier(column_of(data, d, name)))}


def found_in(**columns):
    return set(identifiers(pd.DataFrame(columns)))


@pytest.mark.skipif(not ZOO.is_dir(), reason="the raw tables are not here")
@pytest.mark.parametrize("name", KNOWN)
def test_identifiers_of_real_tables(name):
    assert set(identifiers(pd.read_csv(ZOO / name))) == KNOWN[name]
    assert set(describe(NamedFiles.of([ZOO / name], "csv")).identifiers) == KNOWN[name]


@pytest.mark.parametrize("name", ["bank", "heart", "mfeat", "nhanes", "thyroid"])
def test_no_column_of_the_packages_own_tables_is_one(name):
    data = getattr(datasets, f"load_{name}")()
    frame = pd.DataFrame(data.data) if name == "bank" else pd.DataFrame(data.data, columns=data.feature_names)
    assert not identifiers(frame.rename(columns=str))


N = 300
RNG = np.random.default_rng(0)
NUMBERS = RNG.permutation(10**6)[:N]
ARE = {
    "customerID": NUMBERS,
    "PID": NUMBERS,
    "hospital_number": NUMBERS,
    "account no": NUMBERS,
    "userid": NUMBERS,
    "idStudent": NUMBERS + 2**53,
    "order key": NUMBERS.astype(float),
    "index": np.arange(N),
    "Order": 1 + np.arange(N),
    "kept": np.delete(np.arange(2 * N), slice(9, None, 2))[:N],
    "name": [f"{'abcdefgh'[k % 8]}{k:x}-{k}" for k in range(N)],
    "part": [f"{k:05d}" for k in range(N)],
    "site": [f"https://example.org/{k}" for k in range(N)],
    "remarks": [f"a remark of some length about thing {k}" for k in range(N)],
}
ARE_NOT = {
    "income": NUMBERS,
    "number of visits": NUMBERS,
    "number": NUMBERS,
    "paid": NUMBERS,
    "id": NUMBERS % 200,
    "weight_id": NUMBERS + 0.5,
    "rank": 1 + RNG.permutation(N),
    "wealth": 1 + RNG.permutation(N),
    "year": 1800 + np.arange(N),
    "week": np.arange(N),
    "x": np.arange(N),
    "made": pd.date_range("2020-01-01", periods=N),
    "seen": [str(day)[:10] for day in pd.date_range("2020-01-01", periods=N)],
    "sold": [f"{day:%d-%b-%y}" for day in pd.date_range("2020-01-01", periods=N)],
    "charges": [f"{k}.85" for k in range(N)],
    "price": [f"${k}.99" for k in range(N)],
    "rate": [f"{k / 7:.2f}%" for k in range(N)],
    "town": [f"town {k % 250}" for k in range(N)],
    "flag": [k % 2 == 0 for k in range(N)],
    "nothing": [None] * N,
    "mostly nothing": ["a", "b", "c", *[None] * (N - 3)],
}


@pytest.mark.parametrize("name", ARE)
def test_identifiers_are_found(name):
    assert found_in(**{name: ARE[name]}) == {name}


@pytest.mark.parametrize("name", ARE_NOT)
def test_other_columns_are_left_alone(name):
    assert not found_in(**{name: ARE_NOT[name]})


def test_few_rows_say_nothing():
    assert not found_in(id=np.arange(49), name=[f"p{k}" for k in range(49)])


def test_reasons_are_in_words():
    reasons = identifiers(pd.DataFrame({"Id": NUMBERS, "name": ARE["name"], "Order": np.arange(N) + 1}))
    assert reasons == {
        "Id": "300 different values in 300 rows",
        "name": "300 different texts in 300 rows",
        "Order": "numbers the rows, 1 to 300",
    }


def test_the_first_rows_decide(tmp_path, monkeypatch):
    """So that long files take no longer; but a fraction anywhere makes numbers a measurement."""
    monkeypatch.setattr(description, "MOST", 200)
    frame = pd.DataFrame({"id": [*range(200), *[7] * 300], "user id": [*range(499), 0.5], "x": [1.5] * 500})
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=90)
    found = describe(NamedFiles.of([tmp_path / "a.parquet"], "parquet")).identifiers
    assert found == {"id": "200 different values in 200 rows"}
