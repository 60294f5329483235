"""Learning from moments, which determine a model of squared error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from budgetline.arrays import Float
from budgetline.data.rows import Rows
from budgetline.fitting.linear import fit_moments
from budgetline.fitting.open_settings import settled_by_moments
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.training import Fitted, Fold, Task
from budgetline.glm.families import SquaredError
from budgetline.groups import Layout
from budgetline.moments.moments import Moments


@dataclass(frozen=True)
class MomentsTraining:
    """Moments of all rows, or one for each fold.

    Attributes
    ----------
    layout : Layout
    parts : tuple of Moments
        Moments of the columns that the layout reads.
    by_rows : function, or None
        Returns the fold with the rows of the moments, if available: used if the moments are too ill conditioned.
    n_passes : int or None
        Number of passes over a source for the moments.
    """

    layout: Layout
    parts: tuple[Moments, ...]
    by_rows: Callable[[], Fold] | None = None
    n_passes: int | None = None
    small = False

    @property
    def task(self) -> Task:
        """Squared error."""
        return Task(SquaredError(), target_shape=self.parts[0].target_shape)

    def gathered(self) -> MomentsTraining:
        """Return the moments."""
        return self

    @property
    def total(self) -> Moments:
        """The moments of all rows."""
        return reduce(add, self.parts)

    def fit(self, recipe: Recipe) -> Fitted:
        """Fit from the sum of the moments."""
        total = self.total
        recipe = settled_by_moments(recipe, total)
        stages, doubt = fit_moments(total, recipe)
        if self.by_rows is not None and doubt > total.eps**0.5:
            return self.by_rows().training.fit(recipe)
        return Fitted(stages, total, recipe, total, doubt, self.learned)

    @property
    def learned(self) -> dict[str, object]:
        """What a fit keeps besides the model: the number of passes."""
        return {} if self.n_passes is None else {"n_passes_": self.n_passes}

    def fixed(self, cv: object, groups: object = None) -> object:
        """Return cv: the parts are the folds."""
        return cv

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Hold out one part after another."""
        for k, test in enumerate(self.parts):
            yield Fold(replace(self, parts=self.parts[:k] + self.parts[k + 1 :]), held_out_errors(test))


def held_out_errors(test: Moments, by_rows: Callable[[], Fold] | None = None) -> Callable[[Fitted], Float]:
    """Return the function that gives mean squared errors (1 + stages,) on the sample of the moments.

    Models that were fitted on rows, because moments do not determine them, are evaluated on rows.
    """

    def losses(fitted: Fitted) -> Float:
        if by_rows is not None and isinstance(fitted.data, Rows):
            return by_rows().losses(fitted)
        return np.asarray(fitted.stages.mean_squared_errors(test).sum(axis=1))

    return losses


def no_empty_fold(parts: Sequence[Moments | None]) -> tuple[Moments, ...]:
    """Return the moments of folds, if every fold has some."""
    if None in parts:
        raise ValueError(f"fold {parts.index(None)} of {len(parts)} has no row of positive weight: take fewer folds")
    return tuple(part for part in parts if part is not None)
