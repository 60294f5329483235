"""Settings of the whole test run."""

from hypothesis import settings

# The same examples on every run: a red build must be the fault of the change it tests.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")
