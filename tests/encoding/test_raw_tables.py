"""Raw columns of every kind, from every kind of table."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from budgetline.encoding.raw import column_of, raw_data

NAN = np.nan
COLUMNS = {
    "float": ([1.5, 2.0, None], [1.5, 2, NAN], None),
    "int": ([1, None, 3], [1, NAN, 3], None),
    "decimal": ([Decimal("1.5"), None, Decimal(2)], [1.5, NAN, 2], None),
    "date": ([datetime.date(1970, 1, 2), None, datetime.date(1969, 12, 31)], [1, NAN, -1], None),
    "datetime": ([datetime.datetime(1970, 1, 1, 6), None, datetime.datetime(1970, 1, 3)], [0.25, NAN, 2], None),
    "duration": ([datetime.timedelta(hours=12), None, datetime.timedelta(days=2)], [0.5, NAN, 2], None),
    "time": ([datetime.time(6), None, datetime.time(12)], [0.25, NAN, 0.5], None),
    "text": (["x", None, "y"], None, ["x", None, "y"]),
    "flag": ([True, None, False], None, ["True", None, "False"]),
    "nothing": ([None, None, None], None, [None, None, None]),
}


def tables():
    values = {name: given for name, (given, _, _) in COLUMNS.items()}
    yield "pandas", pd.DataFrame({name: pd.Series(given, dtype=object) for name, given in values.items()})
    yield "polars", pl.DataFrame(values, strict=False)
    yield "arrow", pa.table(values)
    yield "objects", np.array(list(values.values()), dtype=object).T
    yield "lists", [list(row) for row in zip(*values.values(), strict=True)]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(("kind", "X"), tables(), ids=[kind for kind, _ in tables()])
def test_every_kind_of_column(kind, X, name):
    data, names = raw_data(X)
    assert len(COLUMNS) == data.shape[1]
    d = list(COLUMNS).index(name)
    assert names is None or names[d] == name
    column = column_of(data, d, name)
    _, numbers, levels = COLUMNS[name]
    if numbers is not None:
        np.testing.assert_array_equal(column.as_numbers(), numbers)
    else:
        codes, known = column.as_categories
        assert [None if code < 0 else known[code] for code in codes] == levels


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(pd.Categorical([3, 4, None, 3])),
        pd.Series(pd.Categorical([3, 4, None, 3], ordered=True)),
    ],
)
def test_categories_are_levels_even_if_they_are_numbers(series):
    column = column_of(raw_data(series.to_frame("c"))[0], 0, "c")
    codes, levels = column.as_categories
    assert [None if code < 0 else levels[code] for code in codes] == ["3", "4", None, "3"]


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "string", "category"])
def test_nullable_types_of_pandas(dtype):
    given = {"boolean": [True, None, False], "string": ["a", None, "b"], "category": ["a", None, "b"]}
    column = column_of(raw_data(pd.DataFrame({"c": pd.array(given.get(dtype, [1, None, 2]), dtype=dtype)}))[0], 0, "c")
    assert column.missing.tolist() == [False, True, False]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("ms", "Asia/Tokyo")])
def test_moments_that_pandas_keeps_in_arrow_may_be_missing(kind):
    """They once were a TypeError about NAType."""
    frame = pa.table({"c": pa.array([0, None, 1], pa.int32()).cast(pa.date32()).cast(kind)})
    column = column_of(raw_data(frame.to_pandas(types_mapper=pd.ArrowDtype))[0], 0, "c")
    np.testing.assert_array_equal(column.as_numbers(), column_of(raw_data(frame)[0], 0, "c").as_numbers())
    assert column.missing.tolist() == [False, True, False]


def test_durations_that_pandas_keeps_in_arrow_may_be_missing():
    frame = pa.table({"c": pa.array([43_200, None, 86_400], pa.duration("s"))})
    column = column_of(raw_data(frame.to_pandas(types_mapper=pd.ArrowDtype))[0], 0, "c")
    np.testing.assert_array_equal(column.as_numbers(), [0.5, np.nan, 1])


def test_time_zones_count():
    utc = pd.Series(pd.to_datetime(["1970-01-01 01:00"]).tz_localize("Europe/Berlin"))
    assert column_of(raw_data(utc.to_frame("t"))[0], 0, "t").as_numbers().tolist() == [0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "a", 2.5], "column 'c' holds float and int and str"),
        ([{"a": 1}, {"b": 2}], "column 'c' holds dict"),
        ([1.0, datetime.date(2020, 1, 1)], "column 'c' holds date and float"),
    ],
)
def test_mixtures_are_named(values, message):
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object)})
    with pytest.raises(ValueError, match=message):
        column_of(raw_data(frame)[0], 0, "c")


def test_what_is_no_table_of_columns_is_refused():
    with pytest.raises(TypeError, match="sparse matrix"):
        raw_data(sparse.csr_matrix(np.eye(3)))
    with pytest.raises(ValueError, match="table with rows and columns"):
        raw_data(np.zeros(3))
