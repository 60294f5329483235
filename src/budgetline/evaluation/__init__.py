"""Evaluation: how good a sequence is over all budgets."""

from budgetline.evaluation.timeliness import mean_over_budgets

__all__ = ["mean_over_budgets"]
