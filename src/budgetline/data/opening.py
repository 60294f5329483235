"""open_data: make a source from any kind of data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from glob import glob
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw

from budgetline.data.dask import DaskFrame, is_dask, refuse_dask
from budgetline.data.iterators import frame_source, iterator_source, split_given
from budgetline.data.named_files import NamedFiles
from budgetline.data.sources import Source, array_source, chunk_rows_for
from budgetline.data.svmlight_files import svmlight_source
from budgetline.data.tabular import LazyFramePartition, Roles, TablePartition, from_stream
from budgetline.files import PathName
from budgetline.inputs import check_integer
from budgetline.messages import did_you_mean, shown, some, warn

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
NO_NAMES = "names a column, but the columns of these data have no names"


def open_data(
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

    The data must not change afterwards. If an error reports that a file has changed, call ``open_data`` again.

    Parameters
    ----------
    data : path, glob, folder, list of paths, table, frame, tuple or iterator
        - Parquet (.parquet, .pq), CSV (.csv, .tsv or .txt, optionally compressed as .gz, .bz2 or .zst), svmlight
          (.svm, .svmlight, .libsvm) or Excel files (.xlsx, .xls; first sheet only), or a folder of files of one kind.
        - An Arrow table, a polars LazyFrame, a pandas, polars or dask data frame, or any other object that holds
          Arrow data (``__arrow_c_stream__``), such as a DuckDB relation.
        - A tuple ``(X, y)`` or ``(X, y, weight)`` of arrays, memmaps or sparse matrices.
        - An iterator over such tuples, read once, or a function that returns such an iterator. Its chunks are copied.
    target : str or list of str
        The target column, or an empty list if there is none. Not available for tuples, iterators and svmlight files.
    weight, qid : str, optional
        Columns of sample weights and query ids. For svmlight files, pass any text as ``qid`` to read the query ids.
    features : list of str, optional
        Names of the feature columns; by default, all others. Estimators read only the columns in their groups.
    chunk_rows : int, optional
        Number of rows per chunk. By default, a chunk has about 64 MB. Not available for data that have chunks of their
        own: svmlight files (32 MB of text per chunk), iterators and dask.
    file_format : {"parquet", "csv", "excel", "svmlight"}, optional
        The file format. Needed only if the file suffixes do not determine it.
    n_features, zero_based
        For svmlight files: the number of features, determined in an extra pass if None, and whether indices start at 0.
    delimiter, na
        For CSV files: the delimiter, detected from the first lines if None, and the strings for missing values besides
        the empty string. By default, these are NA, N/A, NaN, nan, null, NULL, None, ?, . and #N/A (none for a target).
        Decimal commas are detected unless commas are delimiters. An unnamed first column is left out as row names.
    device : str, optional
        PyTorch or CuPy device for matrix products of the rows, such as "cuda". Every dask worker uses its own device.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor, open_data
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> source = open_data((X, X @ [1.0, 2.0, 0.0]), chunk_rows=100)
    >>> AnytimeRegressor().fit(source).sequence_.groups
    ('1', '0', '2')
    """
    zero = zero_based or None
    asked = _Asked(target, weight, qid, features, chunk_rows, file_format, n_features, zero, delimiter, na, device)
    return replace(_opened(data, asked), device=device)


