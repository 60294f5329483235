"""What the paper and users compare with: the group lasso."""

from budgetline.baselines.group_lasso import GroupLassoPath

__all__ = ["GroupLassoPath"]
