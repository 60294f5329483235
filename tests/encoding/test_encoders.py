"""Encoders against scikit-learn and SciPy, which compute the same columns in their own ways."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from budgetline import Encoding
from budgetline.encoding.curves import level_beyond, natural_splines, smooth_curves
from budgetline.encoding.encoders import CategoryEncoder
from budgetline.encoding.fitting import encoder_of
from budgetline.encoding.raw import RawColumn, object_column
from budgetline.encoding.summaries import NumberSummary, summary_of_column

SEED = 0


def encoder_for(column, **settings):
    return encoder_of(column.name, summary_of_column(column, None, as_categories=False), Encoding(**settings))


def knots_and_values(rng, K=6, n=400):
    x = np.sort(rng.gamma(2.0, 3.0, n))
    return np.unique(np.quantile(x, np.linspace(0, 1, K))), x


# -- curves -----------------------------------------------------------------------------------------------------


def test_natural_splines_are_those_of_scipy_and_straight_beyond():
    knots, x = knots_and_values(np.random.default_rng(SEED))
    curve, other = natural_splines(knots), CubicSpline(knots, np.eye(knots.size), bc_type="natural")
    np.testing.assert_allclose(curve(x), other(x), atol=1e-12)
    low, high = knots[0], knots[-1]
    for end, beyond in ((low, low - np.array([1.0, 5.0])), (high, high + np.array([1.0, 5.0]))):
        expected = other(end) + (beyond - end)[:, None] * other(end, 1)
        np.testing.assert_allclose(curve(beyond), expected, atol=1e-11)


def test_smooth_curves_are_splines_of_scikit_learn_everywhere():
    """They lie in the space of its B-splines on the same knots, with linear extrapolation."""
    knots, x = knots_and_values(np.random.default_rng(SEED))
    curve, _ = smooth_curves(knots, x, np.ones(x.size))
    transformer = SplineTransformer(knots=knots[:, None], extrapolation="linear").fit(x[:, None])
    wide = np.linspace(knots[0] - 10, knots[-1] + 10, 500)
    B, Z = transformer.transform(wide[:, None]), curve(wide)
    fitted = B @ np.linalg.lstsq(B, Z, rcond=None)[0]
    np.testing.assert_allclose(fitted, Z, atol=1e-8 * np.abs(Z).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_smooth_curves_are_orthonormal_and_ordered_by_their_bending(weighted):
    rng = np.random.default_rng(SEED)
    knots, x = knots_and_values(rng)
    weight = rng.integers(1, 5, x.size).astype(float) if weighted else np.ones(x.size)
    curve, roughness = smooth_curves(knots, x, weight)
    Z, share = curve(x), weight / weight.sum()
    np.testing.assert_allclose(share @ Z, 0, atol=1e-10)
    np.testing.assert_allclose(Z.T @ (Z * share[:, None]), np.eye(knots.size - 1), atol=1e-5)  # G has a floor
    assert np.all(np.diff(roughness) > 0)
    assert abs(np.corrcoef(Z[:, 0], x)[0, 1]) > 1 - 1e-12  # the first is straight
    # ∫ f''² in units of the span, by finite differences
    grid = np.linspace(knots[0], knots[-1], 20001)
    step, span = grid[1] - grid[0], knots[-1] - knots[0]
    bending = (np.diff(curve(grid), 2, axis=0) ** 2).sum(axis=0) / step**3 * span**3
    np.testing.assert_allclose(bending[1:], roughness[1:], rtol=1e-3)
    assert np.all(curve(knots[-1:] + 1e-3) > curve(knots[-1:]))  # all rise at the end


def test_two_knots_are_a_straight_line():
    curve, roughness = smooth_curves(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.ones(2))
    assert curve(np.array([0.0, 0.5, 1.0, 2.0])).shape == (4, 1)
    assert roughness[0] == pytest.approx(0, abs=1e-12)


# -- categories --------------------------------------------------------------------------------------------------


def test_levels_are_those_of_scikit_learn():
    rng = np.random.default_rng(SEED)
    texts = rng.choice(["a", "b", "c", "rare1", "rare2"], 400, p=[0.4, 0.3, 0.28, 0.01, 0.01]).tolist()
    found = encoder_for(object_column(texts, "t"), min_frequency=20)
    other = OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist", sparse_output=False)
    other.fit(np.array(texts, dtype=object)[:, None])
    new = [*texts[:50], "never seen", "rare1"]
    theirs = other.transform(np.array(new, dtype=object)[:, None])
    order = [other.get_feature_names_out(["t"]).tolist().index(f"t_{level}") for level in found.categories]
    ours = found.encode(object_column(new, "t"))
    np.testing.assert_array_equal(ours, theirs[:, [*order, theirs.shape[1] - 1]])  # the infrequent ones come last


def test_two_levels_are_one_flag_as_with_drop_if_binary():
    found = encoder_for(object_column([True] * 30 + [False] * 20, "t"))
    assert found.labels("t") == ["t=False"]
    assert found.encode(object_column([True, False], "t")).tolist() == [[0], [1]]


def test_missing_and_unknown_levels():
    found = encoder_for(object_column(["a"] * 20 + ["b"] * 30 + [None], "t"))
    assert found.labels("t") == ["t=b", "t=a", "t=(missing)"]
    coded = found.encode(object_column(["a", None, "c"], "t")).tolist()
    assert coded == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]  # no category was rare: an unknown one has no effect
    merged = CategoryEncoder(("a",), np.ones(2), rare=True)
    assert merged.encode(object_column(["a", None, "c"], "t")).tolist() == [[1, 0], [0, 1], [0, 1]]


def test_max_levels_keeps_the_most_frequent_ones():
    texts = [f"l{k}" for k in range(100) for _ in range(k + 1)]
    found = encoder_for(object_column(texts, "t"), max_categories=3, min_frequency=0)
    assert found.labels("t") == ["t=l99", "t=l98", "t=l97", "t=(rare)"]


# -- numbers ----------------------------------------------------------------------------------------------------


def test_numbers_are_straight_in_the_middle_and_logarithms_in_the_tails():
    """The linear encoding is asinh((x − median)/3s) with s half the distance of the quartiles, standardised."""
    x = np.random.default_rng(SEED).standard_t(2, 1001)
    found = encoder_for(RawColumn("x", x), numbers="linear").encode(RawColumn("x", x))[:, 0]
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], method="inverted_cdf")
    expected = np.arcsinh((x - middle) / (1.5 * (high - low)))
    np.testing.assert_allclose(found, (expected - expected.mean()) / expected.std(), atol=1e-12)


def test_missing_numbers_are_the_mean_of_the_curves_and_a_flag():
    x = np.array([1.0, 2.0, 3.0, np.nan] * 10)
    found = encoder_for(RawColumn("x", x), numbers="linear")
    assert found.labels("x") == ["x", "x=(missing)"]
    coded = found.encode(RawColumn("x", x))
    assert coded[3].tolist() == [0, 1]
    assert coded[:, 0].mean() == pytest.approx(0, abs=1e-12)


def test_a_spike_gets_a_flag_and_no_knot():
    rng = np.random.default_rng(SEED)
    x = np.where(rng.random(1000) < 0.6, 0.0, rng.gamma(2.0, size=1000))
    found = encoder_for(RawColumn("x", x))
    assert found.spikes == (0.0,)
    assert found.curve.knots.min() > found.warp(np.zeros(1))[0]
    coded = found.encode(RawColumn("x", np.array([0.0, 1.0, np.nan])))
    assert coded[:, -1].tolist() == [1, 0, 0]  # without missing values in the data there is no flag for them
    assert not coded[[0, 2], :-1].any()


def penalised(Z, weights):
    """Return the kernel of a model with a penalty: Z diag(1/weights) Z' of standardised columns."""
    return Z / np.where(Z.std(axis=0) > 0, Z.std(axis=0), np.inf) / np.sqrt(weights)


