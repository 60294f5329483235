"""The examples in the docstrings of modules that experiments share run as written."""

import doctest
import importlib

import pytest

MODULES = {
    "baselines.catboost_path": "catboost",
    "baselines.forward_selection": None,
    "baselines.importance_knapsack": None,
    "baselines.lightgbm_path": "lightgbm",
    "exact_search": None,
    "paper_shapes": None,
    "set_functions": None,
}
"""Each module, and the package that its example needs."""


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    if MODULES[name]:
        pytest.importorskip(MODULES[name])
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed
