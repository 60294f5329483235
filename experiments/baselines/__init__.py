"""Methods that budgetline is compared with: penalised trees, importance per cost, forward selection of groups.

Every one of them is an estimator with a ``budget``, as ``budgetline.StagedEstimators`` is.
"""

from .catboost_path import CatBoostPath
from .forward_selection import ForwardSelection
from .importance_knapsack import ImportanceKnapsack
from .lightgbm_path import LightGBMPath

__all__ = ["CatBoostPath", "ForwardSelection", "ImportanceKnapsack", "LightGBMPath"]