def test_the_ridge_counts_effects_of_flags_alike_however_rare_they_are():
    """A flag as 2 or 0 has weight 1: its standardised column has 1/(4p(1 − p))."""
    texts = ["a"] * 500 + ["b"] * 300 + ["c"] * 200
    found = encoder_for(object_column(texts, "t"))
    share = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(found.weights, 1 / (4 * share * (1 - share)))
    two = encoder_for(object_column(texts[:800], "t"))
    three = encoder_for(object_column([*texts[:800], "z"], "t"), min_frequency=0)
    both = penalised(np.eye(2)[[0] * 500 + [1] * 300], three.weights[:2])
    one = penalised(two.encode(object_column(texts[:800], "t")), two.weights)
    difference = lambda Z: ((Z[0] - Z[-1]) ** 2).sum()  # noqa: E731
    assert difference(one) == pytest.approx(difference(both), rel=0.01)


def test_curves_that_bend_more_are_penalised_more():
    x = np.random.default_rng(SEED).standard_normal(5000)
    found = encoder_for(RawColumn("x", x))
    assert found.weights[0] == found.weights[1] == pytest.approx(1)
    assert np.all(np.diff(found.weights[1:]) >= 0)
    assert found.weights.max() <= 100


def test_values_with_plenty_of_rows_are_held_less_to_a_smooth_curve():
    extra = {rows: codes_of(rows).weights - 1 for rows in (100, 400, 1600, 1_600_000)}
    assert extra[100][-1] > 5
    np.testing.assert_allclose(extra[400], extra[100], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(extra[1600], extra[100] / 4, rtol=1e-9, atol=1e-9)
    codes = np.arange(1.0, 5.0)
    found, every = codes_of(1_600_000), np.eye(4) - 1 / 4
    kernels = [Z @ Z.T for Z in (penalised(found.encode(RawColumn("x", codes)), found.weights), penalised(every, 1.0))]
    np.testing.assert_allclose(kernels[0] / kernels[0][0, 0], kernels[1] / kernels[1][0, 0], atol=0.01)  # as levels


def codes_of(rows):
    """Return the encoder of a column with the codes 1 to 4, each in so many rows."""
    return encoder_of("x", NumberSummary(np.arange(1.0, 5.0), np.full(4, float(rows))), Encoding("spline"))


def test_one_rare_value_keeps_a_column_smooth():
    weights = np.array([5000.0, 5000.0, 5000.0, 100.0])
    few, plenty = (
        encoder_of("x", NumberSummary(np.arange(1.0, 5.0), w), Encoding("spline")).weights
        for w in (weights, 20 * weights)
    )
    np.testing.assert_allclose(plenty - 1, (few - 1) * 400 / 2000, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_values", [1, 2, 3, 5])
def test_columns_with_few_values_separate_them(n_values):
    x = np.repeat(np.arange(n_values, dtype=float), 20)
    found = encoder_for(RawColumn("x", x))
    Z = np.column_stack([np.ones(x.size), found.encode(RawColumn("x", x))])
    assert np.linalg.matrix_rank(Z, tol=1e-6) == n_values


def test_a_column_without_values_is_a_constant():
    found = encoder_for(object_column([None] * 5, "x"))
    coded = found.encode(object_column([None, None, 7.0], "x"))
    assert np.ptp(coded[:2]) == 0
    assert np.isfinite(coded).all()


def test_infinity_is_an_error_that_names_the_column():
    with pytest.raises(ValueError, match="column 'x' contains infinity, first in row 1"):
        encoder_for(RawColumn("x", np.array([1.0, np.inf, 2.0])))


def test_text_for_a_column_of_numbers_is_an_error_that_names_it():
    found = encoder_for(RawColumn("x", np.arange(50.0)))
    with pytest.raises(ValueError, match="column 'x' holds text such as 'old', not numbers"):
        found.encode(object_column(["old"], "x"))
    with pytest.raises(ValueError, match="column 'x' holds text such as 'old', not numbers"):
        found.encode(object_column(["1", "old", "new", None, "older"], "x"))


def test_some_text_for_a_column_of_numbers_is_missing():
    found = encoder_for(RawColumn("x", np.array([*range(50), np.nan])))
    coded = found.encode(object_column(["7", "3.0M", "12", "n/a"], "x"))
    np.testing.assert_array_equal(coded, found.encode(RawColumn("x", np.array([7, np.nan, 12, np.nan]))))


# -- outside the data, and where there are few --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [5, 40, 60, 1000])
def test_curves_stay_at_their_end_values_outside_the_data(n, seed):
    x = np.random.default_rng(seed).lognormal(0, 2, n)
    found = encoder_for(RawColumn("x", x))
    far = np.array([-1e9, x.min() - 1, x.min(), x.max(), x.max() + 1, 1e12])
    coded = found.encode(RawColumn("x", far))
    np.testing.assert_allclose(coded[:3], coded[[2, 2, 2]], atol=1e-12)
    np.testing.assert_allclose(coded[3:], coded[[3, 3, 3]], atol=1e-9 * np.abs(coded).max())


def test_level_beyond_changes_nothing_inside():
    knots, x = knots_and_values(np.random.default_rng(SEED))
    curve, _ = smooth_curves(knots, x, np.ones(x.size))
    for low, high in ((x[0], x[-1]), (x[50], x[-50]), (x[0] - 3, x[-1] + 5), (knots[1], knots[3])):
        found, t = level_beyond(curve, low, high), np.linspace(low, high, 300)
        np.testing.assert_allclose(found(t), curve(t), atol=1e-11 * np.abs(curve(t)).max())


@pytest.mark.parametrize("rare", [3, 13, 30])
def test_few_rows_besides_a_spike_get_a_line(rare):
    """The pools of Ames: 0 in all but 13 rows, whose areas all differ."""
    x = np.append(np.zeros(2900), np.linspace(100, 800, rare))
    found = encoder_for(RawColumn("x", x))
    assert (found.curve.width, found.spikes) == (1, (0.0,))
    assert encoder_for(RawColumn("x", np.append(np.zeros(2900), np.linspace(100, 800, 200)))).curve.width > 1


def test_values_with_few_rows_are_no_knots():
    """Every knot has rows at it, on its way to the next one, and beyond the outer ones."""
    rng = np.random.default_rng(SEED)
    x = np.concatenate([rng.integers(3, 8, 2000), [0, 1, 9, 10, 50]]).astype(float)
    found = encoder_for(RawColumn("x", x))
    inner = found.curve.knots[1:-1]
    ranks = np.searchsorted(np.sort(found.warp(x)), inner, side="right")
    assert np.all(np.diff(np.concatenate([[0], ranks])) >= 10)
    coded = found.encode(RawColumn("x", x))
    assert np.abs(coded).max() < 15  # one row alone would have √2005


# -- values that differ by rounding -------------------------------------------------------------------------------

TIES = {
    "sums": ([0.3, 0.1 + 0.2], [0.3, 0.7, 1.0]),
    "tiny": ([0.0, 1e-15, -1e-17], [0.0, 1.0, 2.0]),
    "large": ([1e9, np.nextafter(1e9, 2e9)], [1e9, 1e9 + 1, 1e9 + 2]),
    "shifted": ([1.7e9 + 0.25, 1.7e9 + 0.25 + 2.4e-7], [1.7e9, 1.7e9 + 1000.0, 1.7e9 + 0.25]),
}


@pytest.mark.parametrize("others", [0, 30, 400])
@pytest.mark.parametrize("name", TIES)
def test_numbers_that_are_equal_to_rounding_are_one(name, others):
    same, values = TIES[name]
    rng = np.random.default_rng(SEED)
    x = np.concatenate([np.repeat(same, 40), np.repeat(values, 25), rng.uniform(min(values), max(values), others)])
    rng.shuffle(x)
    found = encoder_for(RawColumn("x", x))
    coded = found.encode(RawColumn("x", np.array(same)))
    assert np.isfinite(coded).all()
    np.testing.assert_allclose(coded, np.broadcast_to(coded[0], coded.shape), atol=1e-6)
    assert np.isfinite(found.encode(RawColumn("x", x))).all()


@pytest.mark.parametrize("kind", ["linear", "spline"])
@pytest.mark.parametrize(("value", "other"), [(1.0, 1.0 + 2.3e-16), (-1.0, -1.0 + 1.2e-16), (0.3, 0.1 + 0.2)])
def test_a_number_and_its_rounding_are_a_constant(kind, value, other):
    """The difference was once a column of its own: a prediction at 0 was 3e17."""
    assert value != other
    found = encoder_for(RawColumn("x", np.array([value, other] * 30)), numbers=kind)
    np.testing.assert_array_equal(found.encode(RawColumn("x", np.array([value, other, 0.0, 1e9]))), 0)


@pytest.mark.parametrize("kind", ["linear", "spline"])
@pytest.mark.parametrize("scale", [1e-100, 0.1, 1e100])
def test_any_finite_number_has_finite_columns(kind, scale):
    """A number whose ratio to the scale of its column overflows was once predicted as NaN."""
    found = encoder_for(RawColumn("x", scale * np.random.default_rng(SEED).normal(size=200)), numbers=kind)
    coded = found.encode(RawColumn("x", np.array([-1.7e308, -1e300, 1e300, 1.7e308])))
    assert np.isfinite(coded).all()
    assert np.all(np.diff(coded[:, 0]) >= 0)


def test_knots_that_nearly_agree_are_one():
    x = np.concatenate([np.repeat([1.0, 1.0 + 1e-7, 1.0 + 2e-7, 1 + 3e-7, 1 + 4e-7], 30), np.linspace(0, 3, 200)])
    for knots in (None, 20):
        found = encoder_for(RawColumn("x", x), knots=knots)
        coded = found.encode(RawColumn("x", np.linspace(-1, 4, 1000)))
        assert np.isfinite(coded).all()
        assert np.abs(coded).max() < 15


# -- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"numbers": "cubic"}, "numbers must be one of"),
        ({"knots": 1}, "knots"),
        ({"knots": [1, 2, 3]}, "knots must be"),
        ({"knots": "many"}, "knots must be"),
        ({"min_frequency": -1}, "min_frequency"),
        ({"max_categories": 0}, "max_categories"),
        ({"interactions": -1}, "interactions"),
        ({"columns": {"age": "cubic"}}, "column 'age': numbers must be one of"),
        ({"columns": {"age": {"colour": 3}}}, "encoding of column 'age' must be one of"),
        ({"columns": {"age": {"interactions": 3}}}, "encoding of column 'age' must be one of"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Encoding(**settings)


def test_flags_have_names_of_their_own():
    values = ["(missing)", "(rare)", "a", "b"] * 50 + [None] * 5 + ["once"]
    found = encoder_for(object_column(values, "x"))
    assert set(found.categories) == {"(missing)", "(rare)", "a", "b"}
    assert found.labels("x")[4:] == ["x=(rare) (2)", "x=(missing) (2)"]


def test_the_other_of_two_levels_is_kept():
    found = encoder_for(object_column(["no"] * 30 + ["yes"] * 20, "x"))
    assert (found.categories, found.reference) == (("yes",), "no")


def test_values_of_many_rows_do_not_draw_all_knots():
    """No value counts as more than 200 rows: here all count alike, though few rows are old."""
    age = np.concatenate([np.repeat(np.arange(25.0, 50.0), 5000), np.repeat(np.arange(50.0, 95.0), 200)])
    found = encoder_for(RawColumn("age", age), numbers="spline", knots=7)
    expected = np.quantile(np.unique(age), np.linspace(0, 1, 7), method="inverted_cdf")
    np.testing.assert_allclose(found.curve.knots, found.warp(expected))
