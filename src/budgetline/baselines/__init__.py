"""The paper's Sparse baseline: the order in which groups enter a group lasso."""

from budgetline.baselines.group_lasso import GroupLassoPath

__all__ = ["GroupLassoPath"]
