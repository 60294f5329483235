"""open_source: from whatever holds the data to a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from glob import glob
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
from scipy import sparse

from budgetline.data.csv import CsvPartition, csv_schema
from budgetline.data.dask import dask_frame_source, dask_source, is_dask
from budgetline.data.marks import Mark
from budgetline.data.sources import Source, array_source, iterator_source, split_given
from budgetline.data.svmlight import svmlight_source
from budgetline.data.tabular import (
    FragmentPartition,
    LazyFramePartition,
    Roles,
    TablePartition,
    parquet_partitions,
    parquet_schema,
    roles_of,
    tabular_source,
)
from budgetline.messages import shown

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}


OWN_PIECES = "has no effect: these data come in pieces of their own"


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
) -> Source:
    """Open data of any size, to be read in chunks by ``fit`` and ``budget_curve``.

    The data must not change from now on until they have been learned from: that is an error which names the file.

    Parameters
    ----------
    data : path, glob, folder, list of paths, table, dataset, frame, tuple or iterator
        - Parquet (.parquet, .pq), CSV (.csv) and svmlight files (.svm, .svmlight, .libsvm); a folder stands for the
          files of one such kind in it.
        - An Arrow table or dataset, a polars LazyFrame, a pandas, polars or dask data frame.
        - A tuple ``(X, y)`` or ``(X, y, weight)`` of arrays, memmaps, sparse matrices or dask arrays.
        - An iterator of such tuples, which can be read once, or a function that starts one.
    target : str or list of str
        Name of the target column; not for tuples, iterators and svmlight files. An empty list: there is none, the data
        are for predictions.
    weight, qid : str, optional
        Names of the columns of sample weights and of queries. Of svmlight files, any ``qid`` asks for theirs.
    features : list of str, optional
        Default: all other columns. Estimators read only the columns that their groups use.
    chunk_rows : int, optional
        Rows read at once; default: about 64 MB. Not for data that come in pieces of their own: svmlight files (32 MB of
        text), iterators and dask.
    file_format : {"parquet", "csv", "svmlight"}, optional
        Where suffixes do not tell.
    n_features, zero_based
        Of svmlight files: the number of features (without it they are read once more), and whether indices start at 0.

    Returns
    -------
    Source

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor, open_source
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> source = open_source((X, X @ [1.0, 2.0, 0.0]), chunk_rows=100)
    >>> AnytimeRegressor().fit(source).sequence_.groups
    ('1', '0', '2')
    """
    _check_chunk_rows(chunk_rows)
    inside = {"file_format": file_format, "n_features": n_features, "zero_based": zero_based or None}
    roles = partial(roles_of, target=target, weight=weight, qid=qid, features=features, chunk_rows=chunk_rows)
    listed = isinstance(data, list) and all(isinstance(path, str | PathLike) for path in data)
    if not listed and not isinstance(data, str | PathLike):
        _refuse(inside, "is for files")
        return _open_object(data, roles, chunk_rows)
    return _open_files(*files_of(data, file_format), roles, inside)


def _check_chunk_rows(chunk_rows: Any) -> None:
    whole = isinstance(chunk_rows, Integral) and not isinstance(chunk_rows, bool)
    if chunk_rows is not None and (not whole or chunk_rows < 1):
        raise ValueError(f"chunk_rows must be a whole number ≥ 1, got {shown(chunk_rows)}")


def _open_files(paths: list[Path], kind: str, roles: partial[Roles], inside: dict[str, Any]) -> Source:
    """Open files; of named columns the first decides which there are."""
    if kind == "svmlight":
        _refuse_names(roles, but="qid")
        _refuse({"chunk_rows": roles.keywords["chunk_rows"]}, OWN_PIECES)
        return svmlight_source(paths, inside["n_features"], bool(inside["zero_based"]), bool(roles.keywords["qid"]))
    _refuse({**inside, "file_format": None}, "is for svmlight files")
    if kind == "csv":
        named = roles(csv_schema(paths[0]).names)
        return tabular_source([CsvPartition(path, named, Mark.of(path)) for path in paths], named)
    named = roles(parquet_schema(paths[0]).names)
    return tabular_source([part for path in paths for part in parquet_partitions(path, named)], named)


def _open_object(data: Any, roles: partial[Roles], chunk_rows: int | None) -> Source:
    """Open anything but files."""
    if is_dask(data) and hasattr(data, "columns"):
        _refuse({"chunk_rows": chunk_rows}, OWN_PIECES)
        return dask_frame_source(data, roles(data.columns))
    if isinstance(data, tuple):
        _refuse_names(roles)
        X, y, weights = split_given(data, "the tuple")
        if is_dask(X):
            _refuse({"chunk_rows": chunk_rows}, OWN_PIECES)
            return dask_source(X, y, weights)
        if isinstance(nw.from_native(X, pass_through=True), nw.DataFrame):
            _refuse({"chunk_rows": chunk_rows}, OWN_PIECES)
            return iterator_source(lambda: iter([data]))
        return array_source(X, y, weights, None, chunk_rows)
    module = type(data).__module__
    if module.startswith("pyarrow") and hasattr(data, "get_fragments"):
        named = roles(data.schema.names)
        return tabular_source([FragmentPartition.of(f, data.schema, named) for f in data.get_fragments()], named)
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame) and module.startswith("polars"):
        named = roles(frame.collect_schema().names())
        return tabular_source([LazyFramePartition(data, named)], named)
    if isinstance(frame, nw.DataFrame):
        named = roles(frame.columns)
        return tabular_source([TablePartition(frame, named)], named)
    if callable(data) or isinstance(data, Iterator):
        _refuse_names(roles)
        _refuse({"chunk_rows": chunk_rows}, OWN_PIECES)
        return iterator_source(data)
    if sparse.issparse(data) or hasattr(data, "shape"):
        raise TypeError("an array needs its target: open_source((X, y))")
    raise TypeError(f"do not know how to read {type(data).__name__}: give files, a table, (X, y), or an iterator")


def _refuse(given: dict[str, Any], why: str) -> None:
    """Raise an error for the first argument that was given although it would be ignored."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}={shown(value)} {why}")


