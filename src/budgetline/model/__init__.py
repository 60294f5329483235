"""What was fitted: models with a stage for every group that is bought."""

from budgetline.model.anytime import AnytimeModel, as_model

__all__ = ["AnytimeModel", "as_model"]
