"""Run extractors in order under a deadline, and measure what they cost."""

from budgetline.runtime.clock import Clock
from budgetline.runtime.early_exit import EarlyExit
from budgetline.runtime.extractors import Extractor
from budgetline.runtime.prediction import Fault, Prediction, Ranking
from budgetline.runtime.profiling import CostProfile, profile_costs
from budgetline.runtime.runner import AnytimeRunner

__all__ = ["AnytimeRunner", "Clock", "CostProfile", "EarlyExit", "Extractor", "Fault", "Prediction", "Ranking"]
__all__ += ["profile_costs"]
