"""The codec: what is written is read, and everything else is refused by the name of the part."""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from budgetline.codec import As, AtLeast, Shape, from_bytes, from_parts, plain_of, read_as, to_bytes
from budgetline.files import encode

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Inner:
    at: Annotated[int, AtLeast(0)]
    label: str | None = None

    def __post_init__(self):
        if self.at == 13:
            raise ValueError("at must not be 13")


@dataclass(frozen=True)
class Curve:
    degree: int
    at: Annotated[Float, Shape("n")]
    knots: tuple[Annotated[Float, Shape("*")], ...] = ()


@dataclass(frozen=True)
class Record:
    name: str
    on: bool
    ratio: Annotated[float, AtLeast(0)]
    inner: Inner
    many: tuple[Inner, ...]
    mixed: tuple[str | int, ...]
    pair: tuple[str, float]
    by_name: dict[str, float]
    level: Annotated[Any, As(lambda value: f"<{value}>", lambda plain, where: plain.strip("<>"))]
    x: Annotated[Float, Shape("n")]
    y: Annotated[Float | None, Shape("n m")]
    z: tuple[Annotated[NDArray[np.intp], Shape("m"), AtLeast(0)], ...] = ()
    mask: Annotated[NDArray[np.bool_] | None, Shape("*")] = None
    loose: Annotated[Float | None, Shape("*", finite=False)] = None
    extra: tuple[str, ...] = ()
    curve: Curve | None = None
    either: Inner | Curve = Inner(0)
    free: Float | None = None


WHOLE = Record(
    "ü", True, 0.5, Inner(3), (Inner(1, "b"), Inner(2)), ("a", 1), ("p", 2.0), {"k": 1.0}, "high",
    x=np.arange(2.0), y=np.ones((2, 3)), z=(np.arange(3),) * 2, mask=np.array([True]), loose=np.array([np.inf]),
)  # fmt: skip


def record(**changes):
    return replace(WHOLE, **changes)


def arrays_of(given):
    arrays = {}
    plain_of(given, arrays)
    return arrays


def fields_of(given):
    return plain_of(given, {})


def back(found):
    return from_bytes("record", Record, to_bytes("record", found), "file", lambda made: made)


def test_what_is_written_is_read():
    given = record()
    found = back(given)
    assert fields_of(found) == fields_of(given)
    assert found.inner == given.inner
    assert found.many == given.many
    assert found.level == "high"
    for name in ("x", "y", "mask", "loose"):
        np.testing.assert_array_equal(getattr(found, name), getattr(given, name), strict=True)
    assert [entry.tolist() for entry in found.z] == [[0, 1, 2]] * 2
    assert to_bytes("record", found) == to_bytes("record", given)


def test_what_may_be_missing_is_left_out():
    given = record(y=None, z=(), mask=None, loose=None)
    assert set(arrays_of(given)) == {"x"}
    assert "extra" not in fields_of(given)
    found = back(given)
    assert (found.y, found.z, found.mask, found.extra) == (None, (), None, ())


