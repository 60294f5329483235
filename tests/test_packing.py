"""Packed arrays: they come back to the bit, take less space, and forged ones are refused."""

import numpy as np
import pytest

from budgetline.packing import LARGE, packed, unpacked


def arrays_of(seed):
    """Return arrays as models have them, and others that must survive, too."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(70, 120))
    square = rng.standard_normal((n, n))
    symmetric = square + square.T
    nearly = symmetric.copy()
    nearly[rng.integers(n, size=9), rng.integers(n, size=9)] *= 1 + 1e-15
    odd = np.triu(square)
    odd[0, :6] = [-0.0, np.inf, -np.inf, np.nan, 5e-324, -np.nan]
    return {
        "triangle": np.tril(square),
        "symmetric": symmetric,
        "nearly": nearly,
        "odd": odd,
        "in columns": np.asfortranarray(np.triu(square)),
        "full": square,
        "zeros": np.zeros((n, n)),
        "path": np.tril(np.ones((n, n)))[:, None] * rng.standard_normal((n, 3, n)),
        "small": np.zeros((2, 2)),
        "empty": np.zeros((0, n)),
        "whole": np.arange(2 * LARGE) * (np.arange(2 * LARGE) % 2),
        **{f"knots{k}": rng.standard_normal(int(rng.integers(0, 5))) for k in range(300)},
        **{f"pieces{k}": np.eye(int(rng.integers(1, 5))) for k in range(1011)},
        **{f"few{k}": rng.standard_normal(3) for k in range(12)},
    }


@pytest.mark.parametrize("seed", range(3))
def test_arrays_come_back_to_the_bit_in_less_space(seed):
    given = arrays_of(seed)
    stored = packed(given)
    found = unpacked(stored)
    assert found.keys() == given.keys()
    for name, array in given.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes()
    n = len(given["full"])
    half = 8 * n * (n + 1) / 2 + n * n / 8 + 1
    for name in ("triangle", "odd", "in columns"):
        assert stored[name].nbytes + stored[f"{name}:bits"].nbytes <= half
    for name in ("symmetric", "nearly"):
        assert stored[f"{name}:mirrored"].nbytes + stored[f"{name}:mirrored:bits"].nbytes <= half + 9 * 8
    for name in ("small", "whole", "full", "empty", "few0", "few11"):
        assert stored[name] is given[name]
    assert not any(name.startswith("knots") and name[5:].isdigit() for name in stored)


def test_bits_that_are_the_same_are_packed_the_same():
    """A model that is saved again gives the same file."""
    once = packed(arrays_of(0))
    again = packed(unpacked(once))
    assert once.keys() == again.keys()
    assert all(once[name].tobytes() == again[name].tobytes() for name in once)


FORGED = {
    "no values": {"x": None},
    "too few values": {"x": np.ones(3)},
    "no shape": {"x:shape": None},
    "a shape too large": {"x:shape": np.array([1 << 39, 1 << 39])},
    "a negative shape": {"x:shape": np.array([-64, -64])},
    "a shape of floats": {"x:shape": np.array([64.0, 64.0])},
    "bits of floats": {"x:bits": np.ones(512)},
    "too few bits": {"x:bits": np.ones(511, dtype=np.uint8)},
    "no shapes": {"k:joined": np.ones(4)},
    "shapes that do not add up": {"k:joined": np.ones(4), "k:shapes": np.array([[2], [3]])},
    "shapes that overflow": {"k:joined": np.ones(4), "k:shapes": np.full((1 << 10, 2), 1 << 31)},
    "no shapes at all": {"k:joined": np.ones(0), "k:shapes": np.ones((0, 1), dtype=np.int64)},
    "a mirror of numbers in a row": {"k:mirrored": np.ones(4)},
    "a mirror that is not square": {"k:mirrored": np.ones((4, 2))},
    "a mirror of flags": {"k:mirrored": np.ones((2, 2), dtype=bool)},
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_arrays_are_refused(name):
    stored = packed({"x": np.triu(np.ones((64, 64)))}) | FORGED[name]
    with pytest.raises(ValueError, match=r"parts|shape|square|numbers|entries"):
        unpacked({name: array for name, array in stored.items() if array is not None})
