"""Decimal commas: found column by column, from the first block of a text file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from budgetline.data.tabular import arrow
from budgetline.encoding.written import find_written
from budgetline.messages import shown

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER = r"^[-+]?(\d+,?\d*|,\d+)([eE][-+]?\d+)?$"
"""A number with a decimal comma, or a whole number."""
GROUPED = r"^[-+]?[1-9]\d{0,2}[.,]\d{3}$"
"""A number whose mark may also separate thousands."""
LOOSE = (
    r"^[-+]?(\d+[.,]?\d*|[.,]\d+|[1-9]\d{0,2}((\.\d{3})+(,\d*)?|(,\d{3})+(\.\d*)?|"
    r"([ '\x{a0}\x{202f}]\d{3})+([.,]\d*)?))$"
)
"""A number as people write it: with either decimal mark, and perhaps a mark or a space between thousands."""
PLAIN = re.compile(r"[-+]?\d*\.?\d*")
"""A number with a decimal point, or a whole number."""
FIRST = 1000
"""Rows that are tested before all rows of a block are."""


@dataclass(frozen=True)
class DecimalMarks:
    """The decimal mark of a file, the columns ``found`` with decimal commas, and doubts in words.

    If some columns have points and others commas, the mark is a point.
    """

    decimal: str = "."
    found: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()


def find_marks(
    batch: pa.RecordBatch, missing: pa.Array, delimiter: str, texts: Callable[[list[str]], pa.RecordBatch]
) -> DecimalMarks:
    """Return the decimal marks in a first batch, which was read with decimal points.

    ``missing`` are the texts of missing values; ``texts`` reads columns of the batch again, as text. A column has
    decimal commas if all its values are such numbers. "1,234" may mean a thousand. If the delimiter is a comma or other
    columns have decimal points, it stays text (an encoding reads it as thousands), unless another number shows that
    commas are decimal marks.
    """
    types = arrow().types
    words = [field.name for field in batch.schema if types.is_string(field.type)]
    commas = _with_mark(batch.select(words), missing, ",", NUMBER)
    mixed = tuple(_loose_doubts(batch.select([name for name in words if name not in commas]), missing))
    if not commas:
        return DecimalMarks(doubts=mixed)
    floats = [field.name for field in batch.schema if types.is_floating(field.type)]
    points = _with_mark(texts(floats), missing, ".", "") if floats else {}
    if (points or delimiter == ",") and all(map(_grouped, commas.values())):
        return DecimalMarks(doubts=mixed)
    doubtful = {name: found for name, found in points.items() if _grouped(found)}
    doubts = tuple(_doubt(name, found) for name, found in doubtful.items())
    return DecimalMarks("." if points else ",", frozenset(commas), (*doubts, *mixed))


def numbers_with_commas(column: pa.Array, missing: pa.Array) -> pa.Array | int:
    """Return text with decimal commas as numbers, or the first row that is not a number; ``missing`` is a mask."""
    compute = import_module("pyarrow.compute")
    text = compute.if_else(missing, None, compute.utf8_trim_whitespace(column))
    row = compute.match_substring_regex(text, NUMBER).index(False).as_py()
    return compute.replace_substring(text, ",", ".").cast(arrow().float64()) if row < 0 else int(row)


def _with_mark(batch: pa.RecordBatch, missing: pa.Array, mark: str, pattern: str) -> dict[str, pa.Array]:
    """Return the different values with a mark, by column, for columns whose values all match a pattern."""
    compute = import_module("pyarrow.compute")
    found: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for rows in (column[:FIRST], column):
            values = compute.utf8_trim_whitespace(rows).unique()
            values = values.filter(compute.invert(compute.is_in(values, missing)))
            if not compute.all(compute.match_substring_regex(values, pattern)).as_py():
                break
        else:
            marked = values.filter(compute.match_substring(values, mark))
            found |= {name: marked} if len(marked) else {}
    return found


def _grouped(values: pa.Array) -> bool:
    """Tell whether the marks of all values may separate thousands."""
    compute = import_module("pyarrow.compute")
    return bool(compute.all(compute.match_substring_regex(values, GROUPED)).as_py())


def _doubt(name: str, values: pa.Array) -> str:
    how = f"column {shown(name)} is read with a decimal point"
    return f"{how}: if the point of {shown(values[0].as_py())} separates thousands, remove it"


def _loose_doubts(batch: pa.RecordBatch, missing: pa.Array) -> Iterator[str]:
    """Yield doubts about columns whose numbers are written in several ways: encodings read them as text."""
    for name, found in _with_mark(batch, missing, "", LOOSE).items():
        values = found.to_pylist()
        odd = next((value for value in values if not PLAIN.fullmatch(value)), None)
        if odd is not None and find_written(dict.fromkeys(values, 1.0)) is None:
            advice = "remove the marks between thousands, and use one decimal mark"
            yield f"column {shown(name)} is read as text: if {shown(odd)} is a number, {advice}"
