"""Settings of the whole test run."""

import os

from hypothesis import settings

# Plots are drawn without a screen.
os.environ.setdefault("MPLBACKEND", "Agg")

# The same examples on every run: a red build must be the fault of the change it tests.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")
