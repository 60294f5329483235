"""Bad data: an error that says where, and an estimator that is as it was."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import budgetline.data.text_files
from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, GroupLassoPath, open_data


def make_frame(n=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return frame.assign(y=frame["a"] - frame["b"] + rng.normal(size=n), w=rng.uniform(0.5, 2.0, n))


@pytest.fixture
def folder(tmp_path):
    """Three files of three row groups each."""
    for k in range(3):
        write(make_frame(seed=k), tmp_path / f"{k}.parquet")
    return tmp_path


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False, row_group_size=20)


def with_value(value, column, row=45):
    frame = make_frame(seed=1)
    frame[column] = frame[column].astype(object if isinstance(value, str) else float)
    frame.loc[row, column] = value
    return frame.astype({column: str}) if isinstance(value, str) else frame


def check_refused(make_source, message, error=ValueError, **settings):
    """Neither a new model nor one that is fitted is changed by a fit that fails."""
    for model in (
        AnytimeRegressor(**settings),
        AnytimeRegressor(**settings).fit(make_frame()[["a", "b", "c"]], make_frame()["y"]),
    ):
        before = dict(vars(model))
        with pytest.raises(error, match=message):
            model.fit(make_source())
        assert vars(model) == before


BAD_FRAMES = {
    "wrong columns": (make_frame().rename(columns={"b": "z"}), r"1\.parquet: column 'b' is missing.*'z'"),
    "a column too few": (make_frame().drop(columns="c"), r"1\.parquet: column 'c' is missing"),
    "no target": (make_frame().drop(columns="y"), r"1\.parquet: column 'y' is missing"),
    "NaN": (with_value(np.nan, "b"), r"1\.parquet, row group 2: .*NaN: column 'b'"),
    "infinity": (with_value(np.inf, "c", 25), r"1\.parquet, row group 1: .*infinity: column 'c'"),
    "too large": (with_value(1e200, "a", 5), r"1\.parquet, row group 0: .*too large.*column 'a'"),
    "missing target": (with_value(np.nan, "y"), r"1\.parquet, row group 2: column 'y' has 1 missing"),
    "missing weight": (with_value(np.nan, "w"), r"1\.parquet, row group 2: column 'w' has 1 missing"),
    "infinite target": (with_value(np.inf, "y"), r"1\.parquet, row group 2: .*infinity"),
    "negative weight": (with_value(-1.0, "w"), r"1\.parquet, row group 2: .*negative"),
    "text": (with_value("text", "b"), r"1\.parquet, row group 0: column 'b' holds .*string, not numbers"),
    "text for a target": (with_value("text", "y"), r"1\.parquet, row group \d: "),
    "text for a weight": (with_value("text", "w"), r"1\.parquet, row group \d: "),
    "dates": (
        make_frame().assign(a=pd.Timestamp("2020-01-01")),
        r"1\.parquet, row group 0: column 'a' holds timestamp",
    ),
    "date targets": (make_frame().assign(y=pd.Timestamp("2020-01-01")), r"1\.parquet, row group 0: .*dates or times"),
    "lists": (make_frame().assign(a=[[1.0]] * 60), r"1\.parquet, row group 0: column 'a' holds list"),
    "nulls only": (make_frame().assign(a=None), r"1\.parquet, row group 0: .*NaN: column 'a'"),
}


@pytest.mark.parametrize("kind", BAD_FRAMES)
def test_bad_parquet_among_good(folder, kind):
    frame, message = BAD_FRAMES[kind]
    write(frame, folder / "1.parquet")
    features = ["a", "b", "c"]
    check_refused(lambda: open_data(folder, "y", weight="w", features=features, chunk_rows=20), message)
    # row groups that are read together are told apart
    check_refused(lambda: open_data(folder, "y", weight="w", features=features), message)


BAD_CSV = {
    "wrong columns": (make_frame().rename(columns={"b": "z"}).to_csv(index=False), r"1\.csv .*'b'"),
    "NaN": (with_value(np.nan, "b").to_csv(index=False), r"1\.csv, block 0: .*NaN: column 'b', first in line 47;"),
    "missing target": (with_value(np.nan, "y").to_csv(index=False), r"1\.csv, block 0: column 'y' has 1 missing"),
    "text": (
        with_value("words", "b").to_csv(index=False),
        r"1\.csv, line 47: column '[bw]' holds 'words', not a number$",
    ),
    "text for a weight": (
        with_value("words", "w").to_csv(index=False),
        r"1\.csv, line 47: column '[bw]' holds 'words', not a number$",
    ),
    "text for a target": (
        with_value("words", "y").to_csv(index=False),
        r"1\.csv, line 47: column 'y' holds 'words', not a number$",
    ),
    "ragged": (
        make_frame().to_csv(index=False) + "1,2,3\n",
        r"1\.csv, line 62: 3 fields instead of 5$",
    ),
    "negative weight": (with_value(-1.0, "w").to_csv(index=False), r"1\.csv, block 0: .*negative"),
    "not text at all": (b"\xff\xfe\x00\x01" * 20, r"1\.csv: not UTF-8 text"),
    "empty": ("", r"1\.csv cannot be read as CSV: it is empty$"),
}


@pytest.mark.parametrize("kind", BAD_CSV)
def test_bad_csv_among_good(tmp_path, kind):
    text, message = BAD_CSV[kind]
    write(make_frame(), tmp_path / "0.csv")
    (tmp_path / "1.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    write(make_frame(seed=2), tmp_path / "2.csv")
    check_refused(lambda: open_data(tmp_path, "y", weight="w"), message)


def labelled(n=60):
    return make_frame(n).drop(columns=["y", "w"]).assign(y=np.resize(["u", "v", "v"], n))


@pytest.mark.parametrize("empty", ["", '""'])
@pytest.mark.parametrize(("before", "line"), [("", 47), ("\n\r\n", 49)])
def test_a_csv_field_without_text_is_a_missing_label(tmp_path, empty, before, line):
    text = labelled().to_csv(index=False).splitlines(keepends=True)
    text[46] = text[46].replace(",v\n", f",{empty}\n").replace(",u\n", f",{empty}\n")
    (tmp_path / "a.csv").write_text("".join([text[0], before, *text[1:]]))
    model = AnytimeClassifier(rule="omp", alpha=0.1)
    for chunk_rows in (None, 10):
        source = open_data(tmp_path / "a.csv", "y", chunk_rows=chunk_rows)
        with pytest.raises(ValueError, match=rf"a\.csv, block 0: column 'y' has 1 missing values, .* line {line}$"):
            model.fit(source)
    assert not hasattr(model, "classes_")


def test_lines_are_counted_over_the_blocks_of_a_csv_file(tmp_path, monkeypatch):
    monkeypatch.setattr(budgetline.data.text_files, "CSV_BLOCK", 500)
    for column, value in (("y", ""), ("q", ""), ("w", "")):
        frame = labelled().assign(w="2", q="query").astype(str)
        frame.loc[45, column] = value
        frame.to_csv(tmp_path / "a.csv", index=False)
        source = open_data(tmp_path / "a.csv", "y", weight="w", qid="q")
        with pytest.raises(
            ValueError, match=rf"a\.csv, block \d+: column '{column}' has 1 missing values, .* line 47$"
        ):
            AnytimeClassifier(rule="omp", alpha=0.1).fit(source)


def test_words_that_may_mean_missing_are_labels_of_text(tmp_path):
    labelled().replace({"y": {"u": "NA"}}).to_csv(tmp_path / "a.csv", index=False)
    found = AnytimeClassifier(rule="omp", alpha=0.1).fit(open_data(tmp_path / "a.csv", "y"))
    assert found.classes_.tolist() == ["NA", "v"]


def test_missing_labels_of_tables_name_their_row(tmp_path):
    frame = labelled()
    frame.loc[45, "y"] = None
    frame.to_parquet(tmp_path / "a.parquet", index=False, row_group_size=20)
    frame.astype({"y": "category"}).to_parquet(tmp_path / "b.parquet", index=False, row_group_size=20)
    sources = {
        "a.parquet, row group 2": open_data(tmp_path / "a.parquet", "y", chunk_rows=3),
        "b.parquet, row group 2": open_data(tmp_path / "b.parquet", "y"),
        "rows 0 to 59": open_data(frame, "y"),
        "rows 45 to 47": open_data(pa.Table.from_pandas(frame, preserve_index=False), "y", chunk_rows=3),
    }
    for where, source in sources.items():
        row = 5 if "row group" in where else 45
        message = rf"{where}: column 'y' has 1 missing values, the first in row {row}$"
        with pytest.raises(ValueError, match=message):
            AnytimeClassifier(rule="omp", alpha=0.1).fit(source)


def test_a_weight_column_may_turn_from_whole_numbers_to_others(tmp_path):
    frame = make_frame(40)
    frame["w"] = [1] * 20 + [0.5] * 20
    lines = frame.to_csv(index=False).replace(",1.0\n", ",1\n")
    (tmp_path / "a.csv").write_text(lines)
    found = AnytimeRegressor().fit(open_data(tmp_path / "a.csv", "y", weight="w"))
    wanted = AnytimeRegressor().fit(frame[["a", "b", "c"]], frame["y"], frame["w"])
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-10)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2:nan", "NaN: column '1'"),
        ("1 2:1 1:1", "[Ff]eature indices"),
        ("1 2:word", "word"),
        ("word 2:1", "word"),
        ("1 0:1", "index 0"),
        ("1 7:1", "7 features"),
    ],
)
def test_bad_svmlight_among_good(tmp_path, line, message):
    (tmp_path / "0.svm").write_text("1 1:1 2:3 3:1\n2 1:5 3:2\n")
    (tmp_path / "1.svm").write_text(f"1 1:1 2:3 3:1\n{line}\n")
    check_refused(lambda: open_data(tmp_path, n_features=3), rf"1\.svm, bytes 0 to \d+: .*{message}")


def test_queries_that_only_some_lines_have(tmp_path):
    (tmp_path / "a.svm").write_text("1 qid:1 1:1\n2 1:5\n")
    check_refused(lambda: open_data(tmp_path / "a.svm", qid="qid"), r"a\.svm.*qid has shape \(1,\), X has 2 rows")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_files_without_rows_are_passed_over(tmp_path, suffix, position):
    for k in range(3):
        write(make_frame(seed=k)[: 0 if k == position else 60], tmp_path / f"{k}.{suffix}")
    found = AnytimeRegressor().fit(open_data(tmp_path, "y", weight="w"))
    frame = pd.concat([make_frame(seed=k) for k in range(3) if k != position])
    wanted = AnytimeRegressor().fit(frame[["a", "b", "c"]], frame["y"], frame["w"])
    np.testing.assert_allclose(found.coef_path_, wanted.coef_path_, rtol=1e-10)


def test_an_svmlight_file_without_rows_is_passed_over(tmp_path):
    (tmp_path / "0.svm").write_text("")
    (tmp_path / "1.svm").write_text("1 1:1\n2 1:5\n4 1:9\n")
    (tmp_path / "2.svm").write_text("# nothing\n")
    assert AnytimeRegressor().fit(open_data(tmp_path)).moments_.n_samples == 3


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_no_rows_at_all(tmp_path, suffix):
    write(make_frame()[:0], tmp_path / f"0.{suffix}")
    check_refused(lambda: open_data(tmp_path, "y", weight="w"), "holds no rows of positive weight")
    write(make_frame().assign(w=0.0), tmp_path / f"0.{suffix}")
    check_refused(lambda: open_data(tmp_path, "y", weight="w"), "holds no rows of positive weight")


def test_no_rows_in_arrays_tables_and_iterators():
    X, y = np.empty((0, 3)), np.empty(0)
    for make in (lambda: (X, y), lambda: iter([(X, y)]), lambda: lambda: iter([(X, y), (X, y)])):
        check_refused(lambda make=make: open_data(make()), "holds no rows of positive weight")
    check_refused(lambda: open_data(make_frame()[:0], "y", weight="w"), "holds no rows of positive weight")
    with pytest.raises(ValueError, match="holds no rows"):
        AnytimeClassifier(rule="omp").fit(open_data((X, y)))


@pytest.mark.parametrize("cut", [1, 8, 100, -1])
def test_truncated_parquet(folder, cut):
    data = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(data[: len(data) // 2] if cut < 0 else data[:-cut])
    with pytest.raises(ValueError, match=r"1\.parquet is not a Parquet file, or it is damaged"):
        open_data(folder, "y")
    (folder / "1.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"1\.parquet is not a Parquet file, or it is damaged"):
        open_data(folder, "y")


def test_parquet_whose_pages_are_damaged(folder):
    data = bytearray((folder / "1.parquet").read_bytes())
    start = pq.ParquetFile(folder / "1.parquet").metadata.row_group(1).column(0).data_page_offset
    data[start : start + 40] = b"\xff" * 40
    (folder / "1.parquet").write_bytes(bytes(data))
    check_refused(lambda: open_data(folder, "y", weight="w", chunk_rows=20), r"1\.parquet, row group 1: ")


def test_truncated_while_it_is_open(folder):
    source = open_data(folder, "y", weight="w")
    data = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(data[:-20])
    check_refused(lambda: source, r"1\.parquet, .*has changed since it was opened")


@pytest.mark.parametrize("suffix", ["parquet", "csv", "svm"])
def test_a_file_that_goes_between_opening_and_reading(tmp_path, suffix):
    for k in range(2):
        if suffix == "svm":
            (tmp_path / f"{k}.svm").write_text("1 1:1\n2 1:3\n")
        else:
            write(make_frame(seed=k), tmp_path / f"{k}.{suffix}")
    source = open_data(tmp_path) if suffix == "svm" else open_data(tmp_path, "y", weight="w")
    (tmp_path / f"1.{suffix}").unlink()
    check_refused(lambda: source, rf"1\.{suffix} does not exist", FileNotFoundError)


def test_a_file_that_is_written_anew_between_opening_and_reading(folder):
    """Its row groups are no longer those that were counted: some rows would be left out."""
    source = open_data(folder, "y", weight="w")
    make_frame().to_parquet(folder / "1.parquet", index=False, row_group_size=5)
    check_refused(lambda: source, r"1\.parquet, .*has changed since it was opened")
    make_frame().to_parquet(folder / "1.parquet", index=False)
    source = open_data(folder, "y", weight="w", chunk_rows=20)
    make_frame()[:20].to_parquet(folder / "1.parquet", index=False)
    check_refused(lambda: source, r"1\.parquet, .*has changed since it was opened")


def test_files_that_are_not_there(tmp_path):
    write(make_frame(), tmp_path / "0.parquet")
    for data, message in (
        (tmp_path / "1.parquet", r"1\.parquet does not exist"),
        ([tmp_path / "0.parquet", tmp_path / "1.parquet"], r"1\.parquet does not exist"),
        (tmp_path / "*.csv", "no files found in"),
        ([], "no files found in"),
    ):
        with pytest.raises(FileNotFoundError, match=message):
            open_data(data, "y")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no files found"):
        open_data(tmp_path / "empty", "y")


def test_files_of_different_or_unknown_kinds(tmp_path):
    write(make_frame(), tmp_path / "0.parquet")
    write(make_frame(), tmp_path / "1.csv")
    with pytest.raises(ValueError, match="files of different kinds: csv, parquet"):
        open_data(tmp_path, "y")
    with pytest.raises(ValueError, match=r"1\.csv is not a Parquet file"):
        open_data(tmp_path, "y", file_format="parquet")
    (tmp_path / "notes.md").write_text("words")
    with pytest.raises(ValueError, match=r"cannot tell what .*notes\.md holds"):
        open_data(tmp_path / "notes.md", "y")
    with pytest.raises(ValueError, match=r"cannot tell what .*0\.parquet holds"):
        open_data(tmp_path / "0.parquet", "y", file_format="word")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_roles_that_columns_cannot_have(tmp_path, suffix):
    path = tmp_path / f"0.{suffix}"
    write(make_frame(), path)
    for keywords, message in (
        ({"target": "z"}, "column 'z' is not in the data; the columns are 'a', 'b'"),
        ({"target": ["y", "z"]}, "column 'z' is not in the data"),
        ({"target": "y", "weight": "z"}, "column 'z' is not in the data"),
        ({"target": "y", "features": ["a", "z"]}, "column 'z' is not in the data"),
        ({"target": "y", "features": ["a", "y"]}, "column 'y' cannot be a feature and something else"),
        ({"target": "y", "weight": "w", "features": ["a", "w"]}, "column 'w' cannot be a feature"),
        ({}, "say which column is the target"),
    ):
        with pytest.raises(ValueError, match=message):
            open_data(path, **keywords)


def test_two_columns_of_one_name(tmp_path):
    (tmp_path / "a.csv").write_text("a,a,b,y\n1,2,3,4\n")
    with pytest.raises(ValueError, match="2 columns 'a'"):
        open_data(tmp_path / "a.csv", "y")
    arrays = [pa.array([1.0, 2.0])] * 4
    pq.write_table(pa.Table.from_arrays(arrays, names=["a", "a", "b", "y"]), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="2 columns 'a'"):
        open_data(tmp_path / "a.parquet", "y")
    assert open_data(tmp_path / "a.parquet", "y", features=["b"]).n_features == 1


def test_groups_of_columns_that_the_source_has_not(folder):
    with pytest.raises(ValueError, match="'z'"):
        AnytimeRegressor([["a"], ["z"]]).fit(open_data(folder, "y"))
    with pytest.raises(ValueError, match="in no group"):
        AnytimeRegressor([["a"]]).fit(open_data(folder, "y"))
    groups = FeatureGroups([["a"]], remainder="drop")
    assert AnytimeRegressor(groups).fit(open_data(folder, "y")).moments_.n_features == 1


X, Y = make_frame()[["a", "b", "c"]].to_numpy(), make_frame()["y"].to_numpy()
BAD_CHUNKS = {
    "not a tuple": (X, TypeError, r"chunk 1 must be \(X, y\) or \(X, y, weight\), got ndarray"),
    "one part": ((X,), TypeError, "chunk 1 .*tuple of length 1"),
    "four parts": ((X, Y, Y, Y), TypeError, "chunk 1 .*tuple of length 4"),
    "None": (None, TypeError, "chunk 1 .*NoneType"),
    "lengths": ((X, Y[:-1]), ValueError, r"chunk 1: y has shape \(59,\), X has 60 rows"),
    "weights": ((X, Y, np.ones(3)), ValueError, r"chunk 1: weight has shape \(3,\), X has 60 rows"),
    "one weight": ((X, Y, 2.0), ValueError, r"chunk 1: weight has shape \(\), X has 60 rows"),
    "text weights": ((X, Y, ["w"] * 60), ValueError, "chunk 1: could not convert"),
    "negative weights": ((X, Y, -np.ones(60)), ValueError, "chunk 1: .*negative"),
    "no target": ((X, None), ValueError, "chunk 1: .*target y is None"),
    "fewer columns": ((X[:, :2], Y), ValueError, "chunk 1: other columns than before: 2 without names instead of 3"),
    "names": (
        (make_frame()[["a", "b", "c"]], Y),
        ValueError,
        r"chunk 1: other columns than before: 3 \('a', 'b', 'c'\)",
    ),
    "a vector": ((Y, Y), ValueError, "chunk 1: .*2D array"),
    "NaN": ((np.where(X > 1, np.nan, X), Y), ValueError, "chunk 1: .*NaN: column"),
    "target of NaN": ((X, np.where(Y > 1, np.nan, Y)), ValueError, "chunk 1: .*NaN"),
    "text": ((X.astype(str), np.array(["word"] * 60)), ValueError, "chunk 1: "),
    "more targets": ((X, np.column_stack([Y, Y])), ValueError, "chunk 1: y has 2 columns, not 1"),
    "too small": ((X * 1e-170, Y), ValueError, "chunk 1: .*too small"),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", BAD_CHUNKS)
def test_bad_chunks_of_an_iterator(kind, again):
    bad, error, message = BAD_CHUNKS[kind]
    chunks = [(X, Y), bad, (X, Y)]
    check_refused(lambda: open_data((lambda: iter(chunks)) if again else iter(chunks)), message, error)


def test_a_bad_first_chunk_is_an_error_at_once():
    for bad, message in ((X, "chunk 0 must be"), ((Y, Y), "chunk 0: X must be a table"), (5, "chunk 0 must be")):
        with pytest.raises((TypeError, ValueError), match=message):
            open_data(iter([bad]))


def test_errors_of_the_users_iterator_come_through():
    def chunks():
        yield X, Y
        raise ConnectionError("the store is gone")

    check_refused(lambda: open_data(chunks()), "the store is gone", ConnectionError)


def test_bad_rows_of_arrays_are_located():
    broken = X.copy()
    broken[33, 2] = np.nan
    check_refused(lambda: open_data((broken, Y), chunk_rows=10), "rows 30 to 39: .*NaN: column '2', first in row 3")
    check_refused(lambda: open_data((X.astype(str), Y), chunk_rows=10), "rows 0 to 9: ")
    table = pa.table({"a": X[:, 0], "y": [None, *Y[1:]]})
    check_refused(lambda: open_data(table, "y"), "rows 0 to 59: column 'y' has 1 missing")


@pytest.mark.parametrize(
    "estimator", [AnytimeClassifier(rule="omp"), AnytimeRegressor(loss="poisson", rule="omp"), GroupLassoPath()]
)
def test_other_estimators_locate_bad_rows_too(folder, estimator):
    write(with_value(np.nan, "b").assign(label=1.0), folder / "1.parquet")
    for k in (0, 2):
        write(make_frame(seed=k).assign(label=np.arange(60) % 2.0), folder / f"{k}.parquet")
    source = open_data(folder, "label", features=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"1\.parquet, row group 2: .*column 'b'"):
        estimator.fit(source)
    assert not [name for name in vars(estimator) if name.endswith("_")]


def test_the_first_error_wins_and_the_rest_is_not_read(folder):
    (folder / "0.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=re.escape("0.parquet")):
        open_data(folder, "y")
