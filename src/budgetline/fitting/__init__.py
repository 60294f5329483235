"""From data and a recipe to a fitted model: :func:`fit_model` is the only place that learns one."""

from budgetline.fitting.fit_model import fit_model
from budgetline.fitting.recipe import Recipe

__all__ = ["Recipe", "fit_model"]
