"""Objectives: what a group would gain, and what choosing it changes."""

from budgetline.objectives.families import ConvexLoss

__all__ = ["ConvexLoss"]
