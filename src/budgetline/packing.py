"""Lossless packing of arrays: many small arrays become one, zeros are left out, half of a symmetric array is kept.

The name of a packed array has a colon and says how it was packed. Arrays of a few thousand entries stay as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import count, takewhile

import numpy as np

from budgetline.arrays import Array

MANY, LARGE = 256, 4096
"""Numbered arrays are stored as one from this number on, and arrays without zeros from this number of entries on."""
LEAST = 1 / 4
"""Arrays with a smaller share of nonzero numbers stay as they are: no file unpacks to more than four times its size."""
JOINED, SHAPES, MIRRORED, BITS, SHAPE = ":joined", ":shapes", ":mirrored", ":bits", ":shape"


def packed(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of a file in less space."""
    found = dict(arrays)
    for name in [name[:-1] for name in arrays if re.fullmatch(r".*\D0", name)]:
        names = list(takewhile(arrays.__contains__, (f"{name}{k}" for k in count())))
        if len(names) >= MANY:
            parts = [found.pop(each) for each in names]
            found[name + SHAPES] = np.array([part.shape for part in parts], dtype=np.int64)
            found[name + JOINED] = np.concatenate([part.ravel() for part in parts])
    for name, array in list(found.items()):
        if array.dtype == np.float64 and array.size >= LARGE:
            del found[name]
            found |= _without_zeros(name, np.ascontiguousarray(array))
    return found


def unpacked(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays that were packed; a ValueError says that a file is damaged."""
    found = dict(arrays)
    for name in [name.removesuffix(BITS) for name in arrays if name.endswith(BITS)]:
        found[name] = _with_zeros(found.pop(name + BITS), found.pop(name + SHAPE, None), found.pop(name, None))
    for name in [name.removesuffix(MIRRORED) for name in found if name.endswith(MIRRORED)]:
        found[name] = _mirrored(found.pop(name + MIRRORED))
    for name in [name.removesuffix(JOINED) for name in found if name.endswith(JOINED)]:
        found |= _parts(name, found.pop(name + JOINED), found.pop(name + SHAPES, None))
    return found


def _without_zeros(name: str, array: Array) -> dict[str, Array]:
    """Return the nonzero numbers of an array and their positions; or the array, if that saves nothing."""
    mirrored = _mirrored(array) if array.ndim == 2 and len(array) == array.shape[1] else array
    if np.count_nonzero(mirrored.view(np.uint64)) < np.count_nonzero(array.view(np.uint64)):
        name, array = name + MIRRORED, mirrored
    flat = array.ravel()
    there = flat.view(np.uint64) != 0  # −0 is no zero here
    if not LEAST <= there.mean() < 1 - LEAST:
        return {name: array}
    return {name: flat[there], name + BITS: np.packbits(there), name + SHAPE: np.array(array.shape, dtype=np.int64)}


def _with_zeros(bits: Array, shape: Array | None, values: Array | None) -> Array:
    lengths = _lengths(shape)
    size = math.prod(lengths)
    if values is None or values.dtype != np.float64 or bits.dtype != np.uint8 or bits.shape != ((size + 7) // 8,):
        raise ValueError("an array without zeros does not have the parts that it needs")
    there = np.unpackbits(bits, count=size).astype(bool)
    if values.shape != (np.count_nonzero(there),):
        raise ValueError(f"an array without zeros has {values.size} numbers at {np.count_nonzero(there)} places")
    flat = np.zeros(size)
    flat[there] = values
    return flat.reshape(lengths)


def _mirrored(array: Array) -> Array:
    """Return a square array whose bits below the diagonal are those that differ from above it; twice: the array."""
    if array.dtype != np.float64 or array.ndim != 2 or len(array) != array.shape[1]:
        raise ValueError("only a square array has a mirror")
    words = array.view(np.uint64)
    return (words ^ np.tril(words.T, -1)).view(np.float64)


def _parts(name: str, flat: Array, shapes: Array | None) -> dict[str, Array]:
    if shapes is None or shapes.ndim != 2 or flat.ndim != 1:
        raise ValueError(f"{name} does not have the parts that it needs")
    lengths = [_lengths(row) for row in shapes]
    ends = np.cumsum([math.prod(each) for each in lengths], dtype=np.int64)
    if not len(ends) or ends[-1] != flat.size or flat.size < max(map(math.prod, lengths)):
        raise ValueError(f"the parts of {name} do not have {flat.size} entries")
    pieces = np.split(flat, ends[:-1])
    return {f"{name}{k}": part.reshape(own) for k, (part, own) in enumerate(zip(pieces, lengths, strict=True))}


def _lengths(shape: Array | None) -> list[int]:
    if shape is None or shape.dtype != np.int64 or shape.ndim != 1 or np.any((shape < 0) | (shape > 1 << 40)):
        raise ValueError("the shape of a packed array is missing or wrong")
    return [int(length) for length in shape]
