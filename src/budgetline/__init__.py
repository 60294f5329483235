"""Learn the order in which to compute costly feature groups, and predict at any budget."""

from budgetline.estimators import AnytimeRegressor, AnytimeRegressorCV
from budgetline.groups import FeatureGroups
from budgetline.sequencing import Doubling, Sequence, greedy_sequence
from budgetline.statistics import Moments

__version__ = "0.1.0"

__all__ = [
    "AnytimeRegressor",
    "AnytimeRegressorCV",
    "Doubling",
    "FeatureGroups",
    "Moments",
    "Sequence",
    "greedy_sequence",
]
