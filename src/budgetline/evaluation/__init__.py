"""Evaluation: what each budget buys, the effects of columns, and comparisons of methods over all budgets."""

from budgetline.evaluation.budget_curves import budget_curve, curve_of_predictions, oracle_curve
from budgetline.evaluation.comparison import Comparison, compare, cross_val_budget_curve
from budgetline.evaluation.curve import BudgetCurve, plateau, stopping_cost, timeliness
from budgetline.evaluation.displays import BudgetCurveDisplay
from budgetline.evaluation.effects import Effects, effects_of
from budgetline.evaluation.metrics import NDCG, ndcg_score, with_positive

__all__ = [
    "NDCG",
    "BudgetCurve",
    "BudgetCurveDisplay",
    "Comparison",
    "Effects",
    "budget_curve",
    "compare",
    "cross_val_budget_curve",
    "curve_of_predictions",
    "effects_of",
    "ndcg_score",
    "oracle_curve",
    "plateau",
    "stopping_cost",
    "timeliness",
    "with_positive",
]
