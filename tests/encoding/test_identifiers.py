"""Identifiers and free text: found in tables as people have them, in any chunks; good columns are left alone."""

from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, FeatureGroups, datasets, open_data
from budgetline.data.description import describe
from budgetline.data.named_files import NamedFiles
from budgetline.encoding.identifiers import MOST, Values, identifiers
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


def values_of(frame):
    data, names = raw_data(frame)
    return {name: Values.of(column_of(data, d, name)) for d, name in enumerate(names)}


def found_in(**columns):
    return set(identifiers(values_of(pd.DataFrame(columns))))


@pytest.mark.skipif(not ZOO.is_dir(), reason="the raw tables are not here")
@pytest.mark.parametrize("name", KNOWN)
def test_identifiers_of_real_tables(name):
    assert set(identifiers(values_of(pd.read_csv(ZOO / name)))) == KNOWN[name]
    assert set(describe(NamedFiles.of([ZOO / name], "csv")).identifiers) == KNOWN[name]


@pytest.mark.parametrize("name", ["bank", "heart", "mfeat", "nhanes", "thyroid"])
def test_no_column_of_the_packages_own_tables_is_one(name):
    data = getattr(datasets, f"load_{name}")()
    frame = pd.DataFrame(data.data) if name == "bank" else pd.DataFrame(data.data, columns=data.feature_names)
    assert not identifiers(values_of(frame.rename(columns=str)))


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
    "site": [f"https://example.org/{k % 200}" for k in range(N)],
    "remarks": [f"a remark of some length about thing {k % 200}" for k in range(N)],
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
    reasons = identifiers(values_of(pd.DataFrame({"Id": NUMBERS, "name": ARE["name"], "Order": np.arange(N) + 1})))
    assert reasons == {
        "Id": "300 different values in 300 rows",
        "name": "300 different texts in 300 rows",
        "Order": "numbers the rows, 1 to 300",
    }


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_counts_add_up_over_chunks(chunk):
    frame = pd.DataFrame({"a": NUMBERS % 90, "b": ARE["remarks"], "c": [None, 1.5, 2.0] * 100, "d": ARE["index"]})
    for name, whole in values_of(frame).items():
        parts = [values_of(frame[k : k + chunk])[name] for k in range(0, N, chunk)]
        total = reduce(add, parts)
        assert total.rows == whole.rows
        assert bool(total.fractions) == bool(whole.fractions) == (name == "c")
        if name != "c":  # beside a fraction nothing else matters
            assert total.different == whole.different
            one, other = (dict(vars(each), hashes=None, falls=None) for each in (total, whole))
            assert one == other
            assert identifiers({name: total}) == identifiers({name: whole})


@pytest.mark.parametrize("count", [MOST // 2, MOST - 1, 3 * MOST, 20 * MOST])
def test_many_different_values_are_estimated(count):
    rng = np.random.default_rng(count)
    numbers = rng.permutation(10 * count)[:count]
    whole = values_of(pd.DataFrame({"a": np.repeat(numbers, 2)}))["a"]
    parts = [values_of(pd.DataFrame({"a": part}))["a"] for part in np.array_split(np.tile(numbers, 2), 3)]
    assert reduce(add, parts).different == whole.different
    assert whole.different == pytest.approx(count, rel=0.04 if count >= MOST else 0)


def frame_with_identifiers():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"value": rng.standard_normal(120), "client_id": rng.permutation(10**6)[:120]})
    X["name"] = [f"person {k}" for k in range(120)]
    return X, (X["value"] > 0).astype(int)


@pytest.mark.parametrize("make", [AnytimeRegressor, AnytimeClassifier])
def test_a_fit_names_them_once_and_its_advice_works(make, tmp_path):
    X, y = frame_with_identifiers()
    with pytest.warns(UserWarning, match="client_id .120 different values in 120 rows., name .120") as record:
        make(encoding="linear", rule="omp").fit(X, y)
    assert len(record) == 1
    X.assign(y=y).to_csv(tmp_path / "table.csv", index=False)
    with pytest.warns(UserWarning, match=r"client_id .*, name .*X.drop\(columns=\['client_id', 'name'\]\)"):
        make(encoding="linear", rule="omp").fit(open_data(tmp_path / "table.csv", "y", chunk_rows=50))
    make(encoding="linear", rule="omp").fit(X.drop(columns=["client_id", "name"]), y)
    keep = Encoding("linear", columns={"client_id": "spline", "name": "categories"})
    assert set(make(encoding=keep, rule="omp").fit(X, y).sequence_.groups) == set(X)


def test_numbers_without_an_encoding_are_looked_at_if_they_have_names():
    X, y = frame_with_identifiers()
    X = X.drop(columns="name")
    with pytest.warns(UserWarning, match=r"client_id .120 different.*X.drop\(columns=\['client_id'\]\)"):
        AnytimeRegressor().fit(X, y)
    AnytimeRegressor().fit(X.to_numpy(), y)


def test_columns_outside_the_groups_do_not_matter():
    X, y = frame_with_identifiers()
    groups = FeatureGroups({"a": ["value"]}, remainder="drop")
    for encoding in ("linear", None):
        own = X if encoding else X.drop(columns="name")
        assert AnytimeRegressor(groups, encoding=encoding).fit(own, y).sequence_.groups == ("a",)
