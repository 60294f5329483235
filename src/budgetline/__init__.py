"""Learn the order in which to compute costly feature groups, and predict at any budget."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from budgetline.public import *  # noqa: F403
    from budgetline.public import __all__ as __all__

__version__ = "0.1.0"


def __getattr__(name: str) -> typing.Any:
    """Load everything on first use, so that the command line can start, and be interrupted, immediately."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'budgetline' has no attribute '{name}'")
    public = importlib.import_module("budgetline.public")
    globals().update({known: getattr(public, known) for known in public.__all__}, __all__=public.__all__)
    if name not in globals():
        raise AttributeError(f"module 'budgetline' has no attribute '{name}'")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *importlib.import_module("budgetline.public").__all__})
