"""What the paper and users compare with: the group lasso, penalised trees, importance per cost, forward selection."""

from budgetline.baselines.catboost_path import CatBoostPath
from budgetline.baselines.forward_selection import ForwardSelection
from budgetline.baselines.group_lasso import GroupLassoPath
from budgetline.baselines.importance_knapsack import ImportanceKnapsack
from budgetline.baselines.lightgbm_path import LightGBMPath

__all__ = ["CatBoostPath", "ForwardSelection", "GroupLassoPath", "ImportanceKnapsack", "LightGBMPath"]
