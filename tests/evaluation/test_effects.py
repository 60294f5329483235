"""Effects add up to scores, have mean zero, and stay inside their tags."""

import re
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import AnytimeClassifier, AnytimeRegressor, BudgetCurve, Encoding, FeatureGroups, load, save
from budgetline.evaluation import effects_of
from budgetline.evaluation.pictures import LETTER, Axis, ScoreEffect

EVIL = "<img src=x onerror='alert(1)'>"


def raw_table(seed=0, n=400):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "job": rng.choice(["clerk", "cook", "nurse", "pilot", "monk"], n, p=[0.4, 0.3, 0.15, 0.14, 0.01]),
            "age": rng.normal(40, 10, n).round(1),
            "income": np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(3, 1.5, n)),
            "owner": rng.choice(["yes", "no"], n),
            "children": rng.poisson(1.0, n),
        }
    )
    signal = np.log1p(table["income"]) + np.where(table["job"] == "cook", 1, -1) * (table["age"] - 40) / 10
    signal += np.where(table["owner"] == "yes", 1, -1) * table["children"]
    table.loc[rng.random(n) < 0.1, "age"] = np.nan
    table.loc[rng.random(n) < 0.1, "job"] = None
    return table, signal + rng.normal(size=n)


SPLINES = Encoding("spline", interactions=4, min_frequency=8)


def on_the_grid(effects, columns, rng, n=200):
    """Return rows whose values are all among the points of the effects, and the sum of the effects that tables give."""
    grids = {}
    for effect in effects:  # the points of pairs are among those of their columns
        for axis in effect.axes:
            if len(axis) <= len(grids.get(axis.column, range(10**9))):
                grids[axis.column] = axis
    chosen = {name: rng.integers(len(axis), size=n) for name, axis in grids.items()}
    total = np.zeros((n, *np.shape(effects.base))) + effects.base
    for effect in effects:
        places = []
        for axis in effect.axes:
            points, wanted = list(axis.labels), grids[axis.column].labels
            places.append([points.index(wanted[k]) for k in chosen[axis.column]])
        total += effect.values[tuple(places)]
    rows = {}
    for name in columns:
        if name in grids:
            axis = grids[name]
            rows[name] = [value_at(axis, k) for k in chosen[name]]
    return pd.DataFrame(rows), total


def value_at(axis, k):
    if k < len(axis.numbers) + len(axis.spikes):
        return (*axis.numbers, *axis.spikes)[k]
    level = axis.labels[k]
    if level == "(missing)":
        return np.nan if axis.numbers else None
    return "never seen" if level == "(rare)" or level.startswith("(not ") else level


@pytest.mark.parametrize("encoding", ["linear", "spline", SPLINES])
@pytest.mark.parametrize("stage", [1, 3, None])
def test_the_effects_add_up_to_the_score(encoding, stage):
    X, signal = raw_table()
    model = AnytimeClassifier(encoding=encoding).fit(X, signal > np.median(signal))
    effects = model.effects(stage=stage)
    rows, total = on_the_grid(effects, X.columns, np.random.default_rng(1))
    np.testing.assert_allclose(model.decision_function(rows, stage=stage), total, rtol=1e-9, atol=1e-9)
    assert effects.stage == (stage or model.model_.n_stages)


def test_every_kind_of_effect_is_there():
    X, signal = raw_table()
    effects = AnytimeRegressor(encoding=SPLINES).fit(X, signal).effects()
    pairs = [effect for effect in effects if len(effect.axes) == 2]
    assert len(pairs) == 4
    assert set(effects["job"].axes[0].categories) == {"clerk", "cook", "pilot", "nurse", "(rare)", "(missing)"}
    assert effects["income"].axes[0].spikes == (0.0,)
    assert effects["age"].axes[0].categories == ("(missing)",)
    assert set(effects["owner"].axes[0].categories) == {"yes", "no"}


def test_softmax_and_several_targets_have_one_effect_each():
    X, signal = raw_table()
    y = np.digitize(signal, np.quantile(signal, [0.3, 0.7]))
    model = AnytimeClassifier(encoding=SPLINES).fit(X, np.array(["low", "middle", "high"])[y])
    effects = model.effects()
    assert {effect.outputs for effect in effects} == {("high", "low", "middle")}
    rows, total = on_the_grid(effects, X.columns, np.random.default_rng(1))
    np.testing.assert_allclose(model.decision_function(rows), total, rtol=1e-9, atol=1e-9)
    regressor = AnytimeRegressor(encoding="spline").fit(X, np.column_stack([signal, -signal]))
    effect = regressor.effects(stage=1).effects[0]
    np.testing.assert_allclose(effect.values[..., 0], -effect.values[..., 1], atol=1e-9)


