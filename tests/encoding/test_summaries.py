"""Summaries of raw columns: exact while they are small, within the stated error beyond, and sums over rows."""

from itertools import pairwise

import numpy as np
import pytest

from budgetline.encoding.raw import object_column
from budgetline.encoding.summaries import (
    MOST_CATEGORIES,
    MOST_VALUES,
    CategorySummary,
    NumberSummary,
    TableSummary,
    summary_of_column,
)

SEED = 0


def in_a_table(column):
    """Return the summary of a table of one column."""
    found = summary_of_column(column, None, as_categories=False)
    return TableSummary({"t": found}, column.missing.size, float(column.missing.size))


def numbers(n, distinct, rng):
    values = rng.standard_normal(distinct)[rng.integers(0, distinct, n)]
    values[rng.random(n) < 0.2] = 0.0
    values[rng.random(n) < 0.1] = np.nan
    return values


def added(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_a_summary_of_few_values_is_exact_in_any_chunks(weighted):
    rng = np.random.default_rng(SEED)
    x = numbers(5000, 700, rng)
    weight = rng.integers(0, 4, x.size).astype(float) if weighted else None
    cuts = [0, 1, 900, 901, 4000, 5000]
    whole = NumberSummary.of(x, weight)
    parts = [NumberSummary.of(x[a:b], None if weight is None else weight[a:b]) for a, b in pairwise(cuts)]
    together = added(parts)
    w = np.ones(x.size) if weight is None else weight
    expected = {v: w[x == v].sum() for v in np.unique(x[~np.isnan(x)]) if w[x == v].sum() > 0}
    for found in (whole, together):
        assert found.error == 0
        assert dict(zip(found.values.tolist(), found.weights.tolist(), strict=True)) == expected
        assert found.missing == w[np.isnan(x)].sum()


def test_whole_weights_are_copies_of_rows():
    rng = np.random.default_rng(SEED)
    x = numbers(300, 50, rng)
    weight = rng.integers(0, 4, x.size)
    a, b = NumberSummary.of(x, weight.astype(float)), NumberSummary.of(np.repeat(x, weight), None)
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.weights, b.weights)
    assert a.missing == b.missing


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_a_sketch_is_within_its_error(parts):
    rng = np.random.default_rng(SEED)
    x = rng.gamma(0.5, size=6 * MOST_VALUES)
    x[rng.random(x.size) < 0.3] = 0.0
    found = added([NumberSummary.of(part, None) for part in np.array_split(x, parts)])
    assert found.values.size <= 2 * MOST_VALUES
    assert found.total == x.size
    assert 0 < found.error < 0.02 * x.size
    assert found.weights[found.values == 0] == (x == 0).sum()  # a heavy value keeps its weight
    assert found.values[0] == x.min()
    assert found.values[-1] == x.max()
    ends = np.concatenate([[0], np.cumsum(found.weights)])
    at = rng.choice(x, 2000)
    sketched = ends[np.searchsorted(found.values, at, side="right")]
    exact = np.searchsorted(np.sort(x), at, side="right")
    assert np.abs(sketched - exact).max() <= found.error


def test_quantiles_are_those_of_the_sorted_entries():
    x = np.array([3.0, 1.0, 1.0, 2.0, np.nan])
    found = NumberSummary.of(x, None).quantiles(np.array([0, 0.25, 0.5, 0.51, 0.75, 0.76, 1]))
    assert found.tolist() == [1, 1, 1, 2, 2, 3, 3]


def test_levels_are_counted_in_any_chunks():
    texts = ["b", None, "a", "b", "c", "b", None]
    whole = CategorySummary.of(object_column(texts, "t"), None)
    parts = added([CategorySummary.of(object_column(part, "t"), None) for part in (texts[:1], texts[1:4], texts[4:])])
    assert whole.weights == parts.weights == {"b": 3, "a": 1, "c": 1}
    assert whole.missing == parts.missing == 2
    assert whole.ranked() == [("b", 3), ("a", 1), ("c", 1)]


def test_memory_for_levels_is_bounded_and_frequent_ones_survive():
    parts = []
    for k in range(3):
        texts = [f"id{k}-{j}" for j in range(MOST_CATEGORIES // 2)] + ["often"] * 1000
        parts.append(CategorySummary.of(object_column(texts, "t"), None))
    found = added(parts)
    assert len(found.weights) <= MOST_CATEGORIES
    assert found.weights["often"] == 3000
    assert found.total == sum(part.total for part in parts)
    assert found.lost > 0


def test_a_column_that_is_text_in_one_chunk_and_numbers_in_another_is_an_error():
    text, number = object_column(["a", "b"], "t"), object_column([1, 2.5], "t")
    gap = in_a_table(object_column([None, None], "t"))
    a, b = map(in_a_table, (text, number))
    with pytest.raises(ValueError, match="column 't' holds numbers in some rows and text in others"):
        a + b
    for found in (gap + a, a + gap, gap + b, b + gap):
        assert found.columns["t"].missing == 2
        assert found.columns["t"].total == 2


@pytest.mark.parametrize("values", [[1.5, 2.5, 1.5], ["a", "b", "a"]])
@pytest.mark.parametrize("first", [False, True])
def test_chunks_without_values_count_as_missing(values, first):
    given, none = object_column(values, "x"), object_column([None] * 4, "x")
    parts = [in_a_table(column) for column in ([none, given] if first else [given, none])]
    whole, found = in_a_table(object_column([*values, *[None] * 4], "x")), parts[0] + parts[1]
    assert found.columns["t"].missing == whole.columns["t"].missing == 4
    assert found.columns["t"].total == whole.columns["t"].total == 3


@pytest.mark.parametrize("unit", [0.1, 1 / 3, 0.7, 1e-12])
def test_a_sketch_is_the_same_in_every_unit_of_the_weights(unit):
    """Sums of .1 are rounded, which once moved the ends of its steps."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=50_000), rng.integers(1, 3, 50_000).astype(float)
    for given in (np.ones(x.size), weight):
        a, b = NumberSummary.of(x, given), NumberSummary.of(x, unit * given)
        np.testing.assert_array_equal(a.values, b.values)
        np.testing.assert_allclose(unit * a.weights, b.weights, rtol=1e-9)
