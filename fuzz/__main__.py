"""The command line of a campaign: ``python -m fuzz --seed 0 --minutes 60 --write docs/results/fuzz.md``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from budgetline.files import write_atomically
from fuzz import KERNELS, KINDS, trials
from fuzz.campaign import Campaign
from fuzz.page import page

FINDINGS = "\n## What earlier campaigns found"
"""The line that begins the handwritten part of the page."""


def _some(known: tuple[str, ...], text: str) -> tuple[str, ...]:
    wanted = tuple(text.split(","))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return wanted


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run a campaign, or replay files; return 1 if anything failed, or nothing was checked."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the same seed draws the same cases")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long; default: 60")
    parser.add_argument("--kinds", type=lambda text: _some(KINDS, text), default=KINDS, help="default: all")
    parser.add_argument("--kernels", type=lambda text: _some(KERNELS, text), default=KERNELS, help="default: all")
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time; default: 1")
    parser.add_argument("--write", type=Path, help="write the page of results here")
    parser.add_argument("--replay", type=Path, nargs="+", help="check these files of tests/regressions instead")
    arguments = parser.parse_args()
    if arguments.replay:
        for path in arguments.replay:
            trials.check(*trials.read(path))
        return 0
    campaign = Campaign(arguments.seed, arguments.minutes, arguments.kinds, arguments.kernels, _say)
    tally = campaign.run(arguments.jobs)
    text = page(tally, arguments.seed, arguments.minutes, arguments.kinds, arguments.kernels)
    print(text)
    if arguments.write:
        known = arguments.write.read_text(encoding="utf-8") if arguments.write.exists() else ""
        write_atomically(arguments.write, (text + known[known.find(FINDINGS) :] * (FINDINGS in known)).encode())
    return 0 if tally.cases and not tally.failures else 1


if __name__ == "__main__":
    sys.exit(main())