def test_numbers_without_encoding_are_straight_lines():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4)) * [1, 10, 0.1, 0] + [0, 100, 0, 3]
    model = AnytimeRegressor([[0, 1], [2, 3]], alpha=1e-3).fit(X, X @ [1, 2, 3, 0])
    effects = effects_of(make_pipeline(StandardScaler(with_mean=False, with_std=False), model).fit(X, X @ [1, 2, 3, 0]))
    assert effects.base == pytest.approx(model.predict(X).mean())
    for d in range(3):
        effect, x = effects[str(d)], X[:, d]
        np.testing.assert_allclose(
            effect.axes[0].numbers, x.mean() + np.array([-2, 0, 2]) * x.std(), atol=1e-3 * x.std()
        )
        expected = model.coef_[d] * (np.array(effect.axes[0].numbers) - x.mean())
        np.testing.assert_allclose(effect.values, expected, atol=1e-9)
    assert effects["3"].values.tolist() == [0.0]


def test_the_mean_over_the_training_data_is_zero():
    X, signal = raw_table()
    weight = np.random.default_rng(2).integers(1, 4, len(X))
    model = AnytimeRegressor(encoding="spline").fit(X, signal, sample_weight=weight)
    effects = model.effects()
    assert effects.base == pytest.approx(np.average(model.predict(X), weights=weight))
    row = {effect.name: value_at(effect.axes[0], 0) for effect in effects}
    for effect in effects:  # the mean over all values of a column, the others held fixed, leaves its effect out
        fixed = pd.DataFrame({**{name: [value] * len(X) for name, value in row.items()}, effect.name: X[effect.name]})
        others = sum(float(other.values[0]) for other in effects if other is not effect)
        assert np.average(model.predict(fixed), weights=weight) == pytest.approx(effects.base + others, abs=1e-9)


def test_a_budget_is_a_stage():
    X, signal = raw_table()
    model = AnytimeRegressor(encoding="spline").fit(X, signal)
    pd.testing.assert_frame_equal(model.effects(budget=2.5).to_frame(), model.effects(stage=2).to_frame())
    nothing = model.effects(stage=0)
    assert len(nothing) == 0
    assert nothing.base == pytest.approx(signal.mean())
    with pytest.raises(ValueError, match="stage"):
        model.effects(stage=99)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(backend):
    X, signal = raw_table()
    effects = AnytimeRegressor(encoding=SPLINES).fit(X, signal).effects()
    assert len(effects.to_frame(backend)) == sum(effect.values.size for effect in effects)
    assert len(effects.effects[0].to_frame(backend)) == effects.effects[0].values.size


def test_a_loaded_model_has_the_same_effects(tmp_path):
    X, signal = raw_table()
    model = AnytimeClassifier(encoding=SPLINES).fit(X, signal > 0)
    save(model, tmp_path / "m.budgetline")
    again = load(tmp_path / "m.budgetline").effects(budget=3)
    pd.testing.assert_frame_equal(again.to_frame(), model.effects(budget=3).to_frame())


