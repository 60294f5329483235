"""Sequencing: the one greedy loop, its schedules, and the sequence it returns."""

from budgetline.sequencing.loop import greedy_order
from budgetline.sequencing.schedules import Doubling, Greedy, Schedule, as_schedule
from budgetline.sequencing.sequence import Sequence
from budgetline.sequencing.set_functions import greedy_sequence

__all__ = ["Doubling", "Greedy", "Schedule", "Sequence", "as_schedule", "greedy_order", "greedy_sequence"]