def _refuse_names(roles: partial[Roles], but: str | None = None) -> None:
    """Raise an error if columns are named of data that have no names: they would be ignored."""
    for role in ("target", "weight", "qid", "features"):
        if role != but and roles.keywords[role] is not None:
            raise ValueError(f"{role}= names a column, and the columns of these data have no names")


def files_of(data: Any, file_format: str | None) -> tuple[list[Path], str]:
    """Return the files that a path, glob, folder or list stands for, sorted, and what they hold."""
    given = [Path(path) for path in data] if isinstance(data, list) else [Path(data)]
    paths: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not _hidden(p.relative_to(path)))
            paths += [p for p in inside if file_format or p.suffix in SUFFIXES]
        elif any(mark in str(path) for mark in "*?[") and not path.exists():
            paths += [Path(name) for name in sorted(glob(str(path), recursive=True))]
        else:
            paths.append(path)
    if not paths:
        raise FileNotFoundError(f"no files found in {shown(data)}")
    kinds = {file_format or SUFFIXES.get(path.suffix, path.suffix or path.name) for path in paths}
    if len(kinds) > 1:
        raise ValueError(f"files of different kinds: {', '.join(sorted(kinds))}")
    kind = kinds.pop()
    if kind not in set(SUFFIXES.values()):
        raise ValueError(f"cannot tell what {paths[0]} holds: give file_format='parquet', 'csv' or 'svmlight'")
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
    return paths, kind


def _hidden(path: Path) -> bool:
    """Say whether a file, or a folder it is in, is for programs only: logs, markers, unfinished parts."""
    return any(part.startswith((".", "_")) for part in path.parts)
