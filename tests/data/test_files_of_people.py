"""Files as people have them: Latin-1, Excel, and whatever exports Arrow data."""

import datetime
import gzip
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from budgetline import AnytimeRegressor, open_data
from budgetline.data.description import describe
from budgetline.data.named_files import NamedFiles, excel_table
from budgetline.data.text_files import CsvFiles
from budgetline.data.text_format import encoding_of

N = 120


def table(seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["Zürich", "Köln", "Paris"], N),
            "rate": [f"{x:.2f}%" for x in rng.uniform(0, 9, N)],
            "income": rng.normal(size=N).round(3),
        }
    )
    y = frame["income"] + frame["rate"].str.rstrip("%").astype(float) + (frame["town"] == "Köln")
    return frame, y.to_numpy() + rng.normal(size=N)


# -- encodings of text -----------------------------------------------------------------------------------------

TEXTS = {
    "utf-8": ("Zürich €", "utf-8"),
    "cp1252": ("Zürich € “quoted”", "cp1252"),
    "latin-1": ("Zürich \x81", "latin-1"),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("late", [0, 300_000])
def test_the_encoding_of_a_text_is_found(tmp_path, name, packed, late):
    text, encoding = TEXTS[name]
    lines = "a,b\n" + "1,x\n" * (late // 4) + f'2,"{text}"\n' + "3,y\n" * 9
    data = lines.replace("“quoted”", "\x93quoted\x94" if encoding == "latin-1" else "“quoted”").encode(encoding)
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert encoding_of(path) == encoding
    files = NamedFiles.of([path], "csv")
    found = [value for batch in files.batches(["a", "b"]) for value in batch.column("b").to_pylist()]
    assert found[late // 4] == text
    assert len(found) == late // 4 + 10
    assert (f"{encoding} text" in describe(files).format[0]) == (encoding != "utf-8")
    if encoding != "utf-8":
        with pytest.warns(UserWarning, match=rf"a\.csv.* is not UTF-8 text: read as {encoding}"):
            open_data(path, "a")


def test_lines_and_headers_of_other_encodings(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,straße\n1,ä\n2,ö,3\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"a\.csv, line 3: 3 fields instead of 2"):
        list(CsvFiles.of([path]).batches(path, ["größe", "straße"]))


def test_the_same_model_from_another_encoding(tmp_path):
    X, y = table()
    X.assign(y=y).to_csv(tmp_path / "a.csv", index=False, encoding="cp1252")
    with pytest.warns(UserWarning, match="read as cp1252"):
        source = open_data(tmp_path / "a.csv", "y")
    expected = AnytimeRegressor(encoding="spline").fit(X, y)
    np.testing.assert_allclose(
        AnytimeRegressor(encoding="spline").fit(source).predict(X), expected.predict(X), rtol=1e-9
    )


def test_a_file_that_is_written_again_is_read_again(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("a\nü\n".encode("latin-1"))
    assert encoding_of(path) == "cp1252"
    path.write_bytes("a\nüü\n".encode())
    assert encoding_of(path) == "utf-8"


# -- objects with Arrow data -----------------------------------------------------------------------------------


class Relation:
    """A query, such as a DuckDB relation: it has a shape and columns, and exports Arrow data."""

    def __init__(self, frame):
        self.table, self.shape, self.columns = pa.Table.from_pandas(frame, preserve_index=False), frame.shape, [*frame]

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("wrap", [Relation, lambda frame: pa.Table.from_pandas(frame).to_reader()])
@pytest.mark.parametrize("encoding", [None, "spline"])
def test_objects_that_export_arrow_data(wrap, encoding):
    X, y = table()
    X = X if encoding else X[["income"]].assign(rate=np.arange(N) * 1.0)
    expected = AnytimeRegressor(encoding=encoding).fit(X, y)
    answers = expected.predict(X)
    models = [
        AnytimeRegressor(encoding=encoding).fit(wrap(X), y),
        AnytimeRegressor(encoding=encoding).fit(open_data(wrap(X.assign(y=y)), "y")),
        AnytimeRegressor(encoding=encoding).fit(open_data((wrap(X), y))),
    ]
    for model in models:
        assert model.sequence_.groups == expected.sequence_.groups
        np.testing.assert_allclose(model.predict(wrap(X)), answers, rtol=1e-9)
        np.testing.assert_allclose(model.predict(wrap(X), available="auto"), answers, rtol=1e-7)
        np.testing.assert_allclose(list(model.staged_predict(wrap(X)))[-1], answers, rtol=1e-9)


def test_a_duckdb_relation():
    duckdb = pytest.importorskip("duckdb")
    X, y = table()
    whole = X.assign(y=y)
    with duckdb.connect() as connection:
        connection.register("whole", whole)
        model = AnytimeRegressor(encoding="spline").fit(open_data(connection.sql("select * from whole"), "y"))
        answers = model.predict(connection.sql("select * exclude y from whole"))
    np.testing.assert_allclose(answers, AnytimeRegressor(encoding="spline").fit(X, y).predict(X), rtol=1e-9)


# -- Excel -----------------------------------------------------------------------------------------------------

DAY = datetime.date(2020, 1, 2)
SHEET = [
    ["a", " t ", "day", "both", "flag", "mixed", "", "", 2010.0],
    [1.0, "x", DAY, DAY, True, 1.0, "", "extra", 5],
    ["", " y", DAY, datetime.datetime(2020, 1, 2, 12), False, "n/a", "", "", 6.5],
    [3, "", "", "", "", 2.5, "", "", ""],
]
CELLS = {
    "a": [1.0, None, 3.0],
    "t": ["x", "y", None],
    "day": [DAY, DAY, None],
    "both": [datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2, 12), None],
    "flag": [True, False, None],
    "mixed": ["1", "n/a", "2.5"],
    "column 8": ["extra", None, None],
    "2010": [5.0, 6.5, None],
}


@pytest.fixture
def sheets(monkeypatch):
    """Let the reader of Excel files return what a dictionary holds for their names."""
    found = {}

    class CalamineError(Exception):
        pass

    def from_path(path):
        if path not in found:
            raise CalamineError("no zip archive")
        return SimpleNamespace(get_sheet_by_index=lambda k: SimpleNamespace(to_python=lambda: found[path]))

    workbook = SimpleNamespace(from_path=from_path)
    fake = SimpleNamespace(CalamineWorkbook=workbook, CalamineError=CalamineError)
    monkeypatch.setitem(sys.modules, "python_calamine", fake)
    return found


def sheet(path, sheets, rows):
    path.write_bytes(str(len(sheets)).encode() * (1 + len(sheets)))
    sheets[str(path)] = rows
    return path


def test_cells_become_columns(tmp_path, sheets):
    assert excel_table(sheet(tmp_path / "a.xlsx", sheets, SHEET)).to_pydict() == CELLS


def test_cells_of_text_are_trimmed(tmp_path, sheets):
    rows = [["a", "y"], [1.0, " yes"], [2.0, "yes "], [" ", "no"]]
    found = excel_table(sheet(tmp_path / "a.xlsx", sheets, rows)).to_pydict()
    assert found == {"a": [1.0, 2.0, None], "y": ["yes", "yes", "no"]}


BAD_SHEETS = {
    "two names": ([["a", "a"], [1.0, 2.0]], "has two columns 'a'"),
    "no rows": ([["a", "b"]], "the first sheet holds no table"),
    "nothing": ([], "the first sheet holds no table"),
    "only gaps": ([["", ""], ["", ""]], "the first sheet holds no table"),
}


@pytest.mark.parametrize("name", BAD_SHEETS)
def test_sheets_that_hold_no_table(tmp_path, sheets, name):
    rows, message = BAD_SHEETS[name]
    with pytest.raises(ValueError, match=message):
        excel_table(sheet(tmp_path / f"{name}.xlsx", sheets, rows))


@pytest.mark.usefixtures("sheets")
def test_a_file_that_is_no_workbook(tmp_path):
    (tmp_path / "a.xlsx").write_text("text")
    with pytest.raises(ValueError, match=r"a\.xlsx cannot be read as an Excel file: no zip archive"):
        open_data(tmp_path / "a.xlsx", "y")
    with pytest.raises(FileNotFoundError, match=r"b\.xlsx does not exist"):
        open_data(tmp_path / "b.xlsx", "y")


def same_model(path):
    X, y = table()
    expected = AnytimeRegressor(encoding="spline").fit(X, y)
    model = AnytimeRegressor(encoding="spline").fit(open_data(path, "y"))
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)
    found = {column.name: column for column in describe(NamedFiles.of([path], "excel")).columns}
    assert [found[name].kind for name in ("town", "rate", "income")] == ["text", "text", "number"]
    assert found["rate"].form.startswith("percent, such as '")


def test_a_model_from_a_sheet(tmp_path, sheets):
    X, y = table()
    whole = X.assign(y=y)
    same_model(sheet(tmp_path / "a.xlsx", sheets, [[*whole], *whole.to_numpy(object).tolist()]))


def test_a_real_workbook(tmp_path):
    pytest.importorskip("python_calamine")
    pytest.importorskip("openpyxl")
    X, y = table()
    X.assign(y=y).to_excel(tmp_path / "a.xlsx", index=False)
    same_model(tmp_path / "a.xlsx")
