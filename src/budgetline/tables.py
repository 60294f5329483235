"""Tables as text, HTML or data frames, for all records that print as tables."""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import narwhals as nw

from budgetline.messages import printable
from budgetline.packages import install

Backend = Literal["pandas", "polars", "pyarrow"]

PROVEN = 1e-7
"""Added to a proven share before it is rounded down: bounds have a margin for rounding errors."""


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> str:
    """Return a table as text. Columns are aligned to the right, except for ``left``. Control characters are escaped."""
    table = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]
    lines = []
    for row in table:
        cells = (c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def rounded_down(share: float, digits: int = 3) -> float:
    """Return a proven share with fewer digits, rounded down."""
    scale = 10.0**digits
    return math.floor(scale * (share + PROVEN)) / scale


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML, every cell escaped."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def frame_of(columns: Mapping[str, Sequence[object]], backend: Backend) -> Any:
    """Return a dict of columns as a data frame."""
    try:
        return nw.from_dict(columns, backend=backend).to_native()
    except ImportError as error:
        extra = "arrow" if backend == "pyarrow" else backend
        raise ImportError(f"to_frame needs {backend}: {install(extra)}") from error


class Tabular:
    """A record that is also a table."""

    def to_dict(self) -> Mapping[str, Sequence[object]]:
        """Return the table as a dict of columns."""
        raise NotImplementedError

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return the table of ``to_dict`` as a data frame of ``backend``: pandas, polars or pyarrow."""
        return frame_of(self.to_dict(), backend)
