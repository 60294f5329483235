"""Sequencing: the one greedy loop, its schedules, and the sequence it returns."""

from budgetline.sequencing.schedules import Doubling, FixedOrder, RandomOrder
from budgetline.sequencing.sequence import GroupSequence
from budgetline.sequencing.set_functions import greedy_sequence

__all__ = ["Doubling", "FixedOrder", "GroupSequence", "RandomOrder", "greedy_sequence"]