@dataclass(frozen=True)
class _Asked:
    """The arguments of `open_data`, None for those that were not given."""

    target: str | Iterable[str] | None
    weight: str | None
    qid: str | None
    features: Iterable[str] | None
    chunk_rows: int | None
    file_format: str | None
    n_features: int | None
    zero_based: bool | None
    delimiter: str | None
    na: str | Iterable[str] | None
    device: str | None

    def __post_init__(self) -> None:
        if self.chunk_rows is not None:
            check_integer("chunk_rows", self.chunk_rows, ge=1)
        if self.device is not None and not isinstance(self.device, str):
            raise TypeError(f"device must be the name of a device, such as 'cuda', got {shown(self.device)}")

    def refuse(self, why: str, *names: str) -> None:
        """Raise an error if one of these arguments was given: it would be ignored."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{name}={shown(getattr(self, name))} {why}")

    def roles(self, names: Iterable[str]) -> Roles:
        """Give every column its role; features default to all columns but target, weight and query."""
        if self.target is None:
            raise ValueError("say which column is the target: target='…'")
        known = Counter(names)
        target = self.target if isinstance(self.target, str) else tuple(self.target)
        named = [("target", name) for name in ((target,) if isinstance(target, str) else target)]
        named += [(role, name) for role, name in (("weight", self.weight), ("qid", self.qid)) if name is not None]
        roles = {name: role for role, name in reversed(named)}
        for role, name in named:
            if roles[name] != role:
                raise ValueError(f"column {shown(name)} cannot be both {roles[name]} and {role}")
        # pandas keeps the labels of rows in such columns
        plain = (name for name in known if name not in roles and not re.fullmatch(r"__index_level_\d+__", name))
        features = tuple(plain if self.features is None else self.features)
        for name in (*roles, *features):
            if known[name] > 1:
                raise ValueError(f"the data have {known[name]} columns {shown(name)}")
            if name not in known:
                what = f"column {shown(name)} is not in the data{did_you_mean(name, known)}"
                raise ValueError(f"{what}; the columns are {some(known, 10)}")
        if taken := sorted(roles.keys() & set(features)):
            raise ValueError(f"column {shown(taken[0])} cannot be a feature and something else")
        chunk_rows = self.chunk_rows or chunk_rows_for(len(features) + 1)
        return Roles(features, target, self.weight, self.qid, chunk_rows)


def _opened(data: Any, asked: _Asked) -> Source:
    paths = data if isinstance(data, list) else [data]
    if all(isinstance(path, str | PathLike) for path in paths):
        return _open_files(data, asked)
    asked.refuse("is for files", "file_format", "n_features", "zero_based", "delimiter", "na")
    return _open_tuple(data, asked) if isinstance(data, tuple) else _open_object(data, asked)


def _open_files(data: Paths, asked: _Asked) -> Source:
    """Open files; the first file determines the named columns."""
    paths, kind = files_of(data, asked.file_format)
    if kind != "csv":
        asked.refuse("is for CSV files", "delimiter", "na")
    if kind == "svmlight":
        asked.refuse(NO_NAMES, "target", "weight", "features")
        asked.refuse(OWN_PIECES, "chunk_rows")
        return svmlight_source(paths, asked.n_features, bool(asked.zero_based), bool(asked.qid))
    asked.refuse("is for svmlight files", "n_features", "zero_based")
    files = NamedFiles.of(paths, kind, asked.delimiter, asked.na)
    roles = asked.roles(files.schema.names)
    for doubt in files.csv.doubts if files.csv is not None else ():
        warn(doubt, UserWarning)
    return roles.source(files.partitions(roles))


def _open_tuple(data: tuple[object, ...], asked: _Asked) -> Source:
    """Open (X, y) or (X, y, weight)."""
    asked.refuse(NO_NAMES, "target", "weight", "qid", "features")
    data = (from_stream(data[0]), *data[1:]) if data else data
    X, y, weight = split_given(data, "the tuple")
    refuse_dask(X)
    if not isinstance(nw.from_native(X, pass_through=True), nw.DataFrame):
        return array_source(X, y, weight, asked.chunk_rows)
    asked.refuse(OWN_PIECES, "chunk_rows")
    return frame_source(data)


def _open_object(data: Any, asked: _Asked) -> Source:
    """Open anything but files and tuples."""
    data = from_stream(data)
    if is_dask(data) and hasattr(data, "columns"):
        asked.refuse(OWN_PIECES, "chunk_rows")
        roles = asked.roles(data.columns)
        return roles.source(DaskFrame(data, roles))
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame) and frame.implementation.is_polars():
        roles = asked.roles(frame.collect_schema().names())
        return roles.source([LazyFramePartition(roles, data)])
    if isinstance(frame, nw.DataFrame):
        roles = asked.roles(frame.columns)
        return roles.source([TablePartition(roles, frame)])
    if callable(data) or isinstance(data, Iterator):
        asked.refuse(NO_NAMES, "target", "weight", "qid", "features")
        asked.refuse(OWN_PIECES, "chunk_rows")
        return iterator_source(data)
    if hasattr(data, "shape"):
        raise TypeError("an array needs its target: open_data((X, y))")
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
        raise ValueError(f"cannot tell what {paths[0]} holds: pass its format: parquet, csv, excel or svmlight")
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
