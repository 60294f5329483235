"""Statistics of (X, y): all that a linear sequence needs from the data, wherever they are."""

from budgetline.statistics.columns import StandardisedColumns
from budgetline.statistics.moments import Moments

__all__ = ["Moments", "StandardisedColumns"]
