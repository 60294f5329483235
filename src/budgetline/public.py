"""All public names; ``import budgetline`` loads them when the first of them is asked for."""

from budgetline.baselines import GroupLassoPath
from budgetline.data import Source, open_source
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
    oracle_curve,
    plateau,
    stopping_cost,
    timeliness,
)
from budgetline.groups import FeatureGroups
from budgetline.objectives.families import ConvexLoss
from budgetline.optimality import Certificate, best_sequence, best_set, certify
from budgetline.persistence import load, save, to_onnx
from budgetline.report import Report, make_report
from budgetline.runtime import AnytimeRunner, EarlyExit, Extractor, profile_costs
from budgetline.sequencing import Doubling, FixedOrder, GroupSequence, RandomOrder, greedy_sequence
from budgetline.statistics import Moments

__all__ = [
    "AnytimeClassifier",
    "AnytimeClassifierCV",
    "AnytimeRegressor",
    "AnytimeRegressorCV",
    "AnytimeRunner",
    "BudgetCurve",
    "BudgetCurveDisplay",
    "Certificate",
    "ConvexLoss",
    "Doubling",
    "EarlyExit",
    "Extractor",
    "FeatureGroups",
    "FixedOrder",
    "GroupLassoPath",
    "GroupSequence",
    "Moments",
    "RandomOrder",
    "Report",
    "Source",
    "best_sequence",
    "best_set",
    "budget_curve",
    "certify",
    "compare",
    "cross_val_budget_curve",
    "greedy_sequence",
    "load",
    "make_report",
    "open_source",
    "oracle_curve",
    "plateau",
    "profile_costs",
    "save",
    "stopping_cost",
    "timeliness",
    "to_onnx",
]
