"""Excel files: the first sheet, with the names of the columns in its first row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from budgetline.data.tabular import arrow
from budgetline.encoding.raw import level_text
from budgetline.messages import cut, shown

if TYPE_CHECKING:
    import pyarrow as pa


def excel_table(path: Path) -> pa.Table:
    """Read a file as an Arrow table: numbers, flags, dates and text."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    status = path.stat()
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(path: Path, size: int, time: int) -> pa.Table:
    """Read a file; size and time are part of the key of the cache. Columns and rows are read by separate calls."""
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
    known = {name or f"column {k}": values for k, (name, values) in enumerate(given, 1) if name or any(values)}
    if len(known) < sum(bool(name) or any(values) for name, values in given):
        again = next(name for k, (name, _) in enumerate(given) if name in (other for other, _ in given[:k]))
        raise ValueError(f"{path} has two columns {shown(again)}: give them different names")
    if not known or not rows:
        raise ValueError(f"{path}: the first sheet holds no table")
    return arrow().table({name: _column(values) for name, values in known.items()})


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
