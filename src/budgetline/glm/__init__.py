"""Generalised linear models: families, engines, Newton's method and the objective of the greedy loop."""

from budgetline.glm.families import ConvexLoss

__all__ = ["ConvexLoss"]
