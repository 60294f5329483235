"""How good a sequence is, proven; and better ones."""

from budgetline.optimality.certificate import Certificate
from budgetline.optimality.certify import certify
from budgetline.optimality.exact import BestSets, best_sequence, best_sets
from budgetline.optimality.improving import improve
from budgetline.optimality.panel import BestSet, best_set

__all__ = ["BestSet", "BestSets", "Certificate", "best_sequence", "best_set", "best_sets", "certify", "improve"]
