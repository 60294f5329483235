"""Defaults on raw tables as people have them, which are not part of the package."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

from budgetline import AnytimeRegressor

ZOO = Path(__file__).resolve().parents[2] / "shared" / "data" / "zoo"
pytestmark = pytest.mark.skipif(not ZOO.is_dir(), reason="needs the raw tables in ../shared/data/zoo")


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
