"""FeatureGroups: every way to make them, what they resolve to, and errors that name the culprit."""

import copy
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from budgetline import FeatureGroups
from budgetline.groups import as_feature_groups

TABLE = {"blood_chol": [1.0], "blood_fbs": [2.0], "age": [3.0]}


def positions(groups, names, n_features):
    return [c.tolist() for c in groups.resolve(names, n_features).columns]


# -- construction --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "names", "columns"),
    [
        ({"a": ["x"], "b": ["y", "z"]}, ("a", "b"), (("x",), ("y", "z"))),
        ({"a": "x", "b": 3}, ("a", "b"), (("x",), (3,))),
        ({1: [0], 2: (1, 2)}, ("1", "2"), ((0,), (1, 2))),
        ({"a": np.array(["x", "y"])}, ("a",), (("x", "y"),)),
        ({"a": np.array([2, 0]), "b": range(3, 5)}, ("a", "b"), ((2, 0), (3, 4))),
        ({"a": pd.Index(["x", "y"])}, ("a",), (("x", "y"),)),
        ({"a": pd.Series([4, 5])}, ("a",), ((4, 5),)),
        ({"a": (name for name in "xy")}, ("a",), (("x", "y"),)),
        ([[0], [2, 1]], ("0", "1"), ((0,), (2, 1))),
        ((["x"], ("y", "z")), ("0", "1"), (("x",), ("y", "z"))),
        ([range(2), np.arange(2, 4)], ("0", "1"), ((0, 1), (2, 3))),
        ([pd.Index(["x"]), pd.Index(["y", "z"])], ("0", "1"), (("x",), ("y", "z"))),
        (np.array([[0, 1], [2, 3]]), ("0", "1"), ((0, 1), (2, 3))),
        ([7, 5, 7], ("7", "5"), ((0, 2), (1,))),
        (["lab", "age", "lab"], ("lab", "age"), ((0, 2), (1,))),
        (np.array([1, 0, 1]), ("1", "0"), ((0, 2), (1,))),
        (np.array(["b", "a", "b"]), ("b", "a"), ((0, 2), (1,))),
        (pd.Series(["b", "a", "b"], index=[9, 8, 7]), ("b", "a"), ((0, 2), (1,))),
        (pl.Series(["b", "a", "b"]), ("b", "a"), ((0, 2), (1,))),
    ],
)
def test_construction(given, names, columns):
    groups = FeatureGroups(given)
    assert groups.names == names
    assert groups.columns == columns
    assert groups.costs.tolist() == [1.0] * len(names)
    assert len(groups) == len(names)
    assert all(type(c) in (str, int) for members in groups.columns for c in members)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, ValueError, "at least one group"),
        ([], ValueError, "at least one group"),
        ({"a": []}, ValueError, "group 'a' has no columns"),
        ([[0], []], ValueError, "group '1' has no columns"),
        ({"a": ["x"], "b": ["x"]}, ValueError, "group 'b': column 'x' is in group 'a'"),
        ([[0], [1, 0]], ValueError, "group '1': column 0 is in group '0'"),
        ({"a": ["x", "x"]}, ValueError, "group 'a': column 'x' is twice"),
        ({1: [0], "1": [1]}, ValueError, "duplicate group name '1'"),
        ({"a": [True]}, TypeError, "group 'a': column True"),
        ({"a": [np.True_]}, TypeError, "group 'a': column .*True"),
        ({"a": [0.0]}, TypeError, "group 'a': column 0.0"),
        ({"a": [None]}, TypeError, "group 'a': column None"),
        ({"a": None}, TypeError, "group 'a': columns must be"),
        ({"a": {"x": 1}}, TypeError, "group 'a': columns must be"),
        ({"a": b"x"}, TypeError, "group 'a': columns must be"),
        ({"a": slice(0, 3)}, TypeError, "group 'a': columns must be"),
        ("abc", TypeError, "groups must be .* got 'abc'"),
        (3, TypeError, "groups must be .* got 3"),
        (None, TypeError, "groups must be .* got None"),
        ([[0], 1], TypeError, "mixes"),
        (["a", None], ValueError, "column 1"),
        ([1.0, np.nan], ValueError, "column 1"),
        (["a", pd.NA], ValueError, "column 1"),
        ([pd.Timestamp(0), pd.NaT], ValueError, "column 1"),
    ],
)
def test_bad_groups_are_named(given, error, message):
    with pytest.raises(error, match=message):
        FeatureGroups(given)


