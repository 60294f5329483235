"""Statistics of (X, y): all that a linear sequence needs to know about the data, wherever they are."""

from budgetline.statistics.columns import StandardisedColumns
from budgetline.statistics.moments import Moments
from budgetline.statistics.opening import open_source
from budgetline.statistics.sources import Source

__all__ = ["Moments", "Source", "StandardisedColumns", "open_source"]