# -- few numbers, classes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["spline", "linear"])
@pytest.mark.parametrize("values", [(1, 2), (0, 1), (1, 2, 3), tuple(range(12)), tuple(range(13))])
def test_few_numbers_are_shown_at_their_values_alone(encoding, values, tmp_path):
    """The effect of Sex, coded 1 and 2, was drawn from 0.156 to 2.493."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.permutation(np.resize(values, 600)).astype(float), "x": rng.normal(size=600)})
    X.loc[rng.random(600) < 0.1, "code"] = np.nan
    y = X["code"].isin(values[1::2]) * 1.0 + X["x"] + rng.normal(size=600)
    model = AnytimeRegressor(encoding=encoding).fit(X, y)
    save(model, tmp_path / "m.budgetline")
    for each in (model, load(tmp_path / "m.budgetline")):
        effect = each.effects()["code"]
        (axis,) = effect.axes
        if len(values) > 12:
            assert len(axis.numbers) > 12
            continue
        assert (axis.numbers, axis.spikes, axis.categories) == ((), values, ("(missing)",))
        predicted = model.predict(pd.DataFrame({"code": [*values, np.nan], "x": 0.5}))
        np.testing.assert_allclose(np.diff(effect.values), np.diff(predicted), atol=1e-9)


def test_effects_name_the_class_that_up_means():
    X, signal = raw_table()
    model = AnytimeClassifier(encoding="spline").fit(X, np.where(signal > 0, "rich", "poor"))
    effects = model.effects()
    assert "; up means class rich)" in repr(effects)
    assert set(effects.to_dict()["output"]) == {"rich"}
    assert effects._repr_html_().count(" means class rich") == len(effects)
    income = effects["income"]
    at = dict(zip(income.axes[0].labels, income.values, strict=True))
    assert at["0"] < 0  # those without income are poor
    three = AnytimeClassifier(max_groups=1, encoding="spline").fit(X, np.digitize(signal, [-1, 1])).effects()
    assert "; up means class 0, 1, 2)" in repr(three)
    assert "up means" not in repr(AnytimeRegressor(encoding="spline").fit(X, signal).effects())
    assert "up means" not in repr(model.effects(stage=0))


def test_an_unknown_effect_is_named():
    X, signal = raw_table()
    effects = AnytimeRegressor(encoding="spline").fit(X, signal).effects(stage=1)
    with pytest.raises(KeyError, match=r"no effect of 'wages' at stage 1: the effects are"):
        effects["wages"]


# -- plots -------------------------------------------------------------------------------------------------------


def test_plots_show_the_values():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, signal = raw_table()
    X["code"] = X["children"].clip(0, 1) + 1
    effects = AnytimeClassifier(encoding=SPLINES).fit(X.rename(columns={"age": "$a_$"}), signal > 0).effects()
    places = effects.plot()
    figure = places[0].figure
    assert len(places) == len(effects) == len(figure.axes) - 4  # four pairs have colour bars
    figure.draw_without_rendering()
    for ax, effect in zip(places, effects, strict=True):
        axis, n = effect.axes[0], len(effect.axes[0].numbers)
        shows = "blue" if len(effect.axes) == 2 else "up" if n else "right"
        assert ax.get_title(loc="left") == f"{effect.name}: {shows} means class True"
        if len(effect.axes) == 2:
            np.testing.assert_allclose(ax.images[0].get_array().T, effect.values)
        elif n:
            lines = [line.get_xydata() for line in ax.lines]
            assert any(np.array_equal(line, np.column_stack([axis.numbers, effect.values[:n]])) for line in lines)
        else:
            np.testing.assert_allclose([bar.get_width() for bar in ax.patches], effect.values)
            assert [text.get_text() for text in ax.get_yticklabels()] == list(axis.labels)
    pyplot.close("all")


def test_plots_into_given_axes_and_of_some_columns():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, signal = raw_table()
    y = np.array(["low", "middle", "high"])[np.digitize(signal, [-1, 1])]
    effects = AnytimeClassifier(encoding="spline").fit(X, y).effects()
    figure, axes = pyplot.subplots(1, 3)
    places = effects.plot(axes, names=["owner"])
    assert all(ax.figure is figure for ax in places)
    titles = [ax.get_title(loc="left") for ax in places]
    assert titles == [f"owner: right means class {name}" for name in ("high", "low", "middle")]
    with pytest.raises(ValueError, match="15 effects need 15 axes, got 3"):
        effects.plot(axes)
    with pytest.raises(ValueError, match="no group is bought"):
        AnytimeClassifier(encoding="spline").fit(X, y).effects(stage=0).plot()
    pyplot.close("all")


def test_plots_without_matplotlib_say_what_to_install(monkeypatch):
    X, signal = raw_table()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install '.\[plot\]'"):
        AnytimeRegressor(encoding="spline").fit(X, signal).effects().plot()


# -- notebooks -----------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Collects open tags, and checks that all are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag not in ("input", "br", "link", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_notebooks_show_escaped_tables():
    X, signal = raw_table()
    X = X.rename(columns={"job": EVIL, "age": "a & b"})
    X[EVIL] = X[EVIL].replace("cook", EVIL)
    model = AnytimeClassifier(encoding=SPLINES)
    assert "cumulative" not in model._repr_html_()
    model.fit(X, np.where(signal > 0, EVIL, "b"))
    shown = [
        model.effects()._repr_html_(),
        model.sequence_._repr_html_(),
        BudgetCurve.of(model)._repr_html_(),
        model.feature_groups_._repr_html_(),
    ]
    for text in shown:
        assert "img" not in Tags(text).seen
    assert {"svg", "polyline", "rect", "path"} <= Tags(shown[0]).seen
    assert "table" in Tags(shown[2]).seen
    for text in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert model.sequence_._repr_html_() in text
        assert "sk-" in text


def test_odd_curves_and_groups_are_shown():
    Tags(BudgetCurve([0, 1, 2], [np.nan, np.nan, np.nan])._repr_html_())
    Tags(BudgetCurve([0.0], [1.0])._repr_html_())
    Tags(BudgetCurve([0, 0, 0], [0.5, 0.5, 0.5])._repr_html_())
    assert ", …" in FeatureGroups([range(500)])._repr_html_()


@pytest.mark.parametrize("levels", [2, 5, 20])
@pytest.mark.parametrize("numbers", [0, 16])
def test_labels_of_heat_maps_do_not_overlap(levels, numbers):
    """Letters are about as wide as LETTER; labels of categories are centred below their cells."""
    axis = Axis("x", tuple(map(float, range(numbers))), (), tuple(f"a rather long name {k}" for k in range(levels)))
    svg = ScoreEffect("x", (axis, Axis("y", categories=("a", "b"))), "", False, (1.0,) * 2 * len(axis)).picture
    found = re.findall(r'<text x="([0-9.]+)" y="([0-9.]+)"[^>]*text-anchor="middle">([^<]*)<', svg)
    below = [(float(x), len(text)) for x, _, text in found]
    assert below
    for (x, length), (next_x, next_length) in pairwise(below):
        assert next_x - x >= LETTER * (length + next_length) / 2 - 0.2
