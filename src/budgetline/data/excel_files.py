"""Excel files: the first sheet, with the names of the columns in its first row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from budgetline.data.sources import Mark
from budgetline.data.tabular import arrow
from budgetline.encoding.raw import level_text
from budgetline.messages import cut, shown

if TYPE_CHECKING:
    import pyarrow as pa


def excel_table(path: Path) -> pa.Table:
    """Read a file as an Arrow table: numbers, flags, dates and text."""
    return _read(Mark.of(path))


@lru_cache(maxsize=1)
def _read(mark: Mark) -> pa.Table:
    """Read a file. Its columns and its rows are asked for by separate calls."""
    path = mark.path
    try:
        calamine = import_module("python_calamine")
    except ImportError as error:
        raise ImportError("Excel files need python-calamine: pip install 'budgetline[excel]'") from error
    try:
        [header, *rows] = calamine.CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python() or [[]]
    except (OSError, calamine.CalamineError) as error:
        raise ValueError(f"{path} cannot be read as an Excel file: {cut(str(error))}") from error
    columns = [[row[k] for row in rows] for k in range(len(header))]
    given = [(level_text(name).strip(), values) for name, values in zip(header, columns, strict=True)]
    known = [(name or f"column {k}", values) for k, (name, values) in enumerate(given, 1) if name or any(values)]
    if not known or not rows:
        raise ValueError(f"{path}: the first sheet holds no table")
    [(name, times)] = Counter(name for name, _ in known).most_common(1)
    if times > 1:
        raise ValueError(f"{path} has two columns {shown(name)}: give them different names")
    return arrow().table({name: _column(values) for name, values in known})


def _column(values: Sequence[object]) -> pa.Array:
    """Return the cells of a column as numbers, flags or dates if all are, else as trimmed text; blanks are missing."""
    trimmed = (cell.strip() if isinstance(cell, str) else cell for cell in values)
    cells = [None if cell == "" else cell for cell in trimmed]
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {date, datetime}:
        cells = [datetime(*cell.timetuple()[:6]) if isinstance(cell, date) else None for cell in cells]
    elif len(kinds) > 1 and not kinds <= {int, float}:
        cells = [None if cell is None else level_text(cell) for cell in cells]
    return arrow().array(cells, from_pandas=True)
