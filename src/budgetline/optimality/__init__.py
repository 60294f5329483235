"""Proofs of how close a sequence is to optimal; best sets for known budgets; the best order of a few groups."""

from budgetline.optimality.certificate import Certificate
from budgetline.optimality.certify import BestSet, best_set, certify
from budgetline.optimality.exact import best_sequence

__all__ = ["BestSet", "Certificate", "best_sequence", "best_set", "certify"]