def test_labels_in_a_set_have_no_order():
    with pytest.raises(TypeError, match="groups must be"):
        FeatureGroups({"a", "b", "c"})


@pytest.mark.parametrize("remainder", ["passthrough", None, True, ["drop"]])
def test_bad_remainder(remainder):
    with pytest.raises(ValueError, match="remainder must be 'error' or 'drop'"):
        FeatureGroups([[0]], remainder=remainder)


# -- costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        (None, [1.0, 1.0]),
        ([3, 4], [3.0, 4.0]),
        ((0, 4.5), [0.0, 4.5]),
        ({"b": 4, "a": 3}, [3.0, 4.0]),
        (np.array([3, 4], dtype=np.float32), [3.0, 4.0]),
        (pd.Series([3, 4]), [3.0, 4.0]),
        (pd.Series({"b": 4, "a": 3}), [3.0, 4.0]),
        (pl.Series([3, 4]), [3.0, 4.0]),
        (pa.array([3, 4]), [3.0, 4.0]),
    ],
)
def test_costs(costs, expected):
    groups = FeatureGroups({"a": ["x"], "b": ["y"]}, costs)
    assert groups.costs.dtype == np.float64
    assert groups.costs.tolist() == expected


def test_costs_of_integer_names_may_be_given_by_integer():
    assert FeatureGroups([[0], [1]], {1: 5, 0: 2}).costs.tolist() == [2.0, 5.0]


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1, np.nan], "cost of group 'b' .* nan"),
        ([1, -1], "cost of group 'b' .* -1"),
        ([np.inf, 1], "cost of group 'a' .* inf"),
        (["cheap", 1], "cost of group 'a' is not a number: 'cheap'"),
        (["1,5", 1], "cost of group 'a' is not a number: '1,5'; write it like 1.5"),
        ([1, None], "cost of group 'b' is not a number: None"),
        ([1, 1j], "cost of group 'b' is not a number"),
        ([[1], [2]], "cost of group 'a' is not a number"),
        ([pd.NA, 1], "cost of group 'a' is not a number"),
        ({"a": 1, "b": -2}, "cost of group 'b' .* -2"),
        ([1], "each of the 2 groups"),
        ([1, 2, 3], "each of the 2 groups"),
        (np.ones((1, 2)), "each of the 2 groups"),
        (3, "each of the 2 groups"),
        ("12", "each of the 2 groups"),
        ({2.0, 1.0}, "each of the 2 groups"),
        ({"a": 1}, "no cost for group 'b'"),
        ({"a": 1, "b": 2, "c": 3}, "unknown group 'c'; the groups are 'a', 'b'"),
        ({"a": 1, "B": 2}, "unknown group 'B' .did you mean 'b'"),
    ],
)
def test_bad_costs_are_named(costs, message):
    with pytest.raises(ValueError, match=message):
        FeatureGroups({"a": ["x"], "b": ["y"]}, costs)


def test_with_costs_changes_nothing_else():
    groups = FeatureGroups({"a": ["x"], "b": [3]}, [1, 2], remainder="drop")
    other = groups.with_costs({"b": 7, "a": 5})
    assert (other.names, other.columns, other.remainder) == (groups.names, groups.columns, "drop")
    assert other.costs.tolist() == [5.0, 7.0]
    assert groups.costs.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="no cost for group 'b'"):
        groups.with_costs({"a": 1})


# -- other constructors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns", [list(TABLE), tuple(TABLE), np.array(list(TABLE)), pd.DataFrame(TABLE), pl.DataFrame(TABLE),
                pa.table(TABLE), pd.Index(list(TABLE))]
)  # fmt: skip
def test_from_prefix_and_singletons_read_names(columns):
    grouped = FeatureGroups.from_prefix(columns, costs={"blood": 10, "age": 1}, prefixes=["blood"])
    assert grouped.names == ("blood", "age")
    assert grouped.columns == (("blood_chol", "blood_fbs"), ("age",))
    assert grouped.costs.tolist() == [10.0, 1.0]
    single = FeatureGroups.singletons(columns, costs=[3, 2, 1])
    assert single.names == tuple(TABLE)
    assert single.columns == tuple((name,) for name in TABLE)
    assert single.costs.tolist() == [3.0, 2.0, 1.0]


