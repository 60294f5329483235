"""What a file holds of an encoding: one record per column, and the arrays of the curves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.encoders import Curve, Encoder, LevelEncoder, NumberEncoder
from budgetline.encoding.table import TableEncoding
from budgetline.groups import Layout


@dataclass(frozen=True)
class ColumnRecord:
    """The encoder of a column: ``levels`` for a :class:`LevelEncoder`, ``fill`` and ``spikes`` for numbers."""

    missing: bool
    levels: tuple[str, ...] | None = None
    rare: bool = False
    fill: float | None = None
    spikes: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class CurveArrays:
    """Arrays of the curves of the columns that hold numbers, in their order."""

    knots: tuple[Float, ...]
    pieces: tuple[Float, ...]
    penalties: tuple[Float, ...]


def parts_of(encoding: TableEncoding | None) -> tuple[tuple[ColumnRecord, ...], CurveArrays]:
    """Return the records of an encoding and its arrays."""
    if encoding is None:
        return (), CurveArrays((), (), ())
    curves = [e for e in encoding.encoders if isinstance(e, NumberEncoder)]
    knots, pieces = tuple(e.curve.knots for e in curves), tuple(e.curve.pieces for e in curves)
    arrays = CurveArrays(knots, pieces, tuple(e.weights for e in curves))
    return tuple(_record(encoder) for encoder in encoding.encoders), arrays


def _record(encoder: Encoder) -> ColumnRecord:
    if isinstance(encoder, LevelEncoder):
        return ColumnRecord(encoder.missing, encoder.levels, encoder.rare)
    return ColumnRecord(encoder.missing, fill=encoder.fill, spikes=encoder.spikes)


def encoding_of(records: tuple[ColumnRecord, ...], arrays: CurveArrays, source: Layout) -> TableEncoding:
    """Return the encoding of a table; raise a ValueError if its parts do not fit together."""
    if len(records) != source.read.size:
        raise ValueError(f"encoding has {len(records)} columns, the groups have {source.read.size}")
    numbers = [record for record in records if record.levels is None]
    if not len(numbers) == len(arrays.knots) == len(arrays.pieces) == len(arrays.penalties):
        raise ValueError(f"knots, pieces and penalties must be those of {len(numbers)} columns")
    number = count()
    return TableEncoding(
        source, tuple(_numbers(r, arrays, next(number)) if r.levels is None else _levels(r) for r in records)
    )


def _numbers(record: ColumnRecord, arrays: CurveArrays, k: int) -> NumberEncoder:
    knots, pieces, penalties = arrays.knots[k], arrays.pieces[k], arrays.penalties[k]
    if record.fill is None or record.rare:
        raise ValueError("an entry of encoding is neither of levels nor of numbers")
    if not knots.size or np.any(np.diff(knots) <= 0) or pieces.shape[:2] != (knots.size + 1, 4) or not pieces.size:
        raise ValueError(f"knots{k} must ascend, and pieces{k} must be four powers of one piece more")
    found = NumberEncoder(Curve(knots, pieces), record.fill, penalties, record.spikes, record.missing)
    if penalties.size != found.width or np.any(penalties <= 0):
        raise ValueError(f"penalties{k} must be {found.width} positive numbers")
    return found


def _levels(record: ColumnRecord) -> LevelEncoder:
    assert record.levels is not None
    if record.fill is not None or record.spikes or len(set(record.levels)) < len(record.levels):
        raise ValueError("levels must differ, and have neither fill nor spikes")
    found = LevelEncoder(record.levels, record.rare, record.missing)
    if not found.width:
        raise ValueError("a column must have levels")
    return found
