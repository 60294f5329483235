"""All public names; ``import budgetline`` loads them when the first of them is asked for."""

from budgetline.baselines import GroupLassoPath
from budgetline.data import open_data
from budgetline.encoding import Encoding
from budgetline.estimators import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRanker,
    AnytimeRankerCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    AnytimeSurvival,
    AnytimeSurvivalCV,
    StagedEstimators,
)
from budgetline.evaluation import (
    BudgetCurve,
    BudgetCurveDisplay,
    CoverageDisplay,
    ReliabilityDisplay,
    budget_curve,
    compare,
    cross_val_budget_curve,
    stopping_cost,
    timeliness,
)
from budgetline.groups import FeatureGroups
from budgetline.moments import Moments
from budgetline.optimality import Certificate, certify
from budgetline.persistence import load, save, to_linear_format, to_onnx
from budgetline.report import Report, make_report
from budgetline.runtime import AnytimeRunner, Extractor, profile_costs
from budgetline.sequencing import FixedOrder

__all__ = ["AnytimeClassifier", "AnytimeClassifierCV", "AnytimeRegressor", "AnytimeRegressorCV", "GroupLassoPath"]
__all__ += ["AnytimeRanker", "AnytimeRankerCV", "AnytimeSurvival", "AnytimeSurvivalCV"]
__all__ += ["Encoding", "FeatureGroups", "FixedOrder", "Moments", "StagedEstimators", "open_data"]
__all__ += ["BudgetCurve", "BudgetCurveDisplay", "CoverageDisplay", "ReliabilityDisplay", "budget_curve"]
__all__ += ["compare", "cross_val_budget_curve"]
__all__ += ["Certificate", "certify", "stopping_cost", "timeliness"]
__all__ += ["AnytimeRunner", "Extractor", "Report", "load", "make_report", "profile_costs", "save"]
__all__ += ["to_linear_format", "to_onnx"]