def test_from_prefix_splits_at_the_first_separator():
    with pytest.warns(UserWarning, match=r"'a' holds 'a\.b\.c', 'a\.d'\. If that is right, .*prefixes=\['a'\]"):
        groups = FeatureGroups.from_prefix(["a.b.c", "a.d", "b"], sep=".")
    assert groups.columns == (("a.b.c", "a.d"), ("b",))
    assert FeatureGroups.from_prefix(["a.b", "b.c"], sep=".").names == ("a", "b")  # no columns merged, no warning


PREFIXED = {
    "not asked for": (["serum_iron", "serum_albumin", "age"], [], {"serum_iron", "serum_albumin", "age"}),
    "asked for": (["serum_iron", "serum_albumin", "age"], ["serum"], {"serum", "age"}),
    "the longest": (["job_a", "job_title_b", "job_title_c"], ["job", "job_title"], {"job", "job_title"}),
    "whole words": (["jobs", "job_a", "job"], ["job"], {"jobs", "job"}),
    "flags of missing values": (["age", "missingindicator_age", "bmi"], [], {"age", "bmi"}),
    "flags of levels": (["job_a", "job_b", "missingindicator_job"], ["job"], {"job"}),
    "a flag alone": (["missingindicator_age", "missingindicator_"], [], {"age", "missingindicator_"}),
}


@pytest.mark.parametrize("name", PREFIXED)
def test_prefixes_that_are_groups(name):
    columns, prefixes, expected = PREFIXED[name]
    groups = FeatureGroups.from_prefix(columns, prefixes=prefixes)
    assert set(groups.names) == expected
    assert sorted(column for members in groups.columns for column in members) == sorted(columns)


def test_prefixes_that_no_column_has():
    with pytest.raises(ValueError, match="no column begins with the prefix 'blod'; the columns are 'blood_a'"):
        FeatureGroups.from_prefix(["blood_a"], prefixes=["blod"])
    with pytest.raises(TypeError, match="prefixes must be a list of names, got the string 'blood'"):
        FeatureGroups.from_prefix(["blood_a"], prefixes="blood")


@pytest.mark.parametrize("make", [FeatureGroups.from_prefix, FeatureGroups.singletons])
@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["a", 3], TypeError, "3"),
        (pd.DataFrame(np.ones((2, 2))), TypeError, "0"),
        (["a", "a"], ValueError, "'a'"),
        ([], ValueError, "at least one group"),
        ("abc", TypeError, "abc"),
        (pl.LazyFrame(TABLE), TypeError, "lazy"),
    ],
)
def test_bad_names_are_named(make, columns, error, message):
    with pytest.raises(error, match=message):
        make(columns)


@pytest.mark.parametrize("number", [3, np.int64(3)])
def test_singletons_of_a_number_are_positions(number):
    groups = FeatureGroups.singletons(number)
    assert groups.names == ("0", "1", "2")
    assert groups.columns == ((0,), (1,), (2,))


# -- YAML ----------------------------------------------------------------------------------------------------


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "groups.yaml"
        path.write_text(text, encoding="utf-8")
        return FeatureGroups.from_yaml(path)

    read.path = tmp_path / "groups.yaml"
    return read


