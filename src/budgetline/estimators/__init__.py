"""Estimators with scikit-learn's interface: parameters, checks, and methods that call functions of a model."""

from budgetline.estimators.classifier import AnytimeClassifier
from budgetline.estimators.cross_validation import AnytimeClassifierCV, AnytimeRegressorCV
from budgetline.estimators.regressor import AnytimeRegressor
from budgetline.estimators.rows_in_sets import AnytimeRanker, AnytimeRankerCV, AnytimeSurvival, AnytimeSurvivalCV
from budgetline.estimators.staged_estimators import StagedEstimators

__all__ = ["AnytimeClassifier", "AnytimeClassifierCV", "AnytimeRegressor", "AnytimeRegressorCV", "StagedEstimators"]
__all__ += ["AnytimeRanker", "AnytimeRankerCV", "AnytimeSurvival", "AnytimeSurvivalCV"]
