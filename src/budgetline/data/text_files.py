"""Delimited text files: CSV and its relatives. pyarrow parses them; errors name the line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from budgetline.data.sources import FilePartition
from budgetline.data.tabular import Batch, NamedPartition, arrow, with_columns
from budgetline.data.text_format import (
    LONGEST_LINE,
    ROW_NAMES,
    UTF8,
    Header,
    TextFormat,
    encoding_of,
    find_format,
    find_header,
    is_number,
    not_text,
    readable,
    text_rows_about,
    text_stream,
    too_long,
)
from budgetline.inputs import NotNumbers
from budgetline.messages import cut, shown, some

if TYPE_CHECKING:
    import pyarrow as pa

CSV_BLOCK = LONGEST_LINE
"""Bytes of text parsed at once, and of the longest row."""
WIDTH, VALUE = re.compile(r"Expected (\d+) columns, got (\d+)"), re.compile(r"In CSV column #(\d+): .* '(.*)'$", re.S)
"""Errors of pyarrow for rows of another length, and for values that are not of the type of their column."""
KINDS = {"double": "a number", "int64": "a whole number", "bool": "true or false"}


@dataclass(frozen=True)
class CsvFiles:
    """How text files are read together: the format of the first, the types of its first block, and warnings."""

    written: TextFormat
    schema: pa.Schema
    doubts: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[Path], delimiter: str | None = None, na: str | Iterable[str] | None = None) -> CsvFiles:
        """Find the format from the first file, unless it is given, and types from the first file that has rows."""
        first, pa = paths[0], arrow()
        written = find_format(first, delimiter, na)
        header, doubts = find_header(first, written.delimiter), list[str]()
        if (encoding := encoding_of(first)) != UTF8:
            doubts.append(f"{first} is not UTF-8 text: read as {encoding}; if letters are wrong, save it as UTF-8")
        if ROW_NAMES in header.left_out:
            doubts.append(f"{first}: the first column has no name: it is left out, as row names")
        for path in paths:
            batch = _first_batch(path, written)
            if batch is None or set(batch.schema.types) == {pa.null()}:
                continue
            _check_text(path, written, batch)
            # numbers with decimal commas stay text if commas separate fields, or if other numbers have points
            if written.delimiter != "," and not _decimals(batch):
                commas = replace(written, decimal=",")
                if (other := _first_batch(path, commas)) is not None and _decimals(other):
                    written, batch = commas, other
            return cls(written, batch.schema, tuple(doubts))
        return cls(written, pa.schema([(name, pa.null()) for name in header.columns]), tuple(doubts))

    def reading(self, kinds: Mapping[str, str]) -> CsvFiles:
        """Return the files whose columns are read as these kinds, "text" or "flag"."""
        types = {"text": arrow().string(), "flag": arrow().bool_()}
        known = ((field.name, types.get(kinds.get(field.name, ""), field.type)) for field in self.schema)
        return replace(self, schema=arrow().schema(list(known)))

    def literally(self, names: Iterable[str]) -> CsvFiles:
        """Return the files whose columns are read as the text in the file; only the empty text is missing."""
        return replace(self.reading(dict.fromkeys(names, "text")), written=replace(self.written, missing=("",)))

    def batches(
        self, path: Path, names: Sequence[str], labels: Collection[str] = (), numbers: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of a file, a block of text at a time, with missing values where texts such as "NA" mean them.

        Columns of numbers, except ``labels``, and those that must be ``numbers``, are floating-point numbers. Labels
        are trimmed: " yes" is "yes".
        """
        header, types = find_header(path, self.written.delimiter), arrow().types
        known = set(header.columns)
        if absent := [name for name in names if name not in known]:
            raise ValueError(f"{path} has no column {shown(absent[0])}; its columns are {some(header.columns, 10)}")
        kinds = {name: self.schema.field(name).type for name in names}
        tests = (types.is_integer, types.is_floating, types.is_null)  # later blocks of empty columns may hold numbers
        for name, kind in kinds.items():
            if name in numbers or (name not in labels and any(test(kind) for test in tests)):
                kinds[name] = arrow().float64()
        return (self._with_missing(batch, labels) for batch in _parsed(path, header, self.written, names, kinds))

    def _with_missing(self, batch: pa.RecordBatch, labels: Collection[str]) -> pa.RecordBatch:
        compute, columns = import_module("pyarrow.compute"), {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if arrow().types.is_string(column.type):
                text = compute.utf8_trim_whitespace(column)
                texts = self.written.no_labels if name in labels else self.written.missing
                missing = compute.is_in(text, arrow().array(texts, column.type))
                given = text if name in labels else column
                columns[name] = compute.if_else(missing, arrow().scalar(None, column.type), given)
        return with_columns(batch, columns)


@dataclass(frozen=True)
class CsvPartition(NamedPartition, FilePartition):
    """A CSV file, read from start to end. Features that are not raw must be numbers."""

    files: CsvFiles

    @property
    def about_rows(self) -> int | None:
        return text_rows_about(self.path)

    def reading(self, kinds: Mapping[str, str]) -> CsvPartition:
        return replace(self, files=self.files.reading(kinds))

    def batches(self, names: list[str]) -> Iterator[Batch]:
        roles, rows = self.roles, 0
        weights = [] if roles.weight is None else [roles.weight]
        labels = [name for name in roles.others if name not in weights]
        with self.mark.held(self.where):
            for k, batch in enumerate(self.files.batches(self.path, names, labels, weights)):
                where = f"{self.where}, block {k}"
                if not roles.raw:
                    self._check_features(batch.select(names), where, rows)  # Arrow reads all columns if none are named
                yield batch, where, rows
                rows += batch.num_rows

    def row_name(self, row: int) -> str:
        return line_of_row(self.path, self.files.written.delimiter, row)

    def _check_features(self, batch: pa.RecordBatch, where: str, first: int) -> None:
        """Raise an error that names the line if a feature holds text."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if arrow().types.is_string(column.type) and name not in self.roles.others:
                texts, decimal = enumerate(column.to_pylist()), self.files.written.decimal
                k = next((k for k, text in texts if text is not None and not is_number(text, decimal)), 0)
                what = f"column {shown(name)} holds {shown(column[k].as_py())}, in {self.row_name(first + k)}"
                raise NotNumbers(f"{where}: {what}, not numbers")


# -- parsing ---------------------------------------------------------------------------------------------------


def _parsed(
    path: Path, header: Header, written: TextFormat, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> Generator[pa.RecordBatch]:
    """Yield columns of a file, a block of text at a time. Errors name the line."""
    reader, last = import_module("pyarrow.csv"), None
    read = reader.ReadOptions(block_size=CSV_BLOCK, column_names=header.names)
    parse = reader.ParseOptions(delimiter=written.delimiter, newlines_in_values=True)
    missing = [space + text for text in written.missing for space in ("", " ")]
    convert = reader.ConvertOptions(
        include_columns=names, column_types=types, null_values=missing, decimal_point=written.decimal
    )
    try:
        with text_stream(path) as (_, stream):
            stream.read(header.start)
            with reader.open_csv(stream, read, parse_options=parse, convert_options=convert) as batches:
                for last in batches:
                    yield last
    except (OSError, arrow().ArrowException) as error:
        if "Empty CSV file" not in str(error):  # it has no rows
            raise ValueError(_explained(error, path, header, written.delimiter)) from error
    if last is not None and last.num_rows:
        texts = (column[-1].as_py() for column in last.columns if arrow().types.is_string(column.type))
        if any("\n" in (text or "") for text in texts):  # after a quote that is never closed, this is all of the rest
            _line_of(path, written.delimiter, lambda row, fields: False, strict=True)


def _first_batch(path: Path, written: TextFormat) -> pa.RecordBatch | None:
    header = find_header(path, written.delimiter)
    with closing(_parsed(path, header, written, header.columns, {})) as batches:
        return next(batches, None)


def _decimals(batch: pa.RecordBatch) -> bool:
    """Return whether a column holds decimal numbers."""
    return any(map(arrow().types.is_floating, batch.schema.types))


def _check_text(path: Path, written: TextFormat, batch: pa.RecordBatch) -> None:
    """Raise an error if a column is not UTF-8 text, or all columns are text because the header is repeated."""
    types, compute, schema = arrow().types, import_module("pyarrow.compute"), batch.schema
    if any(map(types.is_binary, schema.types)):
        raise ValueError(not_text(path))
    if len(schema) > 1 and all(map(types.is_string, schema.types)):
        same = (compute.equal(batch.column(name), name) for name in schema.names)
        if (row := reduce(compute.and_, same).index(True).as_py()) >= 0:
            raise ValueError(f"{path}, {line_of_row(path, written.delimiter, row)}: the header is repeated")


# -- errors ----------------------------------------------------------------------------------------------------


def line_of_row(path: Path, delimiter: str, row: int) -> str:
    """Return "line 85" for row 83, or "row 83" if its line cannot be found."""
    found = _line_of(path, delimiter, lambda number, _: number == row)
    return f"row {row}" if found is None else f"line {found[0]}"


def _line_of(
    path: Path, delimiter: str, wanted: Callable[[int, list[str]], bool], strict: bool = False
) -> tuple[int, list[str]] | None:
    """Return the line and fields of the first row that is ``wanted``, None if it is not found; the header is row −1."""
    rows = enumerate(_records(path, delimiter, strict), start=-1)
    with suppress(csv.Error):
        return next((record for row, record in rows if wanted(row, record[1])), None)
    return None


def _records(path: Path, delimiter: str, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the line, from 1, and the fields of every row; if ``strict``, a quote that is never closed is an error."""
    with readable(path), text_stream(path) as (_, stream):
        text, line = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline=""), 1
        reader = csv.reader(text, delimiter=delimiter, strict=strict)
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            if "end of data" in str(error):
                raise ValueError(f"{path}, line {line}: a quote is never closed") from error
            raise


def _explained(error: Exception, path: Path, header: Header, delimiter: str) -> str:
    """Return an error of pyarrow in plain words, with the line."""
    text, found = str(error), None
    if "UTF8" in text:
        return not_text(path)
    if "straddl" in text:
        return too_long(str(path))
    if width := WIDTH.search(text):
        expected = int(width[1])
        found = _line_of(path, delimiter, lambda row, fields: row >= 0 and len(fields) != expected)
        number = int(width[2]) if found is None else len(found[1])
        what = f"{number} field{'' if number == 1 else 's'} instead of {expected}"
    elif value := VALUE.search(text):
        k, given = int(value[1]), value[2]
        found = _line_of(path, delimiter, lambda row, fields: row >= 0 and fields[k : k + 1] == [given])
        kind = text[: value.start(2)].rpartition(" to ")[2].partition(":")[0]
        kind = KINDS.get(kind, f"{kind} as in the rows before")
        what = f"column {shown(header.names[k])} holds {shown(given)}, not {kind}"
    else:
        return f"{path} cannot be read as CSV: {cut(text)}"
    return f"{path}{'' if found is None else f', line {found[0]}'}: {what}"