def test_yaml(read, tmp_path):
    groups = read(
        "groups:\n  blood: {columns: [chol, fbs], cost: 10.37}\n  größe:\n    columns: [3, 4]\n    cost: 1e3\n"
        "  age: {columns: age}\nremainder: drop\n"
    )
    assert groups == FeatureGroups(
        {"blood": ["chol", "fbs"], "größe": [3, 4], "age": ["age"]}, [10.37, 1000.0, 1.0], remainder="drop"
    )
    assert FeatureGroups.from_yaml(str(tmp_path / "groups.yaml")) == groups


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups:\n  a: {columns: [x]}\n  a: {columns: [y]}\n", "groups.yaml: duplicate key 'a'"),
        ("groups:\n  a: {columns: [x], columns: [y]}\n", "groups.yaml: duplicate key 'columns'"),
        ("groups: {a: {columns: [x]}}\ngroups: {}\n", "groups.yaml: duplicate key 'groups'"),
        ("groups:\n  a: {cost: 1}\n", "groups.yaml: group 'a' needs 'columns'"),
        ("groups:\n  a: [x, y]\n", "groups.yaml: group 'a' needs 'columns'"),
        ("groups:\n  a: {columns: [x], price: 1}\n", "groups.yaml: group 'a' has the unknown key 'price'"),
        ("groups: {a: {columns: [x]}}\ngruops: 1\n", "groups.yaml: the file has the unknown key 'gruops'"),
        ("groups: [a]\n", "groups.yaml: expected a mapping"),
        ("", "groups.yaml: expected a mapping"),
        ("- 1\n", "groups.yaml: expected a mapping"),
        ("groups: {a: [", "groups.yaml: not valid YAML"),
        ("groups:\n\ta: {columns: [x]}\n", "groups.yaml: not valid YAML"),
        ("groups: !!python/object/apply:os.getcwd []\n", "groups.yaml: not valid YAML"),
        ("groups:\n  a: {columns: [x], cost: cheap}\n", "group 'a' is not a number: 'cheap'"),
        ("groups:\n  a: {columns: [x], cost: yes}\n", "group 'a' is not a number: 'yes'"),
        ("groups:\n  a: {columns: [x], cost: null}\n", "group 'a' is not a number: 'null'"),
        ("groups:\n  a: {columns: [x], cost: -1}\n", "group 'a' .* -1"),
        ("groups:\n  a: {columns: [x], cost: .nan}\n", "group 'a' is not a number: '.nan'"),
        ("groups:\n  a: {columns: [x], cost: nan}\n", "group 'a' .* 'nan'"),
        ("groups:\n  a: {columns: []}\n", "group 'a' has no columns"),
        ("groups:\n  a: {columns: [x]}\n  b: {columns: [x]}\n", "group 'b': column 'x' is in group 'a'"),
        ("groups:\n  1: {columns: [x]}\n  '1': {columns: [y]}\n", "duplicate group name '1'"),
        ("groups: {a: {columns: [x]}}\nremainder: keep\n", "remainder must be .* 'keep'"),
    ],
)
def test_bad_yaml_is_named(read, text, message):
    with pytest.raises(ValueError, match=message):
        read(text)


def test_words_that_yaml_takes_for_booleans_are_names(read):
    assert read("groups:\n  no: {columns: [yes, no, null, ~, 1.0, 0x1]}\n") == FeatureGroups(
        {"no": ["yes", "no", "null", "~", "1.0", "0x1"]}
    )


@pytest.mark.parametrize("cost", ["1:30", "1:30.5", "-2:00:00", "2020-01-01", "2020-02-31"])
@pytest.mark.parametrize("shared", [False, True])
def test_costs_that_yaml_takes_for_numbers_are_refused_as_they_are_written(read, cost, shared):
    what = "shared cost 'draw'" if shared else "the cost of group 'a'"
    where = "groups: {a: {columns: [x]}}\nshared: {draw: {groups: [a], " if shared else "groups: {a: {{columns: [x], "
    with pytest.raises(ValueError, match=f"groups.yaml: {what} is not a number: '{cost}'"):
        read(where.replace("{{", "{") + f"cost: {cost}}}}}\n")


def test_a_boolean_is_no_cost():
    for costs in ([True, 2], {"a": np.True_, "b": 2}):
        with pytest.raises(ValueError, match=r"the cost of group 'a' is not a number: .*True"):
            FeatureGroups({"a": [0], "b": [1]}, costs)


def test_numbers_in_yaml_are_those_that_people_read(read):
    groups = read("groups:\n  1:30: {columns: [1:30], cost: 010}\n  b: {columns: [007, 7], cost: 1_000}\n")
    assert groups.names == ("1:30", "b")
    assert groups.columns == (("1:30",), ("007", 7))
    assert groups.costs.tolist() == [10, 1000]


@pytest.mark.parametrize("digits", [401])
def test_huge_integers_in_yaml_are_refused_in_one_line(read, digits):
    huge = "1" + "0" * (digits - 1)
    for text in (f"groups: {{a: {{columns: [x], cost: {huge}}}}}", f"groups: {{a: {{columns: [{huge}]}}}}"):
        try:
            read(text).resolve(None, 3)
        except ValueError as error:
            found = str(error)
        assert "1000" in found
        assert "group 'a'" in found or "line 1" in found
        assert len(found.replace(str(read.path), "")) < 300
        assert "\n" not in found


