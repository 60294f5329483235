"""Run extractors in order under a deadline, and measure what they cost."""

from budgetline.runtime.answer import Answer, Fault
from budgetline.runtime.clock import Clock
from budgetline.runtime.early_exit import EarlyExit
from budgetline.runtime.extractors import Extractor
from budgetline.runtime.profiling import CostProfile, profile_costs
from budgetline.runtime.runner import AnytimeRunner

__all__ = ["Answer", "AnytimeRunner", "Clock", "CostProfile", "EarlyExit", "Extractor", "Fault", "profile_costs"]
