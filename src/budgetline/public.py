"""All public names; ``import budgetline`` loads them when the first of them is asked for."""

from budgetline.baselines import GroupLassoPath
from budgetline.data import open_source
from budgetline.estimators import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
)
from budgetline.evaluation import (
    BudgetCurve,
    BudgetCurveDisplay,
    budget_curve,
    compare,
    cross_val_budget_curve,
    stopping_cost,
    timeliness,
)
from budgetline.groups import FeatureGroups
from budgetline.model import AnytimeModel
from budgetline.optimality import Certificate, best_sequence, best_set, certify
from budgetline.persistence import load, save, to_onnx
from budgetline.report import Report, make_report
from budgetline.runtime import AnytimeRunner, Extractor, profile_costs
from budgetline.sequencing import FixedOrder, GroupSequence
from budgetline.statistics import Moments

__all__ = [
    "AnytimeClassifier",
    "AnytimeClassifierCV",
    "AnytimeModel",
    "AnytimeRegressor",
    "AnytimeRegressorCV",
    "AnytimeRunner",
    "BudgetCurve",
    "BudgetCurveDisplay",
    "Certificate",
    "Extractor",
    "FeatureGroups",
    "FixedOrder",
    "GroupLassoPath",
    "GroupSequence",
    "Moments",
    "Report",
    "best_sequence",
    "best_set",
    "budget_curve",
    "certify",
    "compare",
    "cross_val_budget_curve",
    "load",
    "make_report",
    "open_source",
    "profile_costs",
    "save",
    "stopping_cost",
    "timeliness",
    "to_onnx",
]
