"""What all data have in common that a recipe can be fitted on: rows in memory, moments, or a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from budgetline.arrays import Array, Float
from budgetline.data.rows import Rows
from budgetline.fitting.recipe import Recipe
from budgetline.glm.families import Family, SquaredError
from budgetline.glm.set_families import SetFamily
from budgetline.groups import Layout
from budgetline.messages import shown
from budgetline.model.stages import StagedModel
from budgetline.moments.moments import Moments


class Task(NamedTuple):
    """What is learned from the columns.

    Attributes
    ----------
    family : Family or SetFamily
        The loss.
    tol : float
        Tolerance of the gradient, for losses other than squared error.
    target_shape : () or (P,)
        Shape of one target.
    classes : array of shape (P,), or None
        Classes of a classifier; its targets are their indicators.
    """

    family: Family | SetFamily
    tol: float = 1e-10
    target_shape: tuple[int, ...] = ()
    classes: Array | None = None

    @property
    def squared_error(self) -> bool:
        """Whether the loss is squared error, for which moments suffice."""
        return isinstance(self.family, SquaredError)


class Fitted(NamedTuple):
    """Staged models, the data that they were fitted on, and the moments of these data, if there are any.

    ``recipe`` has the ridge constant and the penalties that were given or found. ``doubt`` estimates the relative error
    of the coefficients; it is zero if rows were available, so that the coefficients are as accurate as the data allow.
    ``learned`` are further fitted attributes of the estimator, by name.
    """

    stages: StagedModel
    data: Rows | Moments
    recipe: Recipe
    moments: Moments | None = None
    doubt: float = 0.0
    learned: Mapping[str, object] = MappingProxyType({})


class Fold(NamedTuple):
    """Training data of a fold, and a function that returns the held-out losses (1 + stages,) of a fitted model."""

    training: Training
    losses: Callable[[Fitted], Float]


class Training(Protocol):
    """Data that a recipe can be fitted on: the columns that a layout reads, and the task for their targets."""

    @property
    def layout(self) -> Layout: ...  # noqa: D102

    @property
    def task(self) -> Task: ...  # noqa: D102

    @property
    def small(self) -> bool:
        """Whether to fit folds in parallel instead of one after another."""
        ...

    def gathered(self) -> Training:
        """Return the moments, if the loss needs nothing else and the rows have not been reduced to them yet."""
        ...

    def fit(self, recipe: Recipe) -> Fitted:
        """Learn the sequence and the model of every prefix."""
        ...

    def fixed(self, cv: object, groups: object = None) -> object:
        """Return folds that are the same at every use; ``cv`` may draw them at random.

        Rows with the same label in ``groups`` (n,) are in the same fold.
        """
        ...

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Yield the folds of a cross-validation."""
        ...


def check_mass(mass: Array, classes: Array, fold: int) -> None:
    """Raise an error if a class has no weight (P,) in the training set of a fold."""
    if np.any(mass <= 0):
        missing = shown(classes.tolist()[int(np.argmin(mass))])
        raise ValueError(f"class {missing} is missing in the training set of fold {fold}; use fewer folds")
