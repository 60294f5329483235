"""The encoding of a raw table as ONNX nodes: one input per column, and the design columns that they become."""

from __future__ import annotations

import numpy as np

from budgetline.arrays import Positions
from budgetline.encoding.curves import Curve
from budgetline.encoding.encoders import FARTHEST, CategoryEncoder, NumberEncoder
from budgetline.encoding.table import Pair, TableEncoding
from budgetline.messages import shown
from budgetline.persistence.onnx_builder import ML, Graph

KINDS = {
    "number": "NaN is missing; dates are days since 1970, durations days, times of day parts of a day",
    "text": "'' is missing; no spaces around text; flags are 'True' and 'False', whole numbers have no decimal point",
}
"""Kinds of inputs, and what their entries mean."""
FAR = 1e9
"""From here on asinh(u) is log(2u) in double precision."""


def inputs_of(encoding: TableEncoding, columns: Positions) -> dict[int, tuple[str, str]]:
    """Return names and kinds of the inputs that design columns need; columns without names are x0, x1, …."""
    names, read = encoding.source.names, encoding.source.read
    kinds = ["text" if isinstance(encoder, CategoryEncoder) else "number" for encoder in encoding.encoders]
    return {k: (f"x{read[k]}" if names is None else names[read[k]], kinds[k]) for k in encoding.needed(columns)}


def add_design(graph: Graph, encoding: TableEncoding, columns: Positions) -> str:
    """Add inputs and the nodes from them to design columns (N, T), ascending, of whole encoders and pairs."""
    names = {}
    for k, (name, kind) in inputs_of(encoding, columns).items():
        encoder = encoding.encoders[k]
        form = encoder.form if isinstance(encoder, NumberEncoder) else None
        meaning = KINDS[kind] + ("" if form is None else f"; the number that is written in the form: {form.name}")
        names[k] = graph.input(name, np.float64 if kind == "number" else object, ["N", 1], meaning)
    blocks = _numbers(graph, encoding, names)
    for k, name in names.items():
        if isinstance(encoder := encoding.encoders[k], CategoryEncoder):
            blocks[k] = _categories(graph, encoder, name)
    for k, pair in enumerate(encoding.pairs, start=len(encoding.encoders)):
        if encoding.ends[k] in columns:
            blocks[k] = _products(graph, pair, *(blocks[each] for each in pair.columns))
    parts = np.unique(np.searchsorted(encoding.ends, columns, side="right") - 1)
    return graph.side_by_side([blocks[k] for k in parts.tolist()])


def _numbers(graph: Graph, encoding: TableEncoding, names: dict[int, str]) -> dict[int, str]:
    """Return the blocks of all numbers; their warps are computed together."""
    numbers = {k: e for k in names if isinstance(e := encoding.encoders[k], NumberEncoder)}
    if not numbers:
        return {}
    x = graph.side_by_side([names[k] for k in numbers])
    away = graph.node("Sub", x, graph.constant([e.warp.middle for e in numbers.values()]))
    t = asinh(graph, graph.node("Div", away, graph.constant([e.warp.scale for e in numbers.values()])))
    found = {}
    for place, (k, encoder) in enumerate(numbers.items()):
        own = graph.node("Gather", t, graph.constant([place], np.int64), axis=1)
        found[k] = _number(graph, encoder, names[k], own)
    return found


def asinh(graph: Graph, u: str) -> str:
    """Return asinh(u) = ± log(1 + y), y = a + a²/(1 + √(1 + a²)), a = |u|; runtimes have it in single precision only.

    Squares of large a overflow: beyond FAR, log(a/FAR) is added. For small y, 1 + y loses digits of y that
    y·log(w)/(w − 1) with w = 1 + y gets back.
    """
    one, far = graph.constant(1.0), graph.constant(FAR)
    whole = graph.node("Min", graph.node("Abs", u), graph.constant(FARTHEST))
    a = graph.node("Min", whole, far)
    square = graph.node("Mul", a, a)
    root = graph.node("Sqrt", graph.node("Add", square, one))
    y = graph.node("Add", a, graph.node("Div", square, graph.node("Add", root, one)))
    w = graph.node("Add", y, one)
    ratio = graph.node("Div", graph.node("Log", w), graph.node("Sub", w, one))
    near = graph.node("Where", graph.node("Equal", w, one), y, graph.node("Mul", y, ratio))
    beyond = graph.node("Log", graph.node("Div", graph.node("Max", whole, far), far))
    return graph.node("Mul", graph.node("Sign", u), graph.node("Add", near, beyond))


def _number(graph: Graph, encoder: NumberEncoder, x: str, t: str) -> str:
    """Return the design columns of a number (N, 1): curves, which are 0 where a flag is set, and flags."""
    missing = aside = graph.node("IsNaN", x)
    flags = []
    for spike, tie in encoder.spikes_and_ties:
        away = graph.node("Abs", graph.node("Sub", t, graph.constant(spike)))
        flags.append(graph.node("LessOrEqual", away, graph.constant(tie)))
        aside = graph.node("Or", aside, flags[-1])
    curves = graph.node("Where", aside, graph.constant(0.0), _curves(graph, encoder.curve, t))
    flags += [missing] * encoder.missing
    return graph.side_by_side([curves, *(graph.cast(flag, graph.double) for flag in flags)])


def _curves(graph: Graph, curve: Curve, t: str) -> str:
    """Return the curves (N, m) at numbers (N, 1)."""
    passed = graph.cast(graph.node("GreaterOrEqual", t, graph.constant(curve.knots)), graph.whole)
    piece = graph.node("ReduceSum", passed, graph.constant([1], np.int64), keepdims=0)
    starts = np.concatenate([curve.knots[:1], curve.knots])
    away = graph.node("Sub", t, graph.take(starts[:, None], piece))
    found = graph.take(curve.pieces[:, 3], piece)
    for power in (2, 1, 0):
        found = graph.node("Add", graph.node("Mul", found, away), graph.take(curve.pieces[:, power], piece))
    return found


def _categories(graph: Graph, encoder: CategoryEncoder, name: str) -> str:
    """Return the design columns of texts (N, 1)."""
    try:
        "".join(encoder.categories).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"column {shown(name)} cannot be exported: its categories are not valid text") from error
    other = len(encoder.categories) if encoder.rare else -1
    missing = encoder.width - 1 if encoder.missing else other
    place = {"": missing} | {category: k for k, category in enumerate(encoder.categories)}
    keys, codes = [*place], [*place.values()]
    code = graph.node("LabelEncoder", name, domain=ML, keys_strings=keys, values_int64s=codes, default_int64=other)
    flags = graph.node("Equal", code, graph.constant(np.arange(encoder.width), np.int64))
    return graph.cast(flags, graph.double)


def _products(graph: Graph, pair: Pair, first: str, second: str) -> str:
    """Return the products of a pair (N, T) from the design columns of both columns."""
    factors = []
    for block, terms, centres in zip((first, second), pair.terms, pair.centres, strict=True):
        taken = graph.node("Gather", block, graph.constant(terms, np.int64), axis=1)
        factors.append(graph.node("Sub", taken, graph.constant(centres)))
    return graph.node("Mul", *factors)