def test_arrays_have_the_names_of_their_places():
    given = record(
        curve=Curve(3, np.ones(2), (np.arange(40.0), np.arange(4.0))),
        either=Curve(1, np.ones(2)),
        free=np.ones((1, 2, 3)),
    )
    assert {"curve.at", "curve.knots[0]", "either.at", "free"} < set(arrays_of(given))
    found = back(given)
    assert (found.curve.degree, found.curve.at.tolist(), found.curve.knots[1].tolist()) == (3, [1, 1], [0, 1, 2, 3])
    assert type(found.either) is Curve
    assert found.free.shape == (1, 2, 3)
    assert back(record()).curve is None
    fields, arrays = fields_of(given), arrays_of(given)
    for change, message in (
        ({"curve.at": np.ones(3)}, r"curve\.at of shape \(3,\) does not match x: n is 2"),
        ({"curve.knots[0]": np.array([np.nan])}, r"curve\.knots\[0\] holds numbers"),
        ({"curve.knots[2]": np.ones(1)}, r"curve\.knots\[2\] is not a field"),
        ({"free": np.array([np.nan])}, r"free holds numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            from_parts(Record, fields, arrays | change)
    with pytest.raises(ValueError, match=r"curve\.at is not a field"):
        from_parts(Record, fields | {"curve": None}, arrays)
    with pytest.raises(ValueError, match=r"curve\.at is missing"):
        from_parts(Record, fields, arrays_of(record()))


def test_numbers_and_texts_of_numpy_are_plain():
    given = record(name=np.str_("a"), ratio=np.float32(0.5), inner=Inner(np.int8(3)))
    assert json.loads(json.dumps(fields_of(given))) == fields_of(record(name="a"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "name must be of type str, got 3"),
        ({"on": 1}, "on must be of type bool"),
        ({"ratio": "1"}, "ratio must be a finite number"),
        ({"ratio": True}, "ratio must be a finite number"),
        ({"ratio": float("nan")}, "ratio must be a finite number"),
        ({"ratio": 10**400}, "ratio must be a finite number"),
        ({"ratio": -0.5}, "ratio must be ≥ 0"),
        ({"inner": [3]}, "inner must be a mapping"),
        ({"inner": {"at": 13}}, r"inner\.at must not be 13"),
        ({"inner": {}}, r"inner\.at is missing"),
        ({"many": {"at": 1}}, "many must be a list"),
        ({"many": [{"at": 1}, {"at": 1.0}]}, r"many\[1\]\.at must be of type int"),
        ({"many": [{"at": 1, "extra": 2}]}, r"many\[0\]\.extra is not a field"),
        ({"mixed": [1.5]}, r"mixed\[0\] must be of type str or int"),
        ({"pair": ["p"]}, "pair must have 2 entries"),
        ({"by_name": {"k": None}}, r"by_name\.k must be a finite number"),
        ({"by_name": []}, "by_name must be a mapping"),
        ({"extra": 3}, "extra must be a list"),
        ({"colour": 3}, "colour is not a field"),
        ({"x": 3}, "x must be an array, got 3"),
        ({"z": [[0, 1, 2, 3]]}, r"z\[0\] of shape .* does not match y: m is 3"),
        ({"z": [[0, 1, 2], [0, -1, 2]]}, r"z\[1\] holds numbers below 0"),
        ({"z": [[0, 1.5, 2]]}, r"z\[0\] is an array of 1 dimensions of float64"),
        ({"z": ["array"]}, r"z\[0\] is missing"),
        ({"z": [[[0], [1, 2]]]}, "inhomogeneous"),
        ({"x": None}, "x must be an array"),
        ({"either": {"Inner": {"at": 1}, "Curve": {}}}, "either must be one of 'Inner', 'Curve', got"),
        ({"either": {"os.system": "true"}}, "either must be one of"),
    ],
)
def test_plain_parts_are_refused_by_name(change, message):
    fields, arrays = fields_of(record()) | change, arrays_of(record())
    with pytest.raises(ValueError, match=message):
        from_parts(Record, fields, arrays)


def test_whole_numbers_are_numbers_in_json_of_others():
    assert read_as(tuple[float | None, ...], [1, None, 2.5], "") == (1.0, None, 2.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "x is missing"),
        ({"x": np.arange(2)}, "x is an array of 1 dimensions of int64, not 1 of float64"),
        ({"x": np.ones((2, 1))}, "x is an array of 2 dimensions"),
        ({"x": np.array([1.0, np.inf])}, "x holds numbers that are not finite"),
        ({"y": np.ones((1, 3))}, "y of shape .* does not match x: n is 2"),
        ({"mask": np.array([2], dtype=np.uint8).view(bool)}, "mask holds flags"),
        ({"z[0]": np.arange(3)}, r"z\[0\] is not a field"),
        ({"colour": np.ones(1)}, "colour is not a field"),
    ],
)
def test_arrays_are_refused_by_name(change, message):
    arrays = {name: array for name, array in (arrays_of(record()) | change).items() if array is not None}
    with pytest.raises(ValueError, match=message):
        from_parts(Record, fields_of(record()), arrays)


def test_errors_of_files_say_which_file_what_is_wrong_and_what_to_do():
    data = encode("record", arrays_of(record()), fields_of(record()) | {"name": 3})
    with pytest.raises(
        ValueError, match=r"^file does not hold a record, .*name must be.*Copy it again, or, .* make it again$"
    ):
        from_bytes("record", Record, data, "file", lambda made: made)

    def fail(made):
        raise OverflowError("too large")

    with pytest.raises(ValueError, match=r"^file does not hold a record, it is damaged: too large"):
        from_bytes("record", Record, to_bytes("record", record()), "file", fail)


def test_what_cannot_be_written_is_named():
    def refuse(value):
        raise TypeError("it has no plain form")

    @dataclass(frozen=True)
    class Broken:
        splitter: Annotated[Any, As(refuse, lambda plain, where: plain)]

    with pytest.raises(TypeError, match="splitter cannot be saved: it has no plain form"):
        to_bytes("broken", Broken(3))
