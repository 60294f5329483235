"""Estimators with scikit-learn's interface: thin façades over statistics, the loop and staged models."""

from budgetline.estimators.regressor import AnytimeRegressor
from budgetline.estimators.regressor_cv import AnytimeRegressorCV

__all__ = ["AnytimeRegressor", "AnytimeRegressorCV"]
