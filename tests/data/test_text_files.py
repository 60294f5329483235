"""Delimited text files as they come: right, or one line that names the line of the file."""

import bz2
import csv
import datetime
import gzip
import io
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import budgetline.data.text_files
from budgetline import AnytimeClassifier, AnytimeRegressor, budget_curve, open_data
from budgetline.data.description import MOST_DISTINCT, describe
from budgetline.data.named_files import NamedFiles
from budgetline.data.text_files import CsvFiles, line_of_row
from budgetline.data.text_format import compression_of, text_rows_about


def day(number):
    return datetime.date(2020, 1, number)


def frame(path, **given):
    files = NamedFiles.of([path], "csv", **given)
    batches = [batch.to_pydict() for batch in files.batches(files.schema.names)]
    return {name: [value for batch in batches for value in batch[name]] for name in files.schema.names}


BOM = "\ufeff"
GOOD = {
    "plain": ("a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
    "no newline at the end": ("a,b\n1,x\n2,y", {"a": [1, 2], "b": ["x", "y"]}),
    "semicolons": ("a;b\n1;x, or y\n2;y\n", {"a": [1, 2], "b": ["x, or y", "y"]}),
    "tabs": ("a\tb\n1\tx y\n2\ty\n", {"a": [1, 2], "b": ["x y", "y"]}),
    "bars": ("a|b\n1|x\n2|y\n", {"a": [1, 2], "b": ["x", "y"]}),
    "spaces": ("a b\n1 x\n2 y\n", {"a": [1, 2], "b": ["x", "y"]}),
    "two lines": ("a;b\n1;2\n", {"a": [1], "b": [2]}),
    "a header alone": ("a;b\n", {"a": [], "b": []}),
    "one column": ("a\n1\n2\n", {"a": [1, 2]}),
    "one column, decimal comma": ("a\n1,5\n2,25\n", {"a": [1.5, 2.25]}),
    "one column of sentences": ("a\nhello, you\nyes; me\n", {"a": ["hello, you", "yes; me"]}),
    "decimal comma": ("a;b\n1,5;x\n2;y\n", {"a": [1.5, 2], "b": ["x", "y"]}),
    "decimal comma in quotes": ('a;b\n"1,5";x\n"2,25";y\n', {"a": [1.5, 2.25], "b": ["x", "y"]}),
    "commas of both kinds": ('a,b\n"1,5",x\n"2,25",y\n', {"a": ["1,5", "2,25"], "b": ["x", "y"]}),
    "three decimals": ("a;b\n1,500;1\n2,250;2\n", {"a": [1.5, 2.25], "b": [1, 2]}),
    "thousands in quotes": ('a,b\n"1,500",1.5\n"2,250",2\n', {"a": ["1,500", "2,250"], "b": [1.5, 2]}),
    "both decimal marks": ("a;b\n1,5;3.25\n ;4\n,5;?\n", {"a": ["1,5", None, ",5"], "b": [3.25, 4, None]}),
    "more points": ("a;b;c\n1,5;3.25;1\n2;4;1.5\n", {"a": ["1,5", "2"], "b": [3.25, 4], "c": [1, 1.5]}),
    "decimal commas next to versions": ("a;b\n1,5;1.2\n2,500;1.2.3\n", {"a": [1.5, 2.5], "b": ["1.2", "1.2.3"]}),
    "decimal commas next to words": ("a;b\n1,5;2,5\n2;high\n", {"a": [1.5, 2], "b": ["2,5", "high"]}),
    "quotes": ('"a","b"\n"1","x ""y"" z"\n"2","a,b"\n', {"a": [1, 2], "b": ['x "y" z', "a,b"]}),
    "all in quotes, gaps too": ('"a","b"\n"1",""\n"","y"\n', {"a": [1, None], "b": [None, "y"]}),
    "quotes with newlines": ('a,b\n1,"x\ny"\n2,"u\r\nv"\n', {"a": [1, 2], "b": ["x\ny", "u\r\nv"]}),
    "a header with a newline": ('"a\nb",c\n1,2\n', {"a\nb": [1], "c": [2]}),
    "empty lines": ("\n\na,b\n\n1,x\n\r\n2,y\n\n", {"a": [1, 2], "b": ["x", "y"]}),
    "lines of Windows": ("a,b\r\n1,x\r\n2,y\r\n", {"a": [1, 2], "b": ["x", "y"]}),
    "lines of old Macs": ("a,b\r1,x\r2,y\r", {"a": [1, 2], "b": ["x", "y"]}),
    "byte order mark": (BOM + "a,b\n1,x\n", {"a": [1], "b": ["x"]}),
    "byte order mark and quotes": (BOM + '"a";"b"\n1;2\n', {"a": [1], "b": [2]}),
    "missing numbers": ("a,b\n1,?\n?,2\nNA,.\n#N/A,3\n", {"a": [1, None, None, None], "b": [None, 2, None, 3]}),
    "gaps after spaces": ("a, b\n1, NA\n2, 3\n", {"a": [1, 2], "b": [None, 3]}),
    "gaps in text": ("a,b\n1,?\n2,x\n3,\n4,None\n", {"a": [1, 2, 3, 4], "b": [None, "x", None, None]}),
    "nothing but gaps": ("a,b\n1,NA\n2,\n", {"a": [1, 2], "b": [None, None]}),
    "flags": ("a,b\nTrue,yes\nFALSE,no\nNA,yes\n", {"a": [True, False, None], "b": ["yes", "no", "yes"]}),
    "dates": ("a,b\n2020-01-01,1\n2020-01-02,2\n", {"a": [day(1), day(2)], "b": [1, 2]}),
    "huge integers": ("a,b\n99999999999999999999,1\n1,2\n", {"a": [1e20, 1], "b": [1, 2]}),
    "numbers in words": ("a,b\n1e3,inf\n-2.5E-1,-inf\n", {"a": [1000, -0.25], "b": [np.inf, -np.inf]}),
    "a level like a number": ("a,b\n1,007\nx,1\n", {"a": ["1", "x"], "b": [7, 1]}),
    "row names of R": ('"a" "b"\n"1" 5 "x"\n"2" 6 "y"\n', {"a": [5, 6], "b": ["x", "y"]}),
    "row names of R, tabs": ("a\tb\nr1\t5\tx\nr2\t6\ty\n", {"a": [5, 6], "b": ["x", "y"]}),
    "row names of pandas": (",a,b\n0,5,x\n1,6,y\n", {"a": [5, 6], "b": ["x", "y"]}),
    "delimiters at the end": ("a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
    "delimiters at the end of rows": ("a,b\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
    "a column without a name": ("a,,b\n1,5,2\n3,6,4\n", {"a": [1, 3], "column 2": [5, 6], "b": [2, 4]}),
    "names with spaces": (" a , b c\n1,2\n", {"a": [1], "b c": [2]}),
    "letters": ("größe,名\n1,ü\n2,字\n", {"größe": [1, 2], "名": ["ü", "字"]}),
    "the name of a column among its values": ("spam,a\nspam,1\nham,2\n", {"spam": ["spam", "ham"], "a": [1, 2]}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("suffix", [".csv", ".txt", ".csv.gz", ".csv.bz2", ".csv.zst"])
def test_files_are_read_as_they_are(tmp_path, name, suffix):
    text, expected = GOOD[name]
    path = tmp_path / f"data{suffix}"
    write(path, text.encode())
    assert frame(path) == expected
    assert compression_of(path) == {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}.get(path.suffix[1:])


def write(path, data):
    """Write bytes, compressed as the suffix says, by other libraries than the one that reads."""
    packed = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda data: bytes(pa.Codec("zstd").compress(data))}
    if path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(data)
    else:
        path.write_bytes(packed.get(path.suffix, bytes)(data))


GIVEN = {
    "a mark of one's own": ("a:b\n1:2\n", {"delimiter": ":"}, {"a": [1], "b": [2]}),
    "not the usual one": ("a,b;c\n1,2;3\n", {"delimiter": ","}, {"a": [1], "b;c": ["2;3"]}),
    "a number for gaps": ("a,b\n-999,x\n2,NA\n", {"na": "-999"}, {"a": [None, 2], "b": ["x", "NA"]}),
    "several": ("a,b\n-999,x\n2,none\n", {"na": ["-999", "none"]}, {"a": [None, 2], "b": ["x", None]}),
    "none but empty ones": ("a,b\n,NA\n2,?\n", {"na": []}, {"a": [None, 2], "b": ["NA", "?"]}),
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_format_can_be_given(tmp_path, name):
    text, given, expected = GIVEN[name]
    (tmp_path / "data.csv").write_text(text)
    assert frame(tmp_path / "data.csv", **given) == expected


BAD = {
    "empty": ("", r"data\.csv cannot be read as CSV: it is empty$"),
    "only newlines": ("\n\r\n", r"data\.csv cannot be read as CSV: it is empty$"),
    "short row": ("a,b\n1,2\n3,4\n\n5\n", r"data\.csv, line 5: 1 field instead of 2$"),
    "long row": ("a,b\n1,2\n3,4,5\n", r"data\.csv, line 3: 3 fields instead of 2$"),
    "long row after a newline in quotes": ('a,b\n1,"x\ny"\n3,4,5\n', r"data\.csv, line 4: 3 fields instead of 2$"),
    "header repeated": ("a,b\n1,2\n3,4\na,b\n5,6\n", r"data\.csv, line 4: the header is repeated$"),
    "header repeated, text": ('a,b\nx,"u\nv"\na,b\ny,z\n', r"data\.csv, line 4: the header is repeated$"),
    "header of R repeated": ("a\tb\nr1\t1\t2\na\tb\nr2\t3\t4\n", r"data\.csv, line 3: 2 fields instead of 3$"),
    "quote never closed": ('a,b\n1,"x\ny"\n2,"u\n3,v\n', r"data\.csv, line 4: a quote is never closed$"),
    "quote never closed in numbers": ('a,b\n1,2\n"3,4\n5,6\n', r"data\.csv, line 3: "),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), r"data\.csv: not UTF-8 text"),
    "cut short": (gzip.compress(b"a,b\n" + random.Random(0).randbytes(9999).hex().encode())[:-200], "Truncated"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name):
    text, message = BAD[name]
    path = tmp_path / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        frame(path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("words", "holds 'words', not a number$"),
        ("a", "holds 'a', not a number$"),
        ("1.2.3", r"holds '1\.2\.3', not a number$"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_values_of_later_blocks(tmp_path, monkeypatch, value, message, packed):
    monkeypatch.setattr(budgetline.data.text_files, "CSV_BLOCK", 400)
    rows = ["a,b,c", *(f'{k},"x\n{k}",1' for k in range(300)), f"{value},b,c" if value == "a" else f"{value},x,1"]
    path = tmp_path / ("data.csv.gz" if packed else "data.csv")
    write(path, ("\n".join(rows) + "\n").encode())
    with pytest.raises(ValueError, match=rf"data\.csv.*, line 602: column 'a' {message}"):
        frame(path)


def test_integers_may_become_fractions_and_gaps_in_later_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(budgetline.data.text_files, "CSV_BLOCK", 400)
    rows = ["a,b", *(f"{k},NA" for k in range(300)), "0.5,1.5", "?,2"]
    (tmp_path / "data.csv").write_text("\n".join(rows))
    found = frame(tmp_path / "data.csv")
    assert found["a"][-3:] == [299, 0.5, None]
    assert found["b"][-3:] == [None, 1.5, 2]


LATE = [*(f"{k};1.25;x" for k in range(40_000)), "3,5;1.5;y"]


def test_decimal_commas_may_come_late(tmp_path):
    plain = "\n".join(["a;b;c", *LATE]).replace("1.25", "125").replace("1.5", "2")  # after 400 kB
    (tmp_path / "b.csv").write_text(plain)
    assert frame(tmp_path / "b.csv")["a"][-2:] == [39_999, 3.5]
    assert CsvFiles.of([tmp_path / "b.csv"]).written.decimal == ","


@pytest.mark.parametrize("first", ["3", "3,5"])
def test_numbers_of_later_blocks_in_another_style(tmp_path, monkeypatch, first):
    monkeypatch.setattr(budgetline.data.text_files, "CSV_BLOCK", 4000)
    wrong = "3,5" if first == "3" else "3.5"
    rows = ["a;b", f"{first};1", *(f"{k};1" for k in range(2000)), f"{wrong};1"]
    (tmp_path / "data.csv").write_text("\n".join(rows))
    with pytest.raises(ValueError, match=rf"data\.csv, line 2003: column 'a' holds '{wrong}', not a number$"):
        frame(tmp_path / "data.csv")


@pytest.mark.parametrize("text", ["a;b;y\n1,234;3.25;1\n2;4;2\n", 'a,b,y\n"1,234",3,1\n2,4,2\n'])
def test_thousands_are_read_by_an_encoding(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    model = AnytimeRegressor(encoding="linear").fit(open_data(tmp_path / "a.csv", "y"))
    frame = pd.DataFrame({"a": [1234, 2], "b": [3.0, 4.0]})
    np.testing.assert_allclose(model.predict(frame), model.predict(frame.assign(a=["1,234", "2"])))
    with pytest.raises(ValueError, match="column 'a' holds '1,234', in line 2, not numbers"):
        AnytimeRegressor().fit(open_data(tmp_path / "a.csv", "y"))


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["1.234,56", "12,5", "7"], [1234.56, 12.5, 7]),
        (["1,234.56", "12.5", "7"], [1234.56, 12.5, 7]),
        (["1.234.567", "1.234", "5"], [1234567, 1234, 5]),
        (["1 234", "20", "1 234 567,5"], [1234, 20, 1234567.5]),
        (["1\u202f234", "20", "NA"], [1234, 20, None]),
        (["1'234.5", "20", ""], [1234.5, 20, None]),
    ],
)
@pytest.mark.parametrize("beside", ["1", "1,5", "1.5"])
def test_marks_between_thousands_are_read_by_an_encoding(tmp_path, values, numbers, beside):
    rows = [f"{value};{beside};{k}" for k, value in enumerate(values)]
    (tmp_path / "a.csv").write_text("\n".join(["a;b;y", *rows]), encoding="utf-8")
    source = open_data(tmp_path / "a.csv", "y")
    frame = pd.DataFrame({"a": numbers, "b": float(beside.replace(",", "."))}, dtype=float)
    found, expected = (
        AnytimeRegressor(encoding="linear", alpha=0.1).fit(*data) for data in ((source,), (frame, [0, 1, 2]))
    )
    np.testing.assert_allclose(found.predict(frame), expected.predict(frame), rtol=1e-9)


@pytest.mark.parametrize(
    "value", ["1.2.3", "01.02.2020", "10.0.0.1", "12:30", "52.5,13.4", "030 123", "1,2,3", "1.23,456"]
)
def test_other_text_is_not_doubted(tmp_path, value):
    (tmp_path / "a.csv").write_text(f"a;y\n{value};1\n{value};2\n")
    assert not CsvFiles.of([tmp_path / "a.csv"]).doubts


def test_columns_with_decimal_commas_are_numbers_everywhere(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).round(3)
    y = (X @ [1, 2] + rng.normal(size=60)).round(3)
    comma = lambda value: str(value).replace(".", ",")  # noqa: E731
    rows = [f"{comma(a)};{comma(b)};{comma(target)}" for (a, b), target in zip(X.tolist(), y.tolist(), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["a;b;y", *rows]))
    expected = AnytimeRegressor().fit(X, y)
    np.testing.assert_allclose(AnytimeRegressor().fit(open_data(tmp_path / "a.csv", "y")).coef_, expected.coef_)
    curved = AnytimeRegressor(encoding="linear").fit(open_data(tmp_path / "a.csv", "y"))
    assert curved.feature_names_out_.tolist() == ["a", "b"]
    found = describe(NamedFiles.of([tmp_path / "a.csv"], "csv"))
    assert [column.kind for column in found.columns] == ["number"] * 3
    assert found.format == ("delimiter semicolon, decimal comma",)


@pytest.mark.parametrize("seed", range(30))
def test_what_was_written_is_read(tmp_path, seed):
    """Tables at random, written by Python's csv module in every style."""
    rng = random.Random(seed)
    delimiter, decimal = rng.choice(",;\t|"), rng.choice(".,")
    decimal = "." if delimiter == "," else decimal
    columns, rows = rng.randrange(2, 6), rng.randrange(2, 60)
    words = ["x", "it's", 'a "b"', "u,v", "u;v", "u|v", "line\nline", "ü", "true north", "-"]
    table = [
        [
            rng.choice([None, round(rng.uniform(-99, 99), 2)]) if d % 2 == 0 else rng.choice([None, *words])
            for d in range(columns)
        ]
        for _ in range(rows)
    ]
    table[0] = [1.25 if d % 2 == 0 else "x" for d in range(columns)]
    names = [f"c{d}" for d in range(columns)]
    file = io.StringIO(newline="")
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=rng.choice(["\n", "\r\n"]))
    gap = rng.choice(["", "NA", "?"])
    text = lambda value: gap if value is None else value if isinstance(value, str) else f"{value}".replace(".", decimal)  # noqa: E731
    writer.writerow(names)
    writer.writerows([[text(value) for value in row] for row in table])
    path = tmp_path / f"data.csv{rng.choice(['', '.gz', '.bz2', '.zst'])}"
    write(path, file.getvalue().encode(rng.choice(["utf-8", "utf-8-sig"])))
    written = CsvFiles.of([path]).written
    assert (written.delimiter, written.decimal) == (delimiter, decimal)
    assert frame(path) == {name: [row[d] for row in table] for d, name in enumerate(names)}


@pytest.mark.parametrize("seed", range(30))
def test_lines_are_counted_right(tmp_path, seed):
    """Fields with newlines, empty lines, a mark at the start: the truth is counted while writing."""
    rng = random.Random(seed)
    end = rng.choice(["\n", "\r\n"])
    text, lines = rng.choice(["", BOM]) + end * rng.randrange(3) + "a,b" + end, []
    for k in range(rng.randrange(1, 40)):
        text += end * rng.choice([0, 0, 1])
        lines.append(text.count("\n") + 1)
        text += f'{k},"{rng.choice(["x", "x" + end + "y", ""])}"{end}'
    path = tmp_path / f"data.csv{rng.choice(['', '.gz'])}"
    write(path, text.encode())
    assert [line_of_row(path, ",", row) for row in range(len(lines))] == [f"line {line}" for line in lines]
    assert line_of_row(path, ",", len(lines)) == f"row {len(lines)}"


# -- sources ---------------------------------------------------------------------------------------------------------


def table(n=60):
    rng = np.random.default_rng(0)
    found = pd.DataFrame(rng.normal(size=(n, 3)).round(3), columns=["a", "b", "c"])
    return found.assign(flag=np.resize([True, False, True], n), y=(found["a"] + found["c"]).round(3))


STYLES = {
    "semicolons": (".csv", {"sep": ";", "index": False}),
    "decimal comma": (".csv", {"sep": ";", "decimal": ",", "index": False}),
    "tabs": (".tsv", {"sep": "\t", "index": False}),
    "text": (".txt", {"sep": "|", "index": False}),
    "packed": (".csv.gz", {"index": False}),
    "packed, other": (".tsv.bz2", {"sep": "\t", "index": False}),
    "packed, no suffix": (".gz", {"index": False}),
    "large letters": (".CSV", {"index": False}),
    "quotes": (".csv", {"index": False, "quoting": csv.QUOTE_ALL}),
    "byte order mark": (".csv", {"index": False, "encoding": "utf-8-sig"}),
}


@pytest.mark.parametrize("name", STYLES)
def test_sources_in_all_styles(tmp_path, name):
    suffix, style = STYLES[name]
    data = table()
    packing = {".gz": "gzip", ".bz2": "bz2"}.get(f".{suffix.rpartition('.')[2]}")
    data.to_csv(tmp_path / f"data{suffix}", compression=packing, **style)
    source = open_data(tmp_path / f"data{suffix}", "y")
    assert source.about_rows == pytest.approx(61, abs=3)
    found = AnytimeRegressor().fit(source)
    expected = AnytimeRegressor().fit(data.drop(columns="y").astype(float), data["y"])
    assert found.sequence_.groups == expected.sequence_.groups
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize("index", [True, False])
def test_row_names_are_left_out_and_that_is_said(tmp_path, index):
    data = table()
    data.to_csv(
        tmp_path / "data.csv", header=True if index else list(data), index=True, index_label="" if index else False
    )
    with pytest.warns(UserWarning, match=r"data\.csv: the first column has no name: it is left out, as row names"):
        source = open_data(tmp_path / "data.csv", "y")
    assert source.feature_names == ("a", "b", "c", "flag")
    assert AnytimeRegressor().fit(source).moments_.n_samples == 60


def test_gaps_and_infinities_name_their_line(tmp_path, monkeypatch):
    monkeypatch.setattr(budgetline.data.text_files, "CSV_BLOCK", 500)
    for value, what in (("?", "NaN"), ("inf", "infinity")):
        lines = table().to_csv(index=False).splitlines()
        lines[41] = ",".join([value, *lines[41].split(",")[1:]])
        lines.insert(20, "")
        (tmp_path / "data.csv").write_text("\n".join(lines))
        source = open_data(tmp_path / "data.csv", "y", chunk_rows=3)
        with pytest.raises(ValueError, match=rf"data\.csv, block \d+: .*{what}: column 'a', first in line 43(;.*)?$"):
            AnytimeRegressor().fit(source)
        model = AnytimeRegressor().fit(table()[["a", "b", "c", "flag"]], table()["y"])
        with pytest.raises(ValueError, match=rf"{what}: column 'a', first in line 43$"):
            budget_curve(model, source)


def test_a_feature_of_text_names_value_and_line(tmp_path):
    table().assign(b=["3"] * 40 + ["three"] + ["3"] * 19).to_csv(tmp_path / "data.csv", index=False)
    source = open_data(tmp_path / "data.csv", "y")
    with pytest.raises(ValueError, match=r"column 'b' holds 'three', in line 42, not numbers; encoding='spline'"):
        AnytimeRegressor().fit(source)


def test_words_are_labels_unless_they_are_given(tmp_path):
    data = table().assign(y=np.resize(["None", "?", "x"], 60))
    data.to_csv(tmp_path / "data.csv", index=False)
    model = AnytimeClassifier(rule="omp", alpha=0.1)
    assert model.fit(open_data(tmp_path / "data.csv", "y")).classes_.tolist() == ["?", "None", "x"]
    with pytest.raises(ValueError, match=r"column 'y' has 20 missing values, the first in line 3$"):
        model.fit(open_data(tmp_path / "data.csv", "y", na="?"))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"delimiter": ";;"}, ValueError, "the delimiter must be one character, such as ';' or a tab, got ';;'"),
        ({"delimiter": '"'}, ValueError, "the delimiter must be one character"),
        ({"na": [1]}, TypeError, "na must be texts that mean missing values, got 1"),
    ],
)
def test_wrong_formats(tmp_path, given, error, message):
    table().to_csv(tmp_path / "data.csv", index=False)
    with pytest.raises(error, match=message):
        open_data(tmp_path / "data.csv", "y", **given)
    table().to_parquet(tmp_path / "data.parquet")
    with pytest.raises(ValueError, match=f"{next(iter(given))}=.* is for CSV files"):
        open_data(tmp_path / "data.parquet", "y", **given)


def test_text_of_a_folder_is_not_data(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "readme.txt").write_text("words")
    assert open_data(tmp_path, "y").about_rows == pytest.approx(61, abs=3)


def test_fields_longer_than_python_reads(tmp_path):
    text = "x" * 200_000
    (tmp_path / "data.csv").write_text(f"a;b\n1;y\n2;{text}\n3;z\n")
    assert frame(tmp_path / "data.csv") == {"a": [1, 2, 3], "b": ["y", text, "z"]}
    (tmp_path / "data.csv").write_text(f"a;b\n1;y\n2;{text}\n3;z;4\n")
    with pytest.raises(ValueError, match=r"data\.csv: 3 fields instead of 2$"):
        frame(tmp_path / "data.csv")
    assert line_of_row(tmp_path / "data.csv", ";", 2) == "row 2"


def test_rows_of_packed_files_are_estimated(tmp_path):
    data = "a,b\n" + "1,2\n" * 500_000
    for name in ("data.csv", "data.csv.gz"):
        write(tmp_path / name, data.encode())
        assert text_rows_about(tmp_path / name) == pytest.approx(500_000, rel=0.5)


# -- the summary -----------------------------------------------------------------------------------------------------


def test_a_summary_counts_like_pandas(tmp_path, monkeypatch):
    monkeypatch.setattr(budgetline.data.text_files, "CSV_BLOCK", 4000)
    rng = np.random.default_rng(0)
    n = 3000
    data = pd.DataFrame(
        {
            "number": rng.normal(size=n).round(6),
            "whole": rng.integers(-5, 6, n),
            "late": [*range(n - 1), 0.5],
            "flag": rng.random(n) < 0.3,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 50, n), "D"),
            "word": rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]),
            "name": [f"name {k}" for k in range(n)],
            "nothing": "",
        }
    )
    data["number"] = data["number"].astype(object).mask(rng.random(n) < 0.1, "?")
    data["word"] = data["word"].mask(rng.random(n) < 0.2, "NA")
    data.to_csv(tmp_path / "data.csv", index=False)
    found = describe(NamedFiles.of([tmp_path / "data.csv"], "csv"))
    truth = pd.read_csv(tmp_path / "data.csv", na_values=["?", "NA"], parse_dates=["day"])
    assert found.rows == n
    columns = {column.name: column for column in found.columns}
    kinds = ["number", "integer", "number", "boolean", "date", "text", "text", "empty"]
    assert [column.kind for column in found.columns] == kinds
    for name, column in columns.items():
        assert column.missing == truth[name].isna().sum()
        levels = truth[name].nunique()
        assert column.categories == (levels if levels <= MOST_DISTINCT else None)
    for name in ("number", "whole", "late"):
        assert (columns[name].low, columns[name].high) == (truth[name].min(), truth[name].max())
    assert (columns["day"].low, columns["day"].high) == (truth["day"].min().date(), truth["day"].max().date())
    assert columns["word"].examples == ("x", "y", "z")
    kept = describe(NamedFiles.of([tmp_path / "data.csv"], "csv"), ["word"])
    assert {column.name: column.missing for column in kept.columns}["word"] == 0


def test_a_summary_of_parquet(tmp_path):
    data = pd.DataFrame({"a": [1.5, np.nan, 2], "c": pd.Categorical(["x", None, "x"]), "l": [[1], None, [2]]})
    data.to_parquet(tmp_path / "data.parquet")
    found = describe(NamedFiles.of([tmp_path / "data.parquet"], "parquet"))
    assert found.format == ()
    assert [(c.kind, c.categories, c.missing) for c in found.columns] == [
        ("number", 2, 1),
        ("category", 1, 1),
        ("other", 0, 1),
    ]


@pytest.mark.parametrize("raw", [False, True])
def test_labels_are_trimmed(tmp_path, raw):
    """ " yes" and "yes" were two classes."""
    path = tmp_path / "a.csv"
    path.write_text("x,who,y\n1,p ,yes\n2, p, yes\n3,q,no \n", encoding="utf-8")
    source = open_data(path, "y", qid="who", features=["x"])
    [chunk] = [c for part in (source.raw() if raw else source).partitions for c in part.chunks(None)]
    assert chunk.y.tolist() == ["yes", "yes", "no"]
    assert chunk.qid.tolist() == ["p", "p", "q"]
