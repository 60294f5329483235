"""Cases that random trials have kept: every file in ``regressions`` is checked again. ``make fuzz`` finds more."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # where the trials are

from fuzz import KINDS, trials  # noqa: E402

FILES = sorted((ROOT / "tests" / "regressions").glob("*.json"))


@pytest.mark.quick_cases(10)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_that_was_kept_passes(path):
    trials.check(*trials.read(path))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_trial_is_replayed_and_drawn_from_its_seed_alone(kind):
    module = trials.module_of(kind)
    assert [module.draw(seed) for seed in range(50)] == [module.draw(seed) for seed in range(50)]
    if kind not in {trials.read(path)[0] for path in FILES}:  # a kind that has never failed
        for seed in range(5):
            trials.check(kind, module.draw(seed))
