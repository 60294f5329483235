"""How good a sequence is, proven; and better ones."""

from budgetline.optimality.certificate import Certificate
from budgetline.optimality.certify import certify
from budgetline.optimality.improving import improve
from budgetline.optimality.panel import BestSet, best_set

__all__ = ["BestSet", "Certificate", "best_set", "certify", "improve"]
