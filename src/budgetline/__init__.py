"""Learn the order in which to compute costly feature groups, and predict at any budget."""

from budgetline.estimators import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, AnytimeRegressorCV
from budgetline.groups import FeatureGroups
from budgetline.objectives.families import ConvexLoss
from budgetline.sequencing import Doubling, FixedOrder, RandomOrder, Sequence, greedy_sequence
from budgetline.statistics import Moments

__version__ = "0.1.0"

__all__ = [
    "AnytimeClassifier",
    "AnytimeClassifierCV",
    "AnytimeRegressor",
    "AnytimeRegressorCV",
    "ConvexLoss",
    "Doubling",
    "FeatureGroups",
    "FixedOrder",
    "Moments",
    "RandomOrder",
    "Sequence",
    "greedy_sequence",
]
