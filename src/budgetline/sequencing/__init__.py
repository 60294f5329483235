"""Sequencing: the one greedy loop, its schedules, and the sequence it returns."""

from budgetline.sequencing.loop import greedy_order
from budgetline.sequencing.schedules import (
    CheapestFirst,
    Doubling,
    FixedOrder,
    Greedy,
    RandomOrder,
    Schedule,
    as_schedule,
)
from budgetline.sequencing.sequence import GroupSequence
from budgetline.sequencing.set_functions import greedy_sequence

__all__ = [
    "CheapestFirst",
    "Doubling",
    "FixedOrder",
    "Greedy",
    "GroupSequence",
    "RandomOrder",
    "Schedule",
    "as_schedule",
    "greedy_order",
    "greedy_sequence",
]
