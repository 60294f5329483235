"""The effects of a report: those of the model, few enough, with a rug from the data, and names that stay text."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, make_report
from budgetline.evaluation.pictures import short

EVIL = "</text></svg><script>alert(1)</script>"


@pytest.fixture(scope="module")
def raw():
    rng = np.random.default_rng(0)
    n = 300
    table = pd.DataFrame({EVIL: rng.choice([EVIL, "b", "c"], n), "x & <y>": rng.lognormal(size=n).round(2)})
    table["plain"] = rng.choice(["yes", "no"], n)
    score = np.log(table["x & <y>"]) * np.where(table[EVIL] == "b", 2, -1) + rng.normal(size=n)
    table.loc[rng.random(n) < 0.1, EVIL] = None
    return table, score


def fitted(raw, y, **settings):
    return AnytimeClassifier(encoding=Encoding("spline", interactions=2), **settings).fit(raw[0], y)


class Reader(HTMLParser):
    """Collects tags and classes."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.classes = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.classes.append(dict(attributes).get("class"))


def test_they_are_those_of_the_model(raw):
    model = fitted(raw, raw[1] > 0)
    report = make_report(model, raw[0], raw[1] > 0, cv=2, baselines=False)
    effects = model.effects()
    assert [effect.name for effect in report.effects] == [effect.name for effect in effects]
    assert report.effects_in_all == len(effects)
    for found, effect in zip(report.effects, effects, strict=True):
        np.testing.assert_allclose(np.reshape(found.values, effect.values.shape), effect.values, rtol=1e-3)
        assert found.group == effect.group
    assert len(report.to_dict()["effects"]) == len(effects)


def test_every_effect_has_a_picture_and_a_row(raw):
    report = make_report(fitted(raw, raw[1] > 0))
    reader = Reader(report.to_html())
    assert reader.classes.count("effect") == len(report.effects)
    assert {"polyline", "rect", "path"} <= set(reader.tags)
    assert reader.tags.count("script") == 2
    assert not {"img", "b", "y"} & set(reader.tags)
    lines = report.to_markdown().split("## What each column does")[1].split("##")[0].splitlines()
    for effect, line in zip(report.effects, [line for line in lines if line.startswith("| ")][2:], strict=True):
        for end in (min(effect.values), max(effect.values)):
            assert str(float(f"{end:.4g}")).removesuffix(".0").replace("-", "−") in line


def test_the_rug_is_where_the_data_are(raw):
    table, score = raw
    report = make_report(fitted(raw, score > 0), table, score > 0, cv=2, baselines=False)
    (axis,) = next(effect.axes for effect in report.effects if effect.name == "x & <y>")
    shares = [np.mean(table["x & <y>"] <= mark) for mark in axis.rug]
    assert 25 < len(axis.rug) <= 50
    assert np.diff(shares).max() < 0.06


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_tables_without_encoding(convert):
    rng = np.random.default_rng(0)
    X, flags = rng.normal(size=(80, 3)), rng.random(80) < 0.5
    table = convert(X)
    if convert is pd.DataFrame:
        table = table.rename(columns=str).assign(flag=flags)
    report = make_report(AnytimeRegressor().fit(table, X[:, 0]), table, X[:, 0], cv=2, baselines=False)
    assert len(report.effects) == table.shape[1]
    assert bool(report.effects[0].axes[0].rug) == (convert is not sparse.csr_array)


@pytest.mark.parametrize("values", [(1, 2), (0, 1), (3, 5, 9)])
def test_lines_over_few_numbers_become_bars(values):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.choice(values, 200), "x": rng.normal(size=200)})
    model = AnytimeRegressor(alpha=1e-3).fit(X, X["code"] + X["x"])
    report = make_report(model, X, X["code"] + X["x"], cv=2, baselines=False)
    effect = next(effect for effect in report.effects if effect.name == "code")
    assert effect.axes[0].spikes == values
    np.testing.assert_allclose(effect.values, model.coef_[0] * (np.array(values) - X["code"].mean()), rtol=1e-3)


