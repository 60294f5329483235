"""Estimators with scikit-learn's interface: thin façades over statistics, the loop and staged models."""

from budgetline.estimators.classifier import AnytimeClassifier
from budgetline.estimators.classifier_cv import AnytimeClassifierCV
from budgetline.estimators.regressor import AnytimeRegressor
from budgetline.estimators.regressor_cv import AnytimeRegressorCV

__all__ = ["AnytimeClassifier", "AnytimeClassifierCV", "AnytimeRegressor", "AnytimeRegressorCV"]