BOMB = "\n".join(
    ["a0: &a0 {columns: [lol, lol, lol]}", *(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 30))]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{BOMB}\ngroups: {{a: {{columns: *a29}}}}", r"anchors and aliases \(& and \*\) are not supported \(line 1\)"),
        ("groups: {}\n? *a29\n: 1", r"anchors and aliases \(& and \*\) are not supported \(line 2\)"),
        ("groups: {a: {columns: [x], cost: &price 2}}", "anchors and aliases"),
        ("groups: " + "[" * 10_000, "nested too deeply"),
        ("groups: " + "[" * 10_000 + "]" * 10_000, "nested too deeply"),
        ("groups: " + "{a: " * 10_000 + "}" * 10_000, "nested too deeply"),
        ("groups: " + "[" * 60 + "]" * 60, "expected a mapping with the key 'groups'"),
        ("groups: *" + "x" * 580_000, "anchors and aliases"),
        (f"groups: {{a: {{columns: [x], cost: {'x' * 580_000}}}}}", "the cost of group 'a' is not a number: 'xxx"),
        (f"groups: {{a: {{columns: [[{'x, ' * 5000}]]}}}}", "group 'a': column .*'x', 'x'"),
        (f"groups: {{a: {{columns: [x]}}}}\nremainder: {'x' * 580_000}", "remainder must be 'error' or 'drop', got 'x"),
        (f"groups: {{a: {{columns: [x], requires: [{'x' * 580_000}]}}}}", "there is no group 'xxx"),
    ],
    ids=lambda text: text[-20:],
)
def test_hostile_yaml_is_one_short_line(read, text, message):
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        read(text)
    found = str(raised.value).replace(str(read.path), "")
    assert len(found) < 1200
    assert "\n" not in found


def test_yaml_without_end_is_refused():
    with pytest.raises(ValueError, match="/dev/zero: too large"):
        FeatureGroups.from_yaml("/dev/zero")


def test_yaml_keeps_names_with_control_characters(read):
    names = ["clear\x1b[2J", "two\nlines", "turned\u202eround", "next\x85", "größe", "a: b", "yes", "010", "1:30"]
    groups = FeatureGroups({name: [name, k] for k, name in enumerate(names)}, range(9))
    text = groups.to_yaml()
    assert not set(text) & set("\x1b\u202e\x85")
    assert read(text) == groups
    assert "größe:" in FeatureGroups({"größe": [0]}).to_yaml()


def test_equal_keys_are_duplicates_however_they_are_written(read):
    with pytest.raises(ValueError, match=r"duplicate key 'a' \(line 1\)"):
        read("groups: {a: {columns: [x]}, 'a': {columns: [y]}}\n")


def test_yaml_needs_its_extra(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[yaml\]'"):
        read("groups: {a: {columns: [x]}}\n")


# -- resolve -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "names", "n_features", "expected"),
    [
        ({"a": ["y"], "b": ["z", "x"]}, ["x", "y", "z"], 3, [[1], [2, 0]]),
        ({"a": [1], "b": [2, 0]}, ["x", "y", "z"], 3, [[1], [2, 0]]),
        ({"a": ["y"], "b": [2, 0]}, ["x", "y", "z"], 3, [[1], [2, 0]]),
        ([[2], [0, 1]], None, 3, [[2], [0, 1]]),
        ({"a": ["0"], "b": [0]}, ["1", "0"], 2, [[1], [0]]),
        (["b", "a", "b"], None, 3, [[0, 2], [1]]),
    ],
)
def test_resolve(groups, names, n_features, expected):
    layout = FeatureGroups(groups).resolve(names, n_features)
    assert [c.tolist() for c in layout.columns] == expected
    assert layout.n_features == n_features
    assert layout.by_group.tolist() == [d for c in expected for d in c]


@pytest.mark.parametrize(
    ("groups", "names", "n_features", "message"),
    [
        ({"a": ["q"]}, ["x"], 1, "group 'a': column 'q' is not in the data"),
        ({"a": ["x"]}, None, 1, "group 'a' names column 'x', but the columns of the data have no names"),
        ({"a": [2]}, None, 2, "group 'a': column 2 is out of range, the data have 2 columns"),
        ({"a": [-1]}, None, 2, "group 'a': column -1 is out of range"),
        ({"a": ["x"], "b": [0]}, ["x"], 1, "column 0 is in group 'a' and in group 'b'"),
        ({"a": [0, "x"]}, ["x"], 1, "column 'x' is .*group 'a'"),
        ({"a": ["x"]}, ["x", "y"], 2, "'y' .*in no group.*remainder 'drop'"),
        ({"a": [0]}, None, 20, r"19 columns \(1, 2, 3, 4, 5, …\) .*in no group"),
    ],
)
def test_resolve_names_the_culprit(groups, names, n_features, message):
    with pytest.raises(ValueError, match=message):
        FeatureGroups(groups).resolve(names, n_features)


