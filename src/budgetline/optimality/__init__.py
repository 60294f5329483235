"""Functions of a fitted model: how close its order is to optimal, what a known budget buys, what to buy next."""

from budgetline.bounds.certificate import Certificate
from budgetline.optimality.certify import certify
from budgetline.optimality.next_groups import NextGroups, next_groups
from budgetline.optimality.plan import Plan, plan, plans

__all__ = ["Certificate", "NextGroups", "Plan", "certify", "next_groups", "plan", "plans"]
