"""Sequencing: the one greedy loop, its schedules, and the sequence it returns."""

from budgetline.sequencing.schedules import Doubling, FixedOrder, RandomOrder
from budgetline.sequencing.sequence import GroupSequence

__all__ = ["Doubling", "FixedOrder", "GroupSequence", "RandomOrder"]
