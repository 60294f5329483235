"""Settings of the whole test run."""

import os
from collections import defaultdict
from math import sqrt

import pytest
from hypothesis import settings

# Plots are drawn without a screen.
os.environ.setdefault("MPLBACKEND", "Agg")

# The same examples on every run: a red build must be the fault of the change it tests.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave the quick tests ``n`` cases of a test marked ``quick_cases(n)``; the others are slow.

    The cases are those with the smallest fractional parts of k φ, which fall evenly on every parameter, whatever the
    number of its values.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("quick_cases") and not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for group in cases.values():
        places = sorted(range(len(group)), key=lambda k: k * (sqrt(5) - 1) / 2 % 1)
        for k in places[group[0].get_closest_marker("quick_cases").args[0] :]:
            group[k].add_marker(pytest.mark.slow)
