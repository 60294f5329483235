"""Files that would take far more memory or time than their size says: one line that says why, before it is taken."""

import gzip

import numpy as np
import pytest

import budgetline.groups.feature_groups
from budgetline import AnytimeRegressor, FeatureGroups, open_data
from budgetline.data import svmlight_files, text_files, text_format
from budgetline.data.named_files import NamedFiles
from budgetline.data.text_format import text_rows_about


def write(path, text):
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def columns_of(path, **given):
    files = NamedFiles.of([path], "csv", **given)
    batches = [batch.to_pydict() for batch in files.batches(files.schema.names)]
    return {name: [value for batch in batches for value in batch[name]] for name in files.schema.names}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(text_format, "SAMPLE_BYTES", 1 << 10)
    monkeypatch.setattr(text_format, "LONGEST_LINE", 1 << 14)
    monkeypatch.setattr(text_files, "CSV_BLOCK", 1 << 14)


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
@pytest.mark.parametrize("given", [{}, {"delimiter": ";"}])
@pytest.mark.parametrize(("before", "line"), [(b"", 1), (b"a,b\n", 2), (b"a,b\r", 2)])
def test_a_line_that_does_not_end_is_named(tmp_path, small, name, given, before, line):
    path = write(tmp_path / name, before + b"x" * (1 << 15) + b"\n1\n")
    with pytest.raises(ValueError, match=rf"data\.csv.*, line {line}: a line.* is longer than 0\.01562 MB: .*end"):
        NamedFiles.of([path], "csv", **given)


def test_no_more_of_a_line_is_read_than_decides(tmp_path, small, monkeypatch):
    path, read, opened = write(tmp_path / "data.csv.gz", b"," * 10**7), [], text_format.text_stream

    class Counted:
        def __init__(self, stream):
            self.stream = stream

        def read(self, size):
            read.append(size)
            return self.stream.read(size)

    class Opened:
        def __init__(self, path):
            self.inner = opened(path)

        def __enter__(self):
            raw, stream = self.inner.__enter__()
            return raw, Counted(stream)

        def __exit__(self, *error):
            return self.inner.__exit__(*error)

    monkeypatch.setattr(text_format, "text_stream", Opened)
    with pytest.raises(ValueError, match="line 1: a line"):
        NamedFiles.of([path], "csv")
    assert sum(read) <= (1 << 14) + (1 << 11)


def test_marks_inside_names_and_quotes_are_no_columns(tmp_path, small):
    names = [f"a, b, c and d of {k}" for k in range(50)]
    for mark, quote in ((";", ""), (",", '"')):
        header = mark.join(f"{quote}{name}{quote}" for name in names)
        rows = "".join(mark.join(str(k + d) for d in range(50)) + "\n" for k in range(3))
        found = columns_of(write(tmp_path / "data.csv", f"{header}\n{rows}".encode()))
        assert found == {name: [d, d + 1, d + 2] for d, name in enumerate(names)}


def test_a_row_of_too_many_values_is_an_error_of_the_row(tmp_path, small):
    path = write(tmp_path / "data.csv", b"a,b\n1,2\n" + b"," * 500 + b"\n3,4\n")
    with pytest.raises(ValueError, match=r"data\.csv, line 3: 501 fields instead of 2$"):
        columns_of(path)


def test_a_later_row_that_is_too_long_is_not_told_in_words_of_pyarrow(tmp_path, small):
    path = write(tmp_path / "data.csv", b"a,b\n" + b"1,x\n" * 5000 + b"2," + b"y" * (1 << 16) + b"\n")
    with pytest.raises(ValueError, match=r"data\.csv: a line, or a value in quotes, is longer than"):
        columns_of(path)


def test_a_first_value_too_long_for_python_is_not_an_empty_file(tmp_path):
    path = write(tmp_path / "data.csv", b"x" * 200_000 + b"\n1\n")
    with pytest.raises(ValueError, match=r"data\.csv cannot .*: the first value of its first line is too long"):
        NamedFiles.of([path], "csv")


def test_rows_after_a_header_are_read_whatever_python_makes_of_them(tmp_path):
    text = "x" * 200_000
    path = write(tmp_path / "data.csv", f"a,b\n1,{text}\n".encode())
    assert columns_of(path) == {"a": [1], "b": [text]}


def test_wide_tables_with_many_columns_left_out(tmp_path):
    """A time that grows with the square of the number of columns would be noticed."""
    n = 20_000
    header = "r," + ",".join(f"x{k}" if k % 2 else "" for k in range(n))
    row = "r," + ",".join(str(k) if k % 2 else "" for k in range(n))
    found = columns_of(write(tmp_path / "data.csv", f"{header}\n{row}\n".encode()))
    assert len(found) == 1 + n // 2
    assert found["x1"] == [1]


def test_rows_of_a_file_that_holds_much_more_than_its_bytes_are_estimated_from_some(tmp_path, monkeypatch):
    monkeypatch.setattr(text_format, "LONGEST_LINE", 1 << 18)
    assert text_rows_about(write(tmp_path / "data.csv.gz", b"1\n" * 10**7)) >= 1 << 17


# -- svmlight ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zero_based", "index"), [(False, 2_000_000_000), (True, 2_000_000_000), (False, 100_000_001)])
def test_an_index_that_would_take_all_memory_is_named(tmp_path, zero_based, index):
    (tmp_path / "a.svm").write_text(f"1 1:1 2:3\n2 1:5 {index}:2\n3 2:1\n")
    match = r"a\.svm, bytes 0 to \d+: .* features would need at least \d+ GB: number"
    with pytest.raises(ValueError, match=match):
        open_data(tmp_path / "a.svm", zero_based=zero_based)


def test_too_large_an_n_features_is_named(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1 2:3\n")
    with pytest.raises(ValueError, match=r"n_features=2000000000: .* GB"):
        open_data(tmp_path / "a.svm", n_features=2_000_000_000)


def test_the_largest_index_that_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight_files, "MOST_FEATURES", 50)
    (tmp_path / "a.svm").write_text("1 1:1 2:3\n2 1:5 50:2\n3 2:1\n")
    assert open_data(tmp_path / "a.svm").n_features == 50
    (tmp_path / "a.svm").write_text("1 1:1 2:3\n2 1:5 51:2\n3 2:1\n")
    with pytest.raises(ValueError, match="51 features"):
        open_data(tmp_path / "a.svm")


def test_columns_by_the_million_need_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(budgetline.groups.feature_groups, "MOST_SINGLES", 50)
    rows = np.random.default_rng(0).normal(size=(30, 2))
    lines = (f"{a + b} 1:{a} 2:{b} 60:1\n" for a, b in rows.tolist())
    (tmp_path / "a.svm").write_text("".join(lines))
    source = open_data(tmp_path / "a.svm")
    with pytest.raises(ValueError, match=r"60 columns, each a group of its own.*remainder='drop'"):
        AnytimeRegressor().fit(source)
    groups = FeatureGroups({"a": [0], "b": [1]}, remainder="drop")
    assert set(AnytimeRegressor(feature_groups=groups).fit(source).sequence_.groups) == {"a", "b"}
