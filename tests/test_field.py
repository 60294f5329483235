"""The field page: its splits are the published ones, and its sentences follow from the scores that are kept."""

import random
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.metrics import f1_score

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
METRICS = ("AUC", "accuracy", "F1", "F1, tuned", "macro F1")
FAMILIES = ("linear", "spline", "spline + pairs", "trees")
EXTRA = ("plan", "refitted", "trees, own importance", "network, permutation")


@pytest.fixture(scope="module")
def field():
    sys.path.insert(0, str(EXPERIMENTS))
    try:
        import field
    finally:
        sys.path.remove(str(EXPERIMENTS))
    return field


def record(budgets, scores):
    """Return scores as they are kept: five splits that differ by a thousandth, validation as test."""
    splits = [
        {
            family: {part: {m: [v + k / 1000 for v in values] for m in METRICS} for part in ("validation", "test")}
            for family, values in scores.items()
        }
        for k in range(5)
    ]
    about = {"metric": "AUC", "seconds": 60, "measured": "Measured on 2026-01-01: a machine."}
    return about | {"budgets": budgets, "splits": splits}


def test_sentences_follow_from_the_scores(field):
    budgets = field.TASKS["spam"].budgets
    published = np.array(field_page_of(field).GDFS_AUC) / 100
    better = published + 0.01
    better[3] = published[3] - 0.02  # one loss
    scores = {name: (published - 0.05).tolist() for name in (*FAMILIES, *EXTRA)} | {"spline": better.tolist()}
    page = field.page_of({"spam": record(budgets, scores)})
    text = page.text()
    assert "AUROC is higher at 12 of 13 budgets, by up to 1.00 points, and lower at k = 4 (−2.00). Its" in text
    assert "On all five splits, including the published one, the family chosen is spline." in text
    assert "a neural network with features ranked by permutation importance at 13 of 13 budgets" in text
    assert "is spline on spam." in text
    assert "| 4 | 95.25 | 93.25 | −2.00 |" in text
    assert text.rstrip().endswith("matplotlib " + text.rstrip().split("matplotlib ")[-1])
    assert "Measured on 2026-01-01: a machine" in text
    for drawing in page.figures.values():
        assert ElementTree.fromstring(drawing).tag.endswith("svg")
        assert len(drawing) < 20_000


def field_page_of(field):
    return sys.modules[field.page_of.__module__]


def test_a_loss_to_a_baseline_is_told(field):
    scores = {name: [0.8, 0.85, 0.9] for name in (*FAMILIES, *EXTRA)} | {"trees, own importance": [0.82, 0.87, 0.92]}
    text = field.page_of({"bank": record((2, 4, 7), scores)}).text()
    assert "significantly worse than LightGBM with its own feature ranking at 3 of 3 budgets" in text
    assert "−2.00 ± 0.00 points" in text


def test_published_splits(field):
    problem = SimpleNamespace(y=np.zeros(103))
    rows = np.arange(103)
    np.random.default_rng(0).shuffle(rows)
    train, validation, test = next(field.covert(problem))
    assert test.tolist() == rows[:20].tolist()
    assert validation.tolist() == rows[20:40].tolist()
    assert train.tolist() == rows[40:].tolist()
    order = list(range(103))
    random.Random(42).shuffle(order)
    first, *others = field.afa(problem)
    assert [part.tolist() for part in first] == [order[:61], order[61:81], order[81:]]
    assert len(others) == 4


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_has_the_best_f1_of_the_grid(field, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(300) < 0.2).astype(int)
    share = np.clip(0.2 + 0.3 * y + rng.normal(0, 0.2, 300), 0, 1)
    found = field.best_threshold(y, share)
    grid = np.quantile(share, np.linspace(0.5, 0.99, 100))
    assert f1_score(y, share >= found) == pytest.approx(max(f1_score(y, share >= t) for t in grid))
