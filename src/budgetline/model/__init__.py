"""From statistics to a fitted anytime model."""

from budgetline.model.anytime import AnytimeModel, as_model

__all__ = ["AnytimeModel", "as_model"]
