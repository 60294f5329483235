"""What a file holds of an encoding: one record per column, and the arrays of the curves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.encoding.encoders import Curve, Encoder, LevelEncoder, NumberEncoder, Warp
from budgetline.encoding.table import Pair, TableEncoding
from budgetline.encoding.written import FORMS
from budgetline.groups import Layout
from budgetline.messages import shown


@dataclass(frozen=True)
class ColumnRecord:
    """The encoder of a column: ``levels`` for a :class:`LevelEncoder`, ``middle`` and more for numbers.

    ``form`` names how numbers are written in text.
    """

    missing: bool
    levels: tuple[str, ...] | None = None
    rare: bool = False
    middle: float | None = None
    scale: float | None = None
    spikes: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    reference: str | None = None
    text: bool = True
    form: str | None = None


@dataclass(frozen=True, eq=False)
class EncodingArrays:
    """Penalty weights of all columns, the curves of those that hold numbers, and the parts of pairs."""

    penalties: tuple[Float, ...] = ()
    knots: tuple[Float, ...] = ()
    pieces: tuple[Float, ...] = ()
    terms: tuple[Positions, ...] = ()
    centres: tuple[Float, ...] = ()
    pair_penalties: tuple[Float, ...] = ()


def parts_of(encoding: TableEncoding | None) -> tuple[tuple[ColumnRecord, ...], EncodingArrays]:
    """Return the records of an encoding and its arrays."""
    if encoding is None:
        return (), EncodingArrays()
    curves = [encoder.curve for encoder in encoding.encoders if isinstance(encoder, NumberEncoder)]
    penalties = tuple(encoder.weights for encoder in encoding.encoders)
    pairs = encoding.pairs
    arrays = EncodingArrays(
        penalties,
        tuple(curve.knots for curve in curves),
        tuple(curve.pieces for curve in curves),
        tuple(pair.terms for pair in pairs),
        tuple(pair.centres for pair in pairs),
        tuple(pair.weights for pair in pairs),
    )
    return tuple(_record(encoder) for encoder in encoding.encoders), arrays


def _record(encoder: Encoder) -> ColumnRecord:
    if isinstance(encoder, LevelEncoder):
        other, text = encoder.reference, encoder.text
        return ColumnRecord(encoder.missing, encoder.levels, encoder.rare, reference=other, text=text)
    warp, form = encoder.warp, None if encoder.form is None else encoder.form.name
    spikes, values = encoder.spikes, encoder.values
    return ColumnRecord(encoder.missing, None, False, warp.middle, warp.scale, spikes, values, form=form)


def encoding_of(
    records: tuple[ColumnRecord, ...], pairs: tuple[tuple[int, int], ...], arrays: EncodingArrays, source: Layout
) -> TableEncoding:
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
    without = sum(not columns.size for columns in source.columns)
    if not without == len(pairs) == len(arrays.terms) == len(arrays.centres) == len(arrays.pair_penalties):
        raise ValueError(f"pairs, terms, centres and pair_penalties must be of the {without} groups without columns")
    parts = zip(pairs, arrays.terms, arrays.centres, arrays.pair_penalties, strict=True)
    found = tuple(_pair(k, encoders, Pair(*part)) for k, part in enumerate(parts))
    if any(columns.size for columns in source.columns[len(source.columns) - without :]):
        raise ValueError("the groups of pairs must be the last ones")
    return TableEncoding(source, tuple(encoders), found)


def _pair(k: int, encoders: list[Encoder], pair: Pair) -> Pair:
    T = pair.weights.size
    if not T or pair.terms.shape != (2, T) or pair.centres.shape != (2, T) or np.any(pair.weights <= 0):
        raise ValueError(f"terms{k}, centres{k} and pair_penalties{k} must have two rows, or one, of the same length")
    if not all(0 <= column < len(encoders) for column in pair.columns):
        raise ValueError(f"pairs has columns that are not there: {shown(pair.columns)}")
    for column, own in zip(pair.columns, pair.terms, strict=True):
        if own.max() >= encoders[column].width:
            raise ValueError(f"terms{k} has design columns that are not there")
    return pair


def _numbers(record: ColumnRecord, penalties: Float, arrays: EncodingArrays, k: int) -> Encoder:
    knots, pieces = arrays.knots[k], arrays.pieces[k]
    others = record.rare or record.reference is not None
    if record.middle is None or others or record.scale is None or record.scale <= 0:
        raise ValueError("an entry of encoding is neither of levels nor of numbers")
    if not knots.size or np.any(np.diff(knots) <= 0) or pieces.shape[:2] != (knots.size + 1, 4):
        raise ValueError(f"knots{k} must ascend, and pieces{k} must be four powers of one piece more")
    if record.form is not None and record.form not in FORMS:
        raise ValueError(f"numbers are written in an unknown form: {shown(record.form)}")
    warp, form = Warp(record.middle, record.scale), None if record.form is None else FORMS[record.form]
    curve = Curve(knots, pieces)
    return NumberEncoder(warp, curve, penalties, record.spikes, record.missing, form, record.values)


def _levels(record: ColumnRecord, penalties: Float) -> Encoder:
    assert record.levels is not None
    of_numbers = record.middle is not None or record.spikes or record.values or record.form
    if of_numbers or len(set(record.levels)) < len(record.levels):
        raise ValueError("levels must differ, and have no middle, spikes, values or form")
    if record.reference is not None and (len(penalties) != 1 or record.reference in record.levels):
        raise ValueError("a reference is the other level of a column with one flag")
    other = None if record.reference is None else record.reference.strip()
    trimmed = tuple(level.strip() for level in record.levels)  # older versions kept spaces around text
    levels = trimmed if len({*trimmed, other}) == len(trimmed) + 1 else record.levels
    return LevelEncoder(levels, penalties, record.rare, record.missing, other, record.text)
