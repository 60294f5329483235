"""All public names; ``import budgetline`` loads them when the first of them is asked for."""

from budgetline.estimators import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    GroupLassoPath,
)
from budgetline.evaluation import (
    BudgetCurve,
    BudgetCurveDisplay,
    best_sequence,
    best_sets,
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
from budgetline.optimality import Certificate, best_set, certify, improve
from budgetline.persistence import load, save, to_onnx
from budgetline.report import Summary, summarise
from budgetline.runtime import AnytimeRunner, EarlyExit, Extractor, profile_costs
from budgetline.sequencing import Doubling, FixedOrder, RandomOrder, Sequence, greedy_sequence
from budgetline.statistics import Moments, Source, open_source

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
    "Moments",
    "RandomOrder",
    "Sequence",
    "Source",
    "Summary",
    "best_sequence",
    "best_set",
    "best_sets",
    "budget_curve",
    "certify",
    "compare",
    "cross_val_budget_curve",
    "greedy_sequence",
    "improve",
    "load",
    "open_source",
    "oracle_curve",
    "plateau",
    "profile_costs",
    "save",
    "stopping_cost",
    "summarise",
    "timeliness",
    "to_onnx",
]
