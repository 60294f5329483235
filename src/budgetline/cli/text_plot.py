"""A curve drawn with characters: Braille dots or asterisks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from budgetline.arrays import Mask
from budgetline.evaluation import BudgetCurve
from budgetline.report.formatting import amount

DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bits of a Braille character, by row and column of the dot."""


def draw(curve: BudgetCurve, width: int, height: int, fine: bool, text: Callable[[float], str]) -> list[str]:
    r"""Return the lines of a plot of a curve as steps: value upwards, cost to the right.

    The axes enclose width × height characters: with ``fine`` Braille characters of eight dots, else asterisks. ``text``
    turns a value into a label.

    Examples
    --------
    >>> from budgetline import BudgetCurve
    >>> from budgetline.cli.text_plot import draw
    >>> print("\n".join(draw(BudgetCurve([0, 1, 4], [0.0, 0.5, 1.0]), 20, 3, False, str)))
      1.0 |                   *
          |     ***************
      0.0 |******
          +--------------------
           0                  4
    """
    lines = _shown(_dots(curve, width * (2 if fine else 1), height * (4 if fine else 1)), fine)
    known = curve.values[np.isfinite(curve.values)]
    labels = [""] * height
    if known.size:
        labels[0], labels[-1] = text(float(known.max())), text(float(known.min()))
    margin = max(5, *map(len, labels))
    upright, across, corner = ("│", "─", "└") if fine else ("|", "-", "+")
    found = [f"{label:>{margin}} {upright}{line}".rstrip() for label, line in zip(labels, lines, strict=True)]
    total = amount(curve.total_cost)
    found.append(" " * (margin + 1) + corner + across * width)
    found.append(" " * (margin + 2) + "0" + total.rjust(width - 1))
    return found


def _dots(curve: BudgetCurve, width: int, height: int) -> Mask:
    """Return which dots (height, width) are set, the top row first; neighbouring columns are joined."""
    dots = np.zeros((height, width), dtype=bool)
    values = np.asarray(curve.at(np.linspace(0, curve.total_cost, width)))
    known = np.isfinite(values)
    if not known.any():
        return dots
    low, high = np.nanmin(curve.values), np.nanmax(curve.values)
    spread = high - low if high > low else 1.0
    level = np.rint((values - low) / spread * (height - 1), where=known, out=np.zeros(width)).astype(np.intp)
    for x in np.flatnonzero(known).tolist():
        before = level[x - 1] if x and known[x - 1] else level[x]
        lowest, highest = sorted((int(before), int(level[x])))
        dots[height - 1 - highest : height - lowest, x] = True
    return dots


def _shown(dots: Mask, fine: bool) -> list[str]:
    if not fine:
        return ["".join("*" if dot else " " for dot in row) for row in dots]
    height, width = dots.shape[0] // 4, dots.shape[1] // 2
    codes = (dots.reshape(height, 4, width, 2) * DOTS[:, None, :]).sum(axis=(1, 3))
    return ["".join(chr(0x2800 + code) if code else " " for code in row) for row in codes.tolist()]
