"""From data and a recipe to a fitted model: ``fit_model`` is the only place that learns one."""

from budgetline.fitting.fit_model import fit_model
from budgetline.fitting.moments_training import MomentsTraining
from budgetline.fitting.recipe import FoldSearch, Recipe
from budgetline.fitting.rows_training import RowsTraining
from budgetline.fitting.source_training import SourceTraining
from budgetline.fitting.training import Fitted, Fold, Task, Training

__all__ = ["Fitted", "Fold", "FoldSearch", "MomentsTraining", "Recipe", "RowsTraining", "SourceTraining", "Task"]
__all__ += ["Training", "fit_model"]
