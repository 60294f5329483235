"""Defaults on raw tables as people have them, which are not part of the package."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

from budgetline import AnytimeRegressor

ZOO = Path(__file__).resolve().parents[2] / "shared" / "data" / "zoo"
needs_tables = pytest.mark.skipif(not ZOO.is_dir(), reason="needs the raw tables in ../shared/data/zoo")


@needs_tables
@pytest.mark.parametrize("seed", [0, 1])
def test_ames(seed):
    """Splines of 79 columns: no later stage is much worse, and no house is predicted far outside the range of prices.

    Before, the pool areas of 13 houses had a curve of their own, and a house was predicted at −1,000,000 dollars.
    """
    table = pd.read_csv(ZOO / "ames.csv", encoding="utf-8-sig")
    X, y = table.drop(columns=["Order", "PID", "SalePrice"]), table["SalePrice"].to_numpy(dtype=float)
    found = []
    for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
        model = AnytimeRegressor(encoding="spline").fit(X.iloc[train], y[train])
        predicted = [model.predict(X.iloc[test], budget=budget) for budget in (3, 10, 30, None)]
        found.append([r2_score(y[test], each) for each in predicted])
        low, span = y[train].min(), np.ptp(y[train])
        assert np.min(predicted) >= low - span / 4
        assert np.max(predicted) <= low + 5 * span / 4
    assert np.all(np.mean(found, axis=0) >= [0.80, 0.84, 0.85, 0.85])


def test_the_page_names_what_is_behind_what_falls_and_what_is_slow(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[1] / "experiments")])
    zoo = import_module("zoo")
    steps, noise = np.array([0.8, 0.9, 0.7, 0.7]), np.array([-0.002, 0.0, 0.001, 0.001, 0.0])[:, None]
    scores = steps + noise * np.array([1.0, 2.0, 3.0, 4.0])
    hmeq = zoo.Outcome("hmeq", scores, scores - 0.1, scores + 0.02, 5, 12.0, 21.0)
    telco = zoo.Outcome("telco", np.sort(scores, axis=1), scores, scores + 0.02, 0, 12.0, 9.0)
    linear, before, boosted, fallen, slow = zoo.summary([hmeq, telco])
    assert "standard error in 0 of 4 cases" in zoo.summary([hmeq])[0]
    assert "hmeq with 10 columns (-0.229" in before
    assert "telco with 2 columns (-0.101" in before
    assert "4 of 4 cases: hmeq with 2 columns (-0.020" in boosted
    assert boosted.endswith("No pairs were chosen on telco.")
    assert "on hmeq (" in fallen
    assert "telco" not in fallen
    assert "at most 21 seconds of processor time (hmeq)" in slow
    assert "telco with 5 columns" in linear