@pytest.mark.parametrize(("groups", "message"), [([[0], [1]], "column 2 is in no group"),
                                                 ([[0]], r"2 columns \(1, 2\) are in no group")])  # fmt: skip
def test_the_remainder_error_is_a_sentence(groups, message):
    with pytest.raises(ValueError, match=message):
        FeatureGroups(groups).resolve(None, 3)


def test_remainder_drop_leaves_columns_out():
    layout = FeatureGroups({"a": ["z"], "b": [0]}, remainder="drop").resolve(list("xyz"), 3)
    assert [c.tolist() for c in layout.columns] == [[2], [0]]
    assert layout.n_features == 3
    with pytest.raises(ValueError, match="'q' is not in the data"):
        FeatureGroups({"a": ["q"]}, remainder="drop").resolve(list("xyz"), 3)


@pytest.mark.parametrize(("names", "expected"), [(None, ("0", "1")), (["x", "y"], ("x", "y"))])
def test_no_groups_means_singletons(names, expected):
    groups = as_feature_groups(None, [2, 3], names, 2)
    assert groups.names == expected
    assert groups.costs.tolist() == [2.0, 3.0]
    assert positions(groups, names, 2) == [[0], [1]]


def test_costs_beside_feature_groups_take_their_place():
    groups = FeatureGroups([[0], [1]], [1, 2])
    assert as_feature_groups(groups, None, None, 2) is groups
    assert as_feature_groups(groups, [3, 4], None, 2).costs.tolist() == [3.0, 4.0]
    assert as_feature_groups({"a": [0, 1]}, {"a": 9}, None, 2).costs.tolist() == [9.0]


# -- value semantics -----------------------------------------------------------------------------------------


def example(**changes):
    given = {"groups": {"a": ["x"], "b": [3, 4]}, "costs": [1.5, 2], "remainder": "drop"} | changes
    return FeatureGroups(given.pop("groups"), **given)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, *(lambda g, p=p: pickle.loads(pickle.dumps(g, p)) for p in range(6))],
    ids=["copy", "deepcopy", *(f"pickle{p}" for p in range(6))],
)
def test_copies_are_equal(copied):
    groups = example()
    other = copied(groups)
    assert other == groups
    assert hash(other) == hash(groups)
    assert not other.costs.flags.writeable


@pytest.mark.parametrize(
    "changes",
    [
        {"costs": [1.5, 3]},
        {"remainder": "error"},
        {"groups": {"a": ["y"], "b": [3, 4]}},
        {"groups": {"a": ["x"], "c": [3, 4]}},
        {"groups": {"a": ["x"], "b": [4, 3]}},
    ],
)
def test_what_differs_is_not_equal(changes):
    assert example() == example()
    assert example(**changes) != example()
    assert example() != "FeatureGroups"


def test_a_name_is_no_position():
    assert FeatureGroups({"a": ["0"]}) != FeatureGroups({"a": [0]})


def test_repr_counts():
    assert repr(example()) == "FeatureGroups(2 groups, 3 columns, total cost 3.5)"


@pytest.mark.parametrize("attribute", ["names", "columns", "costs", "remainder", "anything"])
def test_attributes_cannot_be_set(attribute):
    groups = example()
    with pytest.raises(AttributeError):
        setattr(groups, attribute, None)
    assert groups == example()


def test_costs_are_read_only_and_not_the_users_array():
    costs = np.array([1.5, 2.0])
    groups = example(costs=costs)
    costs[0] = 100
    assert groups.costs.tolist() == [1.5, 2.0]
    assert costs.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        groups.costs[0] = 5


def test_the_users_mapping_is_not_kept():
    members = ["x"]
    given = {"a": members}
    groups = FeatureGroups(given)
    members.append("y")
    given["b"] = ["z"]
    assert groups.columns == (("x",),)


def test_a_series_of_costs_goes_by_its_labels():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="'a'"):
        FeatureGroups({"a": [0], "b": [1]}, pd.Series({"b": 1.0, "A": 9.0}))
    assert FeatureGroups({"a": [0], "b": [1]}, pd.Series([3.0, 4.0])).costs.tolist() == [3, 4]
