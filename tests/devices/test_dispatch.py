"""Device arrays under scikit-learn's ``array_api_dispatch``, which must be allowed before SciPy is imported."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("array_api_strict")

UNDER_DISPATCH = """
import array_api_strict as xp, numpy as np
from sklearn import config_context
from sklearn.utils import get_tags
from budgetline import AnytimeClassifier, AnytimeRegressor
rng, device = np.random.default_rng(0), xp.Device("device1")
X = rng.normal(size=(6000, 9))
y = X[:, 0] - X[:, 4] + rng.normal(size=6000)
for model, target in ((AnytimeRegressor(), y), (AnytimeClassifier(rule="omp"), (y > 0).astype(int))):
    assert get_tags(model).array_api_support
    wanted = model.fit(X, target).coef_
    with config_context(array_api_dispatch=True):
        XD, yD = xp.asarray(X, device=device), xp.asarray(target, device=device)
        weight = xp.asarray(np.ones(6000), device=device)
        found = model.fit(XD, yD, weight)
        assert found.predict(XD).device == device and type(found.predict(XD)) is type(XD)
        assert isinstance(found.coef_, np.ndarray) and isinstance(found.predict(X), np.ndarray)
        np.testing.assert_allclose(found.coef_, wanted, rtol=1e-9)
        assert found.score(XD, yD) > 0.5 or isinstance(model, AnytimeRegressor)
        mixed = model.fit(XD, target).coef_
        np.testing.assert_allclose(mixed, wanted, rtol=1e-9)
"""


def test_the_convention_of_scikit_learn():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", UNDER_DISPATCH],
        capture_output=True,
        text=True,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )
    assert run.returncode == 0, run.stderr
