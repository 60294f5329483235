"""Random problems in two portions: a few for every run, the rest for ``make test-all``."""

import pytest


def seeds(few, all_of_them):
    """Return parameters for a test that goes through seeds: the first few, and the rest marked as slow."""
    return [
        pytest.param(range(few), id="few"),
        pytest.param(range(few, all_of_them), id="more", marks=pytest.mark.slow),
    ]
