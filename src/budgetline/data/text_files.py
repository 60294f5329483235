"""Delimited text files: CSV and its relatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from budgetline.arrays import Mask, Positions
from budgetline.data.decimal_marks import find_marks, numbers_with_commas
from budgetline.data.marks import FilePartition
from budgetline.data.sources import Chunk
from budgetline.data.tabular import Roles, WithRoles, arrow
from budgetline.data.text_format import (
    LONGEST_LINE,
    Header,
    TextFormat,
    check_closed,
    check_header,
    explained,
    find_format,
    find_header,
    line_of_row,
    text_rows_about,
)
from budgetline.data.text_streams import not_unicode, text_stream
from budgetline.inputs import NotNumbers
from budgetline.messages import shown, some

if TYPE_CHECKING:
    import pyarrow as pa

Texts = str | Iterable[str] | None
CSV_BLOCK = LONGEST_LINE
"""Bytes of text parsed at once, and of the longest row."""


@dataclass(frozen=True)
class CsvFiles:
    """How text files are read together: in the format of the first one, with the types of its first block.

    Columns ``commas`` have decimal commas, while others have decimal points. ``doubts`` say what may be misread.
    """

    written: TextFormat
    schema: pa.Schema
    commas: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[Path], delimiter: str | None = None, na: Texts = None) -> CsvFiles:
        """Find the format from the first file, unless it is given, and types from the first file that has rows."""
        written, schema = find_format(paths[0], delimiter, na), None
        check_header(paths[0], written)
        for path in paths:
            header = find_header(path, written.delimiter)
            with _reading(path, header, written, header.columns, {}) as reader:
                if reader is not None and set(reader.schema.types) - {arrow().null()}:
                    return cls._of_batch(path, header, written, reader.read_next_batch())
            schema = schema or arrow().schema([(name, arrow().null()) for name in header.columns])
        return cls(written, schema)

    @classmethod
    def _of_batch(cls, path: Path, header: Header, written: TextFormat, batch: pa.RecordBatch) -> CsvFiles:
        """Return how files are read, from the first batch."""
        _check_text(path, written, batch)

        def texts(names: list[str]) -> pa.RecordBatch:
            with _reading(path, header, written, names, dict.fromkeys(names, arrow().string())) as reader:
                assert reader is not None
                return reader.read_next_batch()

        marks = find_marks(batch, arrow().array(written.missing), written.delimiter, texts)
        floats = {name: arrow().float64() for name in marks.found}
        schema = [field.with_type(floats.get(field.name, field.type)) for field in batch.schema]
        written = replace(written, decimal=marks.decimal)
        return cls(written, arrow().schema(schema), marks.found if marks.decimal == "." else frozenset(), marks.doubts)

    def batches(self, path: Path, names: list[str], numbers: Iterable[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield columns of a file, a block of text at a time; ``numbers`` as floating-point numbers."""
        header = find_header(path, self.written.delimiter)
        known = set(header.columns)
        if absent := [name for name in names if name not in known]:
            raise ValueError(f"{path} has no column {shown(absent[0])}; its columns are {some(header.columns, 10)}")
        types = {name: self.schema.field(name).type for name in names} | dict.fromkeys(numbers, arrow().float64())
        types |= {name: arrow().string() for name in names if name in self.commas}
        return self._with_points(path, _parsed(path, header, self.written, names, types))

    def _with_points(self, path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches in which numbers with decimal commas are numbers."""
        rows = 0
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name in self.commas & columns.keys():
                missing = arrow().array(self.missing(columns[name], self.written.missing))
                found = numbers_with_commas(columns[name], missing)
                if isinstance(found, int):
                    line = line_of_row(path, self.written.delimiter, rows + found)
                    value = shown(columns[name][found].as_py())
                    raise ValueError(f"{path}, {line}: column {shown(name)} holds {value}, not a number")
                columns[name] = found
            rows += batch.num_rows
            yield arrow().record_batch(columns) if self.commas & columns.keys() else batch

    def reading(self, kinds: Mapping[str, str]) -> CsvFiles:
        """Return the files whose columns are read as these kinds, "text" or "flag"."""
        types = {"text": arrow().string(), "flag": arrow().bool_()}
        known = ((field.name, types.get(kinds.get(field.name, ""), field.type)) for field in self.schema)
        return replace(self, schema=arrow().schema(list(known)), commas=self.commas - kinds.keys())

    def as_numbers(self, names: Iterable[str]) -> list[str]:
        """Return which of these columns hold numbers; an empty column may hold numbers in later blocks."""
        types = arrow().types
        tests = (types.is_integer, types.is_floating, types.is_null)
        return [name for name in names if any(test(self.schema.field(name).type) for test in tests)]

    def missing(self, column: pa.Array, texts: Sequence[str]) -> Mask:
        """Return which values of a column are missing; in text, ``texts`` mean missing values."""
        missing = column.is_null()
        if arrow().types.is_string(column.type):
            compute = import_module("pyarrow.compute")
            missing = compute.is_in(compute.utf8_trim_whitespace(column), arrow().array(texts))
        return np.asarray(missing.to_numpy(zero_copy_only=False))

    def count_missing(self, path: Path, names: list[str]) -> Counter[str]:
        """Count the texts that mean missing values in columns of a file."""
        compute, found = import_module("pyarrow.compute"), Counter[str]()
        header = find_header(path, self.written.delimiter)
        for batch in _parsed(path, header, self.written, names, dict.fromkeys(names, arrow().string())):
            for column in map(compute.utf8_trim_whitespace, batch.columns):
                given = column.filter(compute.is_in(column, arrow().array(self.written.missing)))
                found.update({entry["values"].as_py(): entry["counts"].as_py() for entry in given.value_counts()})
        return found

    def with_gaps(self, batch: pa.RecordBatch, labels: Collection[str] = ()) -> pa.RecordBatch:
        """Return a batch in which texts such as "NA" are missing values, except in columns of labels."""
        compute, columns = import_module("pyarrow.compute"), dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, column in columns.items():
            if name not in labels and arrow().types.is_string(column.type):
                missing = self.missing(column, self.written.missing)
                columns[name] = compute.if_else(missing, arrow().scalar(None, column.type), column)
        return arrow().record_batch(columns)

    def trimmed(self, batch: pa.RecordBatch, labels: Collection[str]) -> pa.RecordBatch:
        """Return a batch whose labels have no spaces around them: " yes" is "yes"."""
        trim, columns = import_module("pyarrow.compute").utf8_trim_whitespace, dict[str, Any]()
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            text = name in labels and arrow().types.is_string(column.type)
            columns[name] = trim(column) if text else column
        return arrow().record_batch(columns)

    def without_labels(self, batch: pa.RecordBatch, names: Iterable[str]) -> Mask:
        """Return which rows lack a value in one of these columns of labels."""
        missing = (self.missing(batch.column(name), self.written.no_labels) for name in names)
        return reduce(np.logical_or, missing, np.zeros(batch.num_rows, dtype=bool))

    def check_labels(self, path: Path, batch: pa.RecordBatch, roles: Roles, lines: Positions, where: str) -> None:
        """Raise an error that names the line if a target, weight or query is missing.

        ``lines`` are the numbers of the rows in the file.
        """
        for name in roles.others:
            missing = self.without_labels(batch, [name])
            if missing.any():
                line = line_of_row(path, self.written.delimiter, int(lines[missing.argmax()]))
                what = f"column {shown(name)} has {int(missing.sum())} missing values"
                raise (ValueError if missing.all() else roles.lost(name))(f"{where}: {what}, the first in {line}")


@contextmanager
def _reading(
    path: Path, header: Header, written: TextFormat, names: list[str], types: Mapping[str, pa.DataType]
) -> Iterator[pa.csv.CSVStreamingReader | None]:
    """Open columns of a file; None if there are no rows. Errors of reading name the line."""
    csv = import_module("pyarrow.csv")
    read = csv.ReadOptions(block_size=CSV_BLOCK, column_names=header.names)
    parse = csv.ParseOptions(delimiter=written.delimiter, newlines_in_values=True)
    missing = [space + text for text in written.missing for space in ("", " ")]
    convert = csv.ConvertOptions(
        include_columns=names, column_types=types, null_values=missing, decimal_point=written.decimal
    )
    with text_stream(path) as (_, stream):
        stream.read(header.start)
        if header.alone:
            yield None
            return
        try:
            with csv.open_csv(stream, read, parse_options=parse, convert_options=convert) as reader:
                yield reader
        except (OSError, arrow().ArrowException) as error:
            raise ValueError(explained(error, path, header, written.delimiter)) from error


def _parsed(
    path: Path, header: Header, written: TextFormat, names: list[str], types: Mapping[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file, a block of text at a time."""
    last = None
    with _reading(path, header, written, names, types) as reader:
        for last in reader or ():
            yield last
    if last is not None and any("\n" in text for text in _last_texts(last)):
        check_closed(path, written.delimiter)


def _last_texts(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield the texts of the last row: after a quote that is never closed, one of them is the rest of the file."""
    columns = (column for column in batch.columns if arrow().types.is_string(column.type))
    return (column[-1].as_py() or "" for column in columns)


def _check_text(path: Path, written: TextFormat, batch: pa.RecordBatch) -> None:
    """Raise an error if a column is not UTF-8 text, or all columns are text because the header is repeated."""
    types, compute, schema = arrow().types, import_module("pyarrow.compute"), batch.schema
    if any(map(types.is_binary, schema.types)):
        raise ValueError(not_unicode(path))
    if len(schema) > 1 and all(map(types.is_string, schema.types)):
        same = (compute.equal(batch.column(name), name) for name in schema.names)
        if (row := reduce(compute.and_, same).index(True).as_py()) >= 0:
            raise ValueError(f"{path}, {line_of_row(path, written.delimiter, row)}: the header is repeated")


@dataclass(frozen=True)
class CsvPartition(WithRoles, FilePartition):
    """A CSV file, read from start to end. Features that are not raw must be numbers."""

    roles: Roles
    files: CsvFiles

    @property
    def about_rows(self) -> int | None:
        """Number of rows, estimated from the length of the first lines."""
        return text_rows_about(self.path)

    def reading(self, kinds: Mapping[str, str]) -> CsvPartition:
        """Return the partition whose columns are read as these kinds, "text" or "flag"."""
        return replace(self, files=self.files.reading(kinds))

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Parse the file, a block of text at a time."""
        roles, rows = self.roles, 0
        features = roles.features_at(columns)
        numbers = self.files.as_numbers(features) + ([] if roles.weight is None else [roles.weight])
        with self.mark.held(self.where):
            for k, batch in enumerate(self.files.batches(self.path, roles.wanted(columns), numbers)):
                where, lines = f"{self.where}, block {k}", rows + np.arange(batch.num_rows)
                rows += batch.num_rows
                if roles.drop:
                    there = np.flatnonzero(~self.files.without_labels(batch, roles.targets))
                    batch, lines = batch.take(arrow().array(there)), lines[there]
                self.files.check_labels(self.path, batch, roles, lines, where)
                batch = self.files.trimmed(batch, roles.others) if roles.others else batch
                if roles.raw:
                    batch = self.files.with_gaps(batch, roles.others)
                else:
                    self._check_features(batch, features, lines, where)
                for chunk in roles.chunks([batch], columns, where):
                    yield replace(chunk, row_name=partial(self._line, lines))
                    lines = lines[chunk.n_rows :]

    def _line(self, lines: Positions, row: int) -> str:
        return line_of_row(self.path, self.files.written.delimiter, int(lines[row]))

    def _check_features(self, batch: pa.RecordBatch, features: list[str], lines: Positions, where: str) -> None:
        """Raise an error that names the line if a feature holds text."""
        is_number = self.files.written.is_number
        for name in features:
            if arrow().types.is_string(batch.column(name).type):
                texts = enumerate(batch.column(name).to_pylist())
                k = next((k for k, text in texts if not is_number(text)), 0)
                what = f"column {shown(name)} holds {shown(batch.column(name)[k].as_py())}, in {self._line(lines, k)}"
                raise NotNumbers(f"{where}: {what}, not numbers")
