"""Packages that are not part of the core: each belongs to an extra, which errors name."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def install(extra: str) -> str:
    """Return the command that installs an extra: there is no release yet, so it runs in a clone."""
    return f"in a clone of budgetline, pip install '.[{extra}]'"


def imported(package: str, needs: str, extra: str) -> ModuleType:
    """Import a package; an ImportError says what needs it, such as "plots need matplotlib", and how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{needs}: {install(extra)}") from error
