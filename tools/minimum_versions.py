"""Print the oldest versions that pyproject.toml declares, as constraints for pip: ``make test-minimum`` installs them.

They are those of the library and of its extras for users; tools of the tests only have to go with them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(requirements: list[str]) -> Iterator[str]:
    """Yield ``name==version`` of every requirement, those of extras that are required in place of them."""
    for requirement in requirements:
        if extras := re.fullmatch(r"budgetline\[(.+)\]", requirement):
            for extra in extras[1].split(","):
                yield from pins(PROJECT["optional-dependencies"][extra])
        elif floor := re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement):
            yield f"{floor[1]}=={floor[2]}"
        else:
            raise ValueError(f"{requirement} in pyproject.toml has no lower bound, or more than that")


if __name__ == "__main__":
    print(*dict.fromkeys(pins([*PROJECT["dependencies"], "budgetline[all]"])), sep="\n")
