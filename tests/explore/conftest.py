"""A small raw table with text, missing values, a number and classes to predict."""

import numpy as np
import pytest

from budgetline.explore.session import opening_state
from budgetline.explore.session_data import Data


def write_table(path, n=160, seed=0):
    """Write a table; columns have very different worth, so that orders do not depend on rounding."""
    rng = np.random.default_rng(seed)
    age, dose, noise = rng.normal(50, 12, n), rng.gamma(2, 2, n), rng.normal(size=n)
    town = rng.choice(["Ulm", "Bonn", "Kiel"], n, p=[0.5, 0.3, 0.2])
    score = 0.08 * (age - 50) + np.where(town == "Ulm", 1.0, -1.0) + 0.15 * dose
    y = np.round(score + rng.normal(scale=0.5, size=n), 3)
    ill = np.where(score + rng.logistic(scale=0.5, size=n) > 0.4, "yes", "no")
    lines = ["age,dose,noise,town,y,ill"]
    for k in range(n):
        gap = "" if k % 17 == 3 else f"{dose[k]:.3f}"
        lines.append(f"{age[k]:.2f},{gap},{noise[k]:.3f},{town[k]},{y[k]},{ill[k]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def table_path(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("explore") / "people.csv")


@pytest.fixture(scope="session")
def data(table_path):
    return Data(str(table_path))


@pytest.fixture
def state(data):
    return opening_state(data)
