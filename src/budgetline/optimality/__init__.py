"""Proofs of how close a sequence is to optimal; best sets, the best order of a few groups, what to buy next."""

from budgetline.optimality.certificate import Certificate
from budgetline.optimality.certify import certify
from budgetline.optimality.exact import best_sequence
from budgetline.optimality.known_budgets import plan_curve
from budgetline.optimality.next_groups import NextGroups
from budgetline.optimality.plan import Plan
from budgetline.optimality.sets import BestSet, best_set

__all__ = ["BestSet", "Certificate", "NextGroups", "Plan", "best_sequence", "best_set", "certify", "plan_curve"]
