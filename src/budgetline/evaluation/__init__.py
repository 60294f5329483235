"""Evaluation: what each budget buys, the effects of columns, and comparisons of methods over all budgets."""

from budgetline.evaluation.budget_curves import budget_curve
from budgetline.evaluation.cascades import Cascade, cascade, cascades
from budgetline.evaluation.comparison import Comparison, compare, cross_val_budget_curve
from budgetline.evaluation.curve import BudgetCurve, stopping_cost, timeliness
from budgetline.evaluation.displays import BudgetCurveDisplay
from budgetline.evaluation.effects import Effects, effects_of
from budgetline.evaluation.rankings import map_score, ndcg_score
from budgetline.evaluation.reliability import CoverageDisplay, ReliabilityDisplay
from budgetline.evaluation.survival import concordance, integrated_brier, survival_function

__all__ = ["BudgetCurve", "BudgetCurveDisplay", "CoverageDisplay", "ReliabilityDisplay", "budget_curve", "compare"]
__all__ += ["Cascade", "Comparison", "Effects", "cascade", "cascades", "cross_val_budget_curve", "effects_of"]
__all__ += ["concordance", "integrated_brier", "map_score", "ndcg_score", "survival_function"]
__all__ += ["stopping_cost", "timeliness"]
