"""One trial: draw a case of a kind, check it, and write it down if it failed."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz import KINDS

Case = dict[str, Any]


def module_of(kind: str) -> ModuleType:
    """Return the module of a kind of trial."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}, known are: {', '.join(KINDS)}")
    return import_module(f"fuzz.{kind}")


def check(kind: str, case: Case) -> None:
    """Raise an error if the library is wrong about a case.

    The library may warn, of lost digits for example. Warnings of NumPy are errors: nothing may overflow unnoticed.
    """
    module = module_of(kind)
    from scipy.linalg import LinAlgWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", LinAlgWarning)
        module.check(case)


def prepare(kind: str) -> None:
    """Import a kind, and prepare what its cases need."""
    module = module_of(kind)
    if hasattr(module, "prepare"):
        module.prepare()


def kept(kind: str, case: Case) -> Case:
    """Return a case with all that is needed to repeat it, such as the bytes of a mutated file."""
    module = module_of(kind)
    found: Case = module.kept(case) if hasattr(module, "kept") else case
    return found


def smaller(kind: str, case: Case) -> list[Case]:
    """Return simpler cases that may fail in the same way, the simplest first."""
    module = module_of(kind)
    return list(module.smaller(case)) if hasattr(module, "smaller") else []


def read(path: Path) -> tuple[str, Case]:
    """Return kind and case from a file of ``tests/regressions``."""
    record = json.loads(path.read_text(encoding="utf-8"))
    return record["kind"], record["case"]


def written(kind: str, case: Case, found: str, kernel: str) -> str:
    """Return the text of a file of ``tests/regressions``."""
    return json.dumps({"kind": kind, "case": case, "found": found, "kernel": kernel}, indent=1) + "\n"