@pytest.mark.parametrize("encoding", [None, "spline"])
def test_a_flag_of_two_codes_has_its_own_effect(encoding):
    """The table said 2.15, from a line that ended far beyond the codes, where the truth is 1.08."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"Sex": rng.choice([1, 2], 400, p=[0.68, 0.32]), "x": rng.normal(size=400)})
    y = 1.08 * X["Sex"] + X["x"]
    report = make_report(AnytimeRegressor(encoding=encoding, alpha=1e-9).fit(X, y), X, y, cv=2, baselines=False)
    effect = next(effect for effect in report.effects if effect.name == "Sex")
    assert np.ptp(effect.values) == pytest.approx(1.08, rel=0.02)
    (row,) = [line for line in report.to_markdown().splitlines() if line.startswith("| Sex | Sex |")]
    assert (row.count("| 1 |"), row.count("| 2 |")) == (1, 1)


def test_two_classes_say_what_up_means(raw):
    report = make_report(fitted(raw, np.where(raw[1] > 0, "ill", "well")))
    assert {effect.output for effect in report.effects} == {"well"}
    html, kinds = report.to_html(), ("up", "right", "blue")  # curves, bars, heat maps
    counts = [html.count(f"{kind} means class well</figcaption>") for kind in kinds]
    heat, curves = (sum(map(is_one, report.effects)) for is_one in (lambda e: len(e.axes) == 2, is_curve))
    assert counts == [curves, len(report.effects) - curves - heat, heat]
    assert min(counts) > 0


def is_curve(effect):
    return len(effect.axes) == 1 and bool(effect.axes[0].numbers)


def test_curves_and_bars_share_one_axis(raw):
    report = make_report(fitted(raw, raw[1] > 0))
    alone = [effect for effect in report.effects if len(effect.axes) == 1]
    ends = min(low for low, _ in (e.reach for e in alone)), max(high for _, high in (e.reach for e in alone))
    for effect, picture in zip(report.effects, report.pictures, strict=True):
        assert picture in report.to_html()
        if is_curve(effect):
            assert all(f">{short(end)}</text>" in picture for end in ends)
        elif len(effect.axes) == 1:
            widths = [float(width) for width in re.findall(r'<rect[^>]*? width="([\d.]+)"', picture)]
            np.testing.assert_allclose(widths, np.abs(effect.values) * (288 - 116) / (ends[1] - ends[0]), atol=0.06)
        else:
            assert picture == effect.picture


def test_separate_marks_are_explained(raw):
    text = "Separate marks beside a curve are values such as 0 or missing"
    assert text not in make_report(fitted(raw, raw[1] > 0)).to_markdown()
    X = raw[0].assign(gaps=np.where(np.arange(300) % 5, raw[1], np.nan))
    assert text in make_report(fitted((X,), raw[1] > 0)).to_markdown()


def test_behind_a_pipeline_the_rug_is_transformed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) + 100
    model = make_pipeline(MinMaxScaler(), AnytimeRegressor()).fit(X, X[:, 0])
    report = make_report(model, X, X[:, 0], cv=2, baselines=False)
    assert all(0 <= mark <= 1 for effect in report.effects for mark in effect.axes[0].rug)


def test_a_report_has_the_largest_of_many_effects():
    rng = np.random.default_rng(0)
    X, size = rng.normal(size=(300, 60)), np.arange(60)
    model = AnytimeRegressor(alpha=1e-3).fit(X, X @ size)
    report = make_report(model)
    assert (len(report.effects), report.effects_in_all) == (36, 60)
    assert {int(effect.name) for effect in report.effects} == set(range(24, 60))
    assert [effect.name for effect in report.effects] == [g for g in model.sequence_.groups if int(g) >= 24]
    assert "Of 60 effects, the 36 with the largest range are shown." in report.to_markdown()


def test_classes_have_an_effect_each(raw):
    y = np.array(["low", "mid", EVIL])[np.digitize(raw[1], [-1, 1])]
    report = make_report(fitted(raw, y, max_groups=2))
    assert {effect.output for effect in report.effects} == {"low", "mid", EVIL}
    assert "class low" in report.to_markdown()
    assert Reader(report.to_html()).tags.count("script") == 2
