"""Statistics of (X, y) that one pass adds up: moments, labels, tallies and samples of rows."""

from budgetline.moments.columns import StandardisedColumns
from budgetline.moments.moments import Moments

__all__ = ["Moments", "StandardisedColumns"]
