"""What a file holds of an encoding: one record per column, and the arrays of its curves and pairs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Annotated

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.codec import AtLeast, Shape
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
class EncodingRecord:
    """All columns with their penalty weights, the curves of those that hold numbers, and the pairs."""

    columns: tuple[ColumnRecord, ...]
    penalties: Annotated[tuple[Float, ...], Shape("*")]
    knots: Annotated[tuple[Float, ...], Shape("*")]
    pieces: Annotated[tuple[Float, ...], Shape("* * *")]
    pairs: tuple[tuple[int, int], ...]
    terms: Annotated[tuple[Positions, ...], Shape("* *"), AtLeast(0)]
    centres: Annotated[tuple[Float, ...], Shape("* *")]
    pair_penalties: Annotated[tuple[Float, ...], Shape("*")]


def record_of_encoding(encoding: TableEncoding) -> EncodingRecord:
    """Return the record of an encoding."""
    encoders, pairs = encoding.encoders, encoding.pairs
    curves = [encoder.curve for encoder in encoders if isinstance(encoder, NumberEncoder)]
    return EncodingRecord(
        columns=tuple(map(_column, encoders)),
        penalties=tuple(encoder.weights for encoder in encoders),
        knots=tuple(curve.knots for curve in curves),
        pieces=tuple(curve.pieces for curve in curves),
        pairs=tuple(pair.columns for pair in pairs),
        terms=tuple(pair.terms for pair in pairs),
        centres=tuple(pair.centres for pair in pairs),
        pair_penalties=tuple(pair.weights for pair in pairs),
    )


def _column(encoder: Encoder) -> ColumnRecord:
    if isinstance(encoder, LevelEncoder):
        other, text = encoder.reference, encoder.text
        return ColumnRecord(encoder.missing, encoder.levels, encoder.rare, reference=other, text=text)
    warp, form = encoder.warp, None if encoder.form is None else encoder.form.name
    spikes, values = encoder.spikes, encoder.values
    return ColumnRecord(encoder.missing, None, False, warp.middle, warp.scale, spikes, values, form=form)


def encoding_of(record: EncodingRecord, source: Layout) -> TableEncoding:
    """Return the encoding of a table; raise a ValueError if its parts do not fit together."""
    columns, D = record.columns, source.read.size
    if not 0 < len(columns) == len(record.penalties) == D:
        raise ValueError(f"encoding.columns and encoding.penalties must be of the {D} columns in groups")
    n_curves = sum(column.levels is None for column in columns)
    if not len(record.knots) == len(record.pieces) == n_curves:
        raise ValueError(f"encoding.knots and encoding.pieces must be those of {n_curves} columns")
    number, encoders = count(), []
    for k, (column, penalties) in enumerate(zip(columns, record.penalties, strict=True)):
        own = _numbers(column, penalties, record, next(number)) if column.levels is None else _levels(column, penalties)
        if not own.width or penalties.size != own.width or np.any(penalties <= 0):
            raise ValueError(f"encoding.penalties{k} must be {own.width} positive numbers")
        encoders.append(own)
    of_pairs = (record.pairs, record.terms, record.centres, record.pair_penalties)
    without = sum(not each.size for each in source.columns)
    if any(len(part) != without for part in of_pairs):
        raise ValueError(f"encoding.pairs, terms, centres and pair_penalties must be of {without} groups of pairs")
    if any(each.size for each in source.columns[len(source.columns) - without :]):
        raise ValueError("the groups of pairs must be the last ones")
    pairs = [_pair(k, encoders, Pair(*parts)) for k, parts in enumerate(zip(*of_pairs, strict=True))]
    return TableEncoding(source, tuple(encoders), tuple(pairs))


def _pair(k: int, encoders: list[Encoder], pair: Pair) -> Pair:
    T = pair.weights.size
    if not T or pair.terms.shape != (2, T) or pair.centres.shape != (2, T) or np.any(pair.weights <= 0):
        raise ValueError(f"encoding.terms{k}, centres{k} and pair_penalties{k} must have the same number of columns")
    if not all(0 <= column < len(encoders) for column in pair.columns):
        raise ValueError(f"encoding.pairs has columns that are not there: {shown(pair.columns)}")
    for column, own in zip(pair.columns, pair.terms, strict=True):
        if own.max() >= encoders[column].width:
            raise ValueError(f"encoding.terms{k} has design columns that are not there")
    return pair


def _numbers(column: ColumnRecord, penalties: Float, record: EncodingRecord, k: int) -> Encoder:
    knots, pieces = record.knots[k], record.pieces[k]
    others = column.rare or column.reference is not None
    if column.middle is None or others or column.scale is None or column.scale <= 0:
        raise ValueError("an entry of encoding.columns is neither of levels nor of numbers")
    if not knots.size or np.any(np.diff(knots) <= 0) or pieces.shape[:2] != (knots.size + 1, 4):
        raise ValueError(f"encoding.knots{k} must ascend, and pieces{k} must be four powers of one piece more")
    if column.form is not None and column.form not in FORMS:
        raise ValueError(f"numbers are written in an unknown form: {shown(column.form)}")
    warp, form = Warp(column.middle, column.scale), None if column.form is None else FORMS[column.form]
    return NumberEncoder(warp, Curve(knots, pieces), penalties, column.spikes, column.missing, form, column.values)


def _levels(column: ColumnRecord, penalties: Float) -> Encoder:
    levels, reference = column.levels or (), column.reference
    if column.middle is not None or column.spikes or column.values or column.form or len(set(levels)) < len(levels):
        raise ValueError("levels must differ, and have no middle, spikes, values or form")
    if reference is not None and (len(penalties) != 1 or reference in levels):
        raise ValueError("a reference is the other level of a column with one flag")
    return LevelEncoder(levels, penalties, column.rare, column.missing, reference, column.text)
