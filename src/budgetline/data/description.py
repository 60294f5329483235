"""What is in the columns of files: types, categories, missing values, identifiers, and how text is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from budgetline.data.identifiers import MOST, identifier
from budgetline.data.named_files import NamedFiles
from budgetline.data.tabular import arrow
from budgetline.data.text_format import UTF8, TextFormat, compression_of, encoding_of, find_header
from budgetline.encoding.raw import series_column
from budgetline.encoding.written import Written, find_written
from budgetline.messages import name_of, shown, some

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DISTINCT = 1000
"""Different values are counted up to this number."""
EXAMPLES = 3
MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space"}


@dataclass(frozen=True)
class ColumnDescription:
    """One column: its kind, the number of different values (None: too many to count), and of missing values.

    Kinds are number, integer, boolean, date (also times), category, text, empty (no value at all), and other. Numbers
    and dates have ``low`` and ``high``. ``examples`` are the most frequent of the values that were counted. ``form``
    says how text is written that an encoding reads as numbers, with an example; "" for all other columns.
    """

    name: str
    kind: str
    categories: int | None
    missing: int
    low: object
    high: object
    examples: tuple[str, ...]
    form: str = ""


@dataclass(frozen=True)
class TableDescription:
    """All columns of a table.

    ``format`` says, line by line, how the files are written, if they are text. ``identifiers`` are columns that tell
    nothing about new rows, each with the reason in words.
    """

    rows: int
    columns: tuple[ColumnDescription, ...]
    format: tuple[str, ...]
    identifiers: dict[str, str]


def describe(files: NamedFiles, labels: Collection[str] = (), names: Iterable[str] | None = None) -> TableDescription:
    """Read all rows and describe the columns ``names`` (None: all); ``labels`` are read as they are."""
    known = files.schema.names
    if again := [name for name, times in Counter(known).items() if times > 1]:
        raise ValueError(f"the data have {known.count(again[0])} columns {shown(again[0])}")
    fields, rows = map(files.schema.field, known if names is None else names), 0
    tallies = [_Tally(column.name, column.type) for column in fields]
    for batch in files.batches([tally.name for tally in tallies], labels):
        rows += batch.num_rows
        for tally, column in zip(tallies, batch.columns, strict=True):
            tally.add(column)
    columns = tuple(tally.description() for tally in tallies)
    written = () if files.csv is None else _in_words(files.paths[0], files.csv.written)
    identifiers = {tally.name: reason for tally in tallies if (reason := tally.identifier)}
    return TableDescription(rows, columns, written, identifiers)


@dataclass
class _Tally:
    """Counts of a column, while its batches are read."""

    name: str
    type: pa.DataType
    missing: int = 0
    whole: bool = True
    low: Any = None
    high: Any = None
    categories: Counter[Any] = field(default_factory=Counter)
    first: list[pa.Array] = field(default_factory=list)

    def add(self, column: pa.Array) -> None:
        compute, types = import_module("pyarrow.compute"), arrow().types
        values = (column.dictionary_decode() if types.is_dictionary(column.type) else column).drop_null()
        if types.is_floating(values.type):
            values = values.filter(compute.invert(compute.is_nan(values)))
            self.whole &= compute.all(compute.equal(values, compute.floor(values)), min_count=0).as_py()
        self.missing += len(column) - len(values)
        if len(values) and self.kind in ("number", "integer", "date"):
            low, high = compute.min_max(values).as_py().values()
            self.low, self.high = (low, high) if self.low is None else (min(low, self.low), max(high, self.high))
        if (seen := sum(map(len, self.first))) < MOST:
            self.first.append(values[: MOST - seen])
        if len(self.categories) <= MOST_DISTINCT and not types.is_nested(values.type):
            counts = compute.value_counts(values)[: 2 * MOST_DISTINCT].to_pylist()
            self.categories.update({entry["values"]: entry["counts"] for entry in counts})

    @property
    def kind(self) -> str:
        """The kind of the column, from its type and the values so far."""
        types, kind = arrow().types, self.type
        numbers = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        tests = {
            "category": types.is_dictionary(kind),
            "integer": types.is_integer(kind) and self.whole,
            "number": any(test(kind) for test in numbers),
            "boolean": types.is_boolean(kind),
            "date": types.is_temporal(kind),
            "text": types.is_string(kind) or types.is_large_string(kind),
        }
        return next((name for name, found in tests.items() if found), "other")

    @property
    def identifier(self) -> str:
        """Why the column is an identifier or free text, or ""."""
        known = self.kind in ("integer", "text", "category") or (self.kind == "number" and self.whole)
        if not known or not self.first:
            return ""
        series = nw.from_native(arrow().chunked_array(self.first), series_only=True)
        return identifier(series_column(series, self.name))

    def description(self) -> ColumnDescription:
        low, high, categories = self.low, self.high, len(self.categories)
        kind = "empty" if not categories and self.kind != "other" else self.kind
        if kind == "integer":
            low, high = int(low), int(high)
        examples = tuple(str(value) for value, _ in self.categories.most_common(EXAMPLES))
        written = find_written(self.categories) if kind == "text" else None
        form = written.in_words if isinstance(written, Written) and not written.plain else ""
        known = categories if categories <= MOST_DISTINCT else None
        return ColumnDescription(self.name, kind, known, self.missing, low, high, examples, form)


def _in_words(path: Path, written: TextFormat) -> tuple[str, ...]:
    """Return the format of a CSV file in words, line by line."""
    mark, encoding = MARKS.get(written.delimiter, written.delimiter), encoding_of(path)
    parts = [f"delimiter {mark}", "decimal point" if written.decimal == "." else "decimal comma", compression_of(path)]
    line = ", ".join(filter(None, [*parts, "" if encoding == UTF8 else f"{encoding} text"]))
    left_out = find_header(path, written.delimiter).left_out
    return (line, f"left out: {some(left_out, of=name_of)}") if left_out else (line,)
