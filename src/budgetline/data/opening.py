"""open_source: make a source from any kind of data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from glob import glob
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw

from budgetline.data.dask import DaskFrame, dask_source, is_dask
from budgetline.data.excel_files import excel_table
from budgetline.data.iterators import frame_source, iterator_source, split_given
from budgetline.data.marks import Mark
from budgetline.data.parquet_files import parquet_partitions, parquet_schema
from budgetline.data.sources import Source, array_source
from budgetline.data.svmlight_files import svmlight_source
from budgetline.data.tabular import Asked, FragmentPartition, LazyFramePartition, TablePartition, from_stream
from budgetline.data.text_files import CsvFiles, CsvPartition
from budgetline.data.text_format import ROW_NAMES, find_header
from budgetline.data.text_streams import UTF8, encoding_of
from budgetline.files import PathName
from budgetline.messages import shown, warn

Paths = PathName | list[PathName]
SUFFIXES = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    **dict.fromkeys((".xlsx", ".xls"), "excel"),
}
TEXT_SUFFIXES = {"": "csv", ".txt": "csv", ".data": "csv"}
"""For files that the user names; in a folder such files may hold anything. No suffix: only compressed files."""
COMPRESSED = (".gz", ".bz2", ".zst")
OWN_PIECES = "has no effect: these data have chunks of their own"
FOR_FILES, FOR_CSV = "is for files", "is for CSV files"


def open_source(
    data: Any,
    target: str | Iterable[str] | None = None,
    *,
    weight: str | None = None,
    qid: str | None = None,
    features: Iterable[str] | None = None,
    chunk_rows: int | None = None,
    file_format: str | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    delimiter: str | None = None,
    na: str | Iterable[str] | None = None,
    device: str | None = None,
) -> Source:
    """Open data of any size, to be read in chunks by ``fit`` and ``budget_curve``.

    The data must not change until a fit has read them. A change is an error that names the file.

    Parameters
    ----------
    data : path, glob, folder, list of paths, table, dataset, frame, tuple or iterator
        - Parquet (.parquet, .pq), CSV (.csv, .tsv, .txt, each also .gz, .bz2 or .zst), svmlight (.svm, .svmlight,
          .libsvm) and Excel files (.xlsx, .xls; the first sheet); or a folder with files of one such kind.
        - An Arrow table or dataset, a polars LazyFrame, a pandas, polars or dask data frame, or another object with
          Arrow data (``__arrow_c_stream__``), such as a DuckDB relation.
        - A tuple ``(X, y)`` or ``(X, y, weight)`` of arrays, memmaps, sparse matrices or dask arrays.
        - An iterator of such tuples, read once, or a function that starts one. Chunks are copied as they are read.
    target : str or list of str
        Name of the target column; not for tuples, iterators and svmlight files. An empty list: no target, to predict.
    weight, qid : str, optional
        Names of the columns of sample weights and of queries. For svmlight files, any ``qid`` reads their query ids.
    features : list of str, optional
        Default: all other columns. Estimators read only the columns that their groups use.
    chunk_rows : int, optional
        Rows read at once; default: about 64 MB. Not for data with chunks of their own: svmlight files (32 MB of text),
        iterators and dask.
    file_format : {"parquet", "csv", "excel", "svmlight"}, optional
        Needed if the suffixes do not determine it.
    n_features, zero_based
        For svmlight files: the number of features (default: found by an extra read), and whether indices start at 0.
    delimiter, na
        For CSV files: the delimiter (default: found from the first lines), and the texts of missing values in addition
        to the empty text (default: NA, N/A, NaN, nan, null, NULL, None, ?, ., #N/A; these may be labels of a target).
        Decimal commas are found column by column. A first column without a name is left out, as row names.
    device : str, optional
        Multiply the rows on a device of PyTorch or CuPy, such as "cuda": chunks are copied there while the next are
        read. With dask, every worker uses its own device of this name.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor, open_source
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> source = open_source((X, X @ [1.0, 2.0, 0.0]), chunk_rows=100)
    >>> AnytimeRegressor().fit(source).sequence_.groups
    ('1', '0', '2')
    """
    asked = Asked(target, weight, qid, features, chunk_rows, file_format, n_features, zero_based or None, delimiter, na)
    return replace(_opened(data, asked), device=_checked(device))


def _checked(device: str | None) -> str | None:
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device must be the name of a device, such as 'cuda', got {shown(device)}")
    return device


def _opened(data: object, asked: Asked) -> Source:
    if isinstance(data, tuple):
        return _open_tuple(data, asked)
    if isinstance(data, str | PathLike):
        return _open_files(data, asked)
    if isinstance(data, list) and all(isinstance(path, str | PathLike) for path in data):
        return _open_files(data, asked)
    return _open_object(data, asked)


def _open_files(data: Paths, asked: Asked) -> Source:
    """Open files; the first file determines the named columns."""
    paths, kind = files_of(data, asked.file_format)
    if kind == "svmlight":
        asked.refuse_names("target", "weight", "features")
        asked.refuse(OWN_PIECES, "chunk_rows")
        asked.refuse(FOR_CSV, "delimiter", "na")
        return svmlight_source(paths, asked.n_features, bool(asked.zero_based), bool(asked.qid))
    asked.refuse("is for svmlight files", "n_features", "zero_based")
    if kind == "csv":
        files = CsvFiles.of(paths, asked.delimiter, asked.na)
        roles = asked.roles(files.schema.names)
        _tell_doubts(paths[0], files)
        return roles.source([CsvPartition(Mark.of(path), roles, files) for path in paths])
    asked.refuse(FOR_CSV, "delimiter", "na")
    if kind == "excel":
        tables = [nw.from_native(excel_table(path), eager_only=True) for path in paths]
        roles = asked.roles(tables[0].columns)
        return roles.source([TablePartition(table, roles) for table in tables])
    roles = asked.roles(parquet_schema(paths[0]).names)
    return roles.source([part for path in paths for part in parquet_partitions(path, roles)])


def _tell_doubts(path: Path, files: CsvFiles) -> None:
    """Warn of row names that are left out, of numbers that may be misread, and of text that is not UTF-8."""
    if (encoding := encoding_of(path)) != UTF8:
        warn(f"{path} is not UTF-8 text: read as {encoding}; if letters are wrong, save it as UTF-8", UserWarning)
    for doubt in files.doubts:
        warn(f"{path}: {doubt}", UserWarning)
    header = find_header(path, files.written.delimiter)
    if ROW_NAMES in header.left_out:
        warn(f"{path}: the first column has no name: it is left out, as row names", UserWarning)


def _open_tuple(data: tuple[object, ...], asked: Asked) -> Source:
    """Open (X, y) or (X, y, weight)."""
    asked.refuse(FOR_FILES, "file_format", "n_features", "zero_based", "delimiter", "na")
    asked.refuse_names("target", "weight", "qid", "features")
    data = (from_stream(data[0]), *data[1:]) if data else data
    X, y, weight = split_given(data, "the tuple")
    frame = isinstance(nw.from_native(X, pass_through=True), nw.DataFrame)
    if not frame and not is_dask(X):
        return array_source(X, y, weight, asked.chunk_rows)
    asked.refuse(OWN_PIECES, "chunk_rows")
    return frame_source(data) if frame else dask_source(X, y, weight)


def _open_object(data: Any, asked: Asked) -> Source:
    """Open anything but files and tuples."""
    asked.refuse(FOR_FILES, "file_format", "n_features", "zero_based", "delimiter", "na")
    data = from_stream(data)
    if is_dask(data) and hasattr(data, "columns"):
        asked.refuse(OWN_PIECES, "chunk_rows")
        roles = asked.roles(data.columns)
        return roles.source(DaskFrame(data, roles))
    module = type(data).__module__
    if module.startswith("pyarrow") and hasattr(data, "get_fragments"):
        roles = asked.roles(data.schema.names)
        return roles.source([FragmentPartition.of(part, data.schema, roles) for part in data.get_fragments()])
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame) and module.startswith("polars"):
        roles = asked.roles(frame.collect_schema().names())
        return roles.source([LazyFramePartition(data, roles)])
    if isinstance(frame, nw.DataFrame):
        roles = asked.roles(frame.columns)
        return roles.source([TablePartition(frame, roles)])
    if callable(data) or isinstance(data, Iterator):
        asked.refuse_names("target", "weight", "qid", "features")
        asked.refuse(OWN_PIECES, "chunk_rows")
        return iterator_source(data)
    if hasattr(data, "shape"):
        raise TypeError("an array needs its target: open_source((X, y))")
    raise TypeError(f"do not know how to read {type(data).__name__}: pass files, a table, (X, y), or an iterator")


def files_of(data: Paths, file_format: str | None) -> tuple[list[Path], str]:
    """Return the files of a path, glob, folder or list, sorted, and their format."""
    given = [Path(path) for path in data] if isinstance(data, list) else [Path(data)]
    paths: list[Path] = []
    for path in given:
        if path.is_dir():
            for inside in sorted(p for p in path.rglob("*") if p.is_file()):
                # logs, markers and unfinished parts
                hidden = any(part.startswith((".", "_")) for part in inside.relative_to(path).parts)
                paths += [inside] if not hidden and (file_format or _kind_of(inside, SUFFIXES)) else []
        elif any(mark in str(path) for mark in "*?[") and not path.exists():
            paths += [Path(name) for name in sorted(glob(str(path), recursive=True))]
        else:
            paths.append(path)
    if not paths:
        raise FileNotFoundError(f"no files found in {shown(data)}")
    known = SUFFIXES | TEXT_SUFFIXES
    kinds = {file_format or _kind_of(path, known) or path.suffix or path.name for path in paths}
    if len(kinds) > 1:
        raise ValueError(f"files of different kinds: {', '.join(sorted(kinds))}")
    kind = kinds.pop()
    if kind not in SUFFIXES.values():
        raise ValueError(f"cannot tell what {paths[0]} holds: give its format: parquet, csv, excel or svmlight")
    if absent := [path for path in paths if not path.exists()]:
        raise FileNotFoundError(f"{absent[0]} does not exist")
    return paths, kind


def _kind_of(path: Path, known: Mapping[str, str]) -> str | None:
    """Return the format of a file by its suffixes, None if they do not tell; CSV files may be compressed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in COMPRESSED:
        kind = known.get(suffixes[-2] if len(suffixes) > 1 else "")
        return kind if kind == "csv" else None
    return known.get(suffixes[-1]) if suffixes else None
