"""What a file holds of an encoding: one record per column, and the arrays of the curves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from budgetline.arrays import Float
from budgetline.encoding.encoders import Curve, Encoder, LevelEncoder, NumberEncoder, Warp
from budgetline.encoding.table import TableEncoding
from budgetline.groups import Layout


@dataclass(frozen=True)
class ColumnRecord:
    """The encoder of a column: ``levels`` for a :class:`LevelEncoder`, ``middle`` and more for numbers."""

    missing: bool
    levels: tuple[str, ...] | None = None
    rare: bool = False
    middle: float | None = None
    scale: float | None = None
    spikes: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class EncodingArrays:
    """Penalty weights of all columns, and the curves of those that hold numbers."""

    penalties: tuple[Float, ...]
    knots: tuple[Float, ...]
    pieces: tuple[Float, ...]


def parts_of(encoding: TableEncoding | None) -> tuple[tuple[ColumnRecord, ...], EncodingArrays]:
    """Return the records of an encoding and its arrays."""
    if encoding is None:
        return (), EncodingArrays((), (), ())
    curves = [encoder.curve for encoder in encoding.encoders if isinstance(encoder, NumberEncoder)]
    penalties = tuple(encoder.weights for encoder in encoding.encoders)
    arrays = EncodingArrays(penalties, tuple(c.knots for c in curves), tuple(c.pieces for c in curves))
    return tuple(_record(encoder) for encoder in encoding.encoders), arrays


def _record(encoder: Encoder) -> ColumnRecord:
    if isinstance(encoder, LevelEncoder):
        return ColumnRecord(encoder.missing, encoder.levels, encoder.rare)
    warp = encoder.warp
    return ColumnRecord(encoder.missing, middle=warp.middle, scale=warp.scale, spikes=encoder.spikes)


def encoding_of(records: tuple[ColumnRecord, ...], arrays: EncodingArrays, source: Layout) -> TableEncoding:
    """Return the encoding of a table; raise a ValueError if its parts do not fit together."""
    if len(records) != source.read.size or len(records) != len(arrays.penalties):
        raise ValueError(f"encoding and penalties must be of the {source.read.size} columns in groups")
    n_curves = sum(record.levels is None for record in records)
    if not len(arrays.knots) == len(arrays.pieces) == n_curves:
        raise ValueError(f"knots and pieces must be those of {n_curves} columns")
    number, encoders = count(), []
    for k, (record, penalties) in enumerate(zip(records, arrays.penalties, strict=True)):
        own = _numbers(record, penalties, arrays, next(number)) if record.levels is None else _levels(record, penalties)
        if not own.width or penalties.size != own.width or np.any(penalties <= 0):
            raise ValueError(f"penalties{k} must be {own.width} positive numbers")
        encoders.append(own)
    return TableEncoding(source, tuple(encoders))


def _numbers(record: ColumnRecord, penalties: Float, arrays: EncodingArrays, k: int) -> Encoder:
    knots, pieces = arrays.knots[k], arrays.pieces[k]
    if record.middle is None or record.rare or (record.scale is not None and record.scale <= 0):
        raise ValueError("an entry of encoding is neither of levels nor of numbers")
    if not knots.size or np.any(np.diff(knots) <= 0) or pieces.shape[:2] != (knots.size + 1, 4):
        raise ValueError(f"knots{k} must ascend, and pieces{k} must be four powers of one piece more")
    warp = Warp(record.middle, record.scale)
    return NumberEncoder(warp, Curve(knots, pieces), penalties, record.spikes, record.missing)


def _levels(record: ColumnRecord, penalties: Float) -> Encoder:
    assert record.levels is not None
    if record.middle is not None or record.spikes or len(set(record.levels)) < len(record.levels):
        raise ValueError("levels must differ, and have neither middle nor spikes")
    return LevelEncoder(record.levels, penalties, record.rare, record.missing)
