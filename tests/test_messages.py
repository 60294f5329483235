"""Values from outside in messages: as they are where they are short, and bounded whatever they are."""

from collections import OrderedDict, defaultdict

import numpy as np
import pytest
from set_functions import greedy_sequence

from budgetline import AnytimeRegressor, FeatureGroups, make_report
from budgetline.messages import cut, did_you_mean, printable, shown, some

SHORT = [
    *("chol", "it's", 'say "no"', "größe", "", "a\x1b[2J", "a\nb", b"ab"),
    *(0, -1, 10**30, 1.5, float("inf"), float("nan"), True, None, 1j),
    *([], [1, "a"], (), (1,), (1, 2), {}, {"a": [1, (2,)]}, set(), {1}, frozenset(), frozenset({1}), range(3)),
    *(np.float64(1.5), np.str_("a"), np.arange(3), np.array(["a", None], dtype=object), ValueError("no"), int),
]


@pytest.mark.parametrize("value", SHORT, ids=repr)
def test_short_values_are_their_repr(value):
    assert shown(value) == repr(value)


def bomb():
    value = ["lol"] * 10
    for _ in range(100):
        value = [value] * 10
    return value


def dictionaries():
    value = {"lol": 1}
    for _ in range(100):
        value = dict.fromkeys(range(10), value)
    return value


def circle():
    value = []
    value.append({"a": (value,)})
    return value


class Hostile:
    def __init__(self, error):
        self.error = error

    def __repr__(self):
        raise self.error


class Liar(list):
    def __repr__(self):
        raise AssertionError("entries are looked at one by one")

    __len__ = __iter__ = __repr__


LONG = {
    "aliases": bomb(),
    "mappings": dictionaries(),
    "itself": circle(),
    "subclasses": OrderedDict(a=defaultdict(list, b=["lol"] * 10_000)),
    "list with its own ways": Liar([bomb()]),
    "text": "x" * 10**6,
    "bytes": b"x" * 10**6,
    "integer": 10**400,
    "integer that Python does not write": 10**10_000,
    "integers": [10**10_000] * 5,
    "array": np.zeros((999, 1)),
    "many": list(range(10**6)),
    "raises": Hostile(ValueError("x" * 10**6)),
    "recursion": [Hostile(RecursionError())],
    "exception": ValueError("x" * 10**6),
}


@pytest.mark.parametrize("value", LONG.values(), ids=LONG.keys())
def test_all_values_are_bounded(value):
    for most in (40, 100):
        assert 1 <= len(shown(value, most)) <= most
        assert shown(value).isprintable()


def test_what_cannot_be_written_says_so():
    assert shown(Hostile(KeyError("a"))).startswith("<Hostile instance at ")
    assert shown(10**10_000) in ("<a int whose repr raises ValueError>", "<int instance with roughly 10001 digits>")


def test_texts_and_lists_are_cut():
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert some(["a", "b"], 2) == "'a', 'b'"
    assert some(iter("abc"), 2) == "'a', 'b', …"
    assert len(some(map(str, range(10**6)))) < 200


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "a\rb", "a\nb", "a\x9bb", "a\x7fb", "a\u202eb", "a\u2028b", "a\ud800b"])
def test_control_characters_are_printed_as_they_are_written(text):
    assert printable(text) == repr(text)[1:-1]


@pytest.mark.parametrize("text", ["größe", "血圧 計", "a b\xa0c", "👩\u200d🔬", "\\x1b", "it's"])
def test_other_characters_are_printed_as_they_are(text):
    assert printable(text) == text


# -- messages of the library ---------------------------------------------------------------------------------------


def model(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    return AnytimeRegressor(FeatureGroups({name: [0], "b": [1]})).fit(X, X.sum(axis=1)), X


@pytest.mark.parametrize(
    "call",
    [
        lambda value: FeatureGroups(7, value),
        lambda value: FeatureGroups({"a": [0]}, value),
        lambda value: FeatureGroups({"a": [0]}, {"a": value}),
        lambda value: FeatureGroups({"a": [value]}),
        lambda value: FeatureGroups({"a": [0]}, shared=value),
        lambda value: FeatureGroups({"a": [0]}, shared={"s": (1, 2, value)}),
        lambda value: FeatureGroups({"a": [0]}, requires=value),
        lambda value: FeatureGroups({"a": [0]}, remainder=value),
        lambda value: model("a")[0].predict([[1, 2]], budget=value),
        lambda value: model("a")[0].predict([[1, 2]], stage=value),
    ],
)
@pytest.mark.parametrize("value", [bomb(), dictionaries(), circle()], ids=["lists", "mappings", "itself"])
def test_errors_of_the_library_are_bounded(call, value):
    with pytest.raises((ValueError, TypeError)) as raised:
        call(value)
    assert len(str(raised.value)) < 1000


def test_long_names_and_many_names_are_bounded():
    with pytest.raises(ValueError, match="unknown group 'x") as raised:
        model("y" * 10**6)[0].predict([[1, 2]], available=["x" * 10**6])
    assert len(str(raised.value)) < 1000
    names = [f"group {k}" for k in range(300)]
    requires = dict(zip(names, [*names[1:], names[0]], strict=True))
    with pytest.raises(ValueError, match="in a cycle: 'group 0' -> 'group 1'") as raised:
        FeatureGroups({name: [k] for k, name in enumerate(names)}, requires=requires)
    assert len(str(raised.value)) < 1200


def test_columns_that_hold_long_texts_are_named_in_short():
    frame = {"a": np.array(["x" * 10**6] * 3, dtype=object)}
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="column 'a'") as raised:
        AnytimeRegressor().fit(pandas.DataFrame(frame), [1, 2, 3])
    assert len(str(raised.value)) < 2000


# -- names in tables -----------------------------------------------------------------------------------------------


def test_tables_and_reports_show_control_characters_as_text():
    name = "clear\x1b[2J\nstep\u202e"
    fitted, _ = model(name)
    report = make_report(fitted)
    sequence = greedy_sequence(lambda chosen: float(len(chosen)), {name: 1, "b": 1})
    texts = [str(fitted.sequence_), repr(fitted.sequence_), repr(report), report.to_markdown(), str(sequence)]
    for text in texts:
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert str(fitted.sequence_).count("\n") == 2
    assert "clear\\x1b[2J\\nstep\\u202e" in str(fitted.sequence_)
    assert "clear\\\\x1b\\[2J step\\\\u202e" in report.to_markdown()


def test_names_that_may_be_meant():
    known = ["Churn", "tenure", "TotalCharges"]
    assert did_you_mean("churn", known) == " (did you mean 'Churn'?)"
    assert did_you_mean("total_charges", known) == " (did you mean 'TotalCharges'?)"
    assert did_you_mean("zebra", known) == did_you_mean("churn", []) == did_you_mean(3, known) == ""
    assert did_you_mean("a" * 10**7, known) == did_you_mean("a", [3]) == ""
