"""The models of a plan: one stage per group of its set, fitted in one of three ways.

- From C and b, for squared error: exact.
- From the population that a model of another loss keeps of its training rows: exact for prefixes of the sequence,
  otherwise an approximation.
- To the training data, if these are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from budgetline.arrays import Mask
from budgetline.fitting.fit_model import fit_model
from budgetline.fitting.linear import fit_gram, warn_from_moments
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.training import RowsTraining
from budgetline.leastsquares.gram import Gram
from budgetline.messages import some
from budgetline.model.anytime import AnytimeModel
from budgetline.model.stages import StagedModel
from budgetline.model.subsets import GeneralisedSubset
from budgetline.optimality.gains import estimated_value
from budgetline.optimality.quadratic import known_columns
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import FixedOrder
from budgetline.sequencing.sequence import GroupSequence

FitToData = Callable[[tuple[str, ...]], AnytimeModel]
"""Fits the models of groups, in this order, to data."""


class TrainingData(NamedTuple):
    """The data that a model was fitted to, in memory and checked, and how it was fitted."""

    rows: RowsTraining
    recipe: Recipe


def from_gram(model: AnytimeModel, gram: Gram, order: list[int]) -> AnytimeModel:
    """Fit least squares to groups of a model in this order, from C and b of the columns that it knows."""
    layout, stages, schedule = model.layout, model.stages, FixedOrder(order)
    recipe = Recipe(
        known_columns(model), model.groups.names, model.groups.prices, "fr", schedule, Limits(), True, model.alpha,
        model.weights,
    )  # fmt: skip
    if model.moments is not None:  # Quadratic.of_model has warned if they are ill conditioned
        found, _ = fit_gram(gram, recipe, *model.moments.standardisation(model.weights))
    else:
        units = stages.mean[layout.read], stages.scale[layout.read], stages.null_intercept
        found, doubt = fit_gram(gram, recipe, *units)
        warn_from_moments(doubt, gram.eps, model.alpha)
    return _with_stages(model, found.embedded(layout.read, layout.n_features))


def from_population(model: AnytimeModel, chosen: Mask) -> AnytimeModel:
    """Return the models of the groups at these steps (stages,) of a sequence, in its order, without the data.

    Prefixes of the sequence are exact; other sets are fitted to the population that the model keeps.
    """
    stages, sequence = model.stages, model.sequence
    assert isinstance(stages.subset, GeneralisedSubset)
    steps = np.flatnonzero(chosen)
    prefixes = [np.isin(np.arange(chosen.size), steps[: j + 1]) for j in range(steps.size)]
    models = [stages.of_steps(prefix) for prefix in prefixes]
    widths = np.diff(stages.column_ends, prepend=0)
    values = np.append(0.0, [estimated_value(model, prefix) for prefix in prefixes])
    order = sequence.order[steps]
    names, costs = tuple(sequence.groups[j] for j in steps), model.groups.prices.steps(order)
    found = replace(
        stages,
        sequence=GroupSequence(order, names, costs, np.diff(values), sequence.null_value),
        coef_path=np.array([each.coef for each in models]).reshape(steps.size, *stages.coef_path.shape[1:]),
        intercept_path=np.array([each.intercept for each in models]).reshape(steps.size, stages.null_intercept.size),
        columns=stages.columns[np.repeat(chosen, widths)],
        column_ends=np.cumsum(widths[steps]),
        subset=stages.subset.restricted(chosen, widths),
    )
    return _with_stages(model, found)


def refit_to(model: AnytimeModel, data: TrainingData) -> FitToData:
    """Return the function that fits groups of a model to its training data, in a given order."""
    rows, recipe = data
    if not np.array_equal(rows.layout.read, model.layout.read) or rows.family.loss != model.family.loss:
        raise ValueError("groups or loss have been changed since the fit: fit again")
    if model.classes is not None and not np.array_equal(np.asarray(rows.classes), model.classes):
        raise ValueError(f"y has other classes than the model, which knows {some(map(str, model.classes))}")

    def refitted(groups: tuple[str, ...]) -> AnytimeModel:
        exact = fit_model(rows, recipe.with_order(FixedOrder(groups), model.alpha))
        return replace(_with_stages(model, exact.stages), moments=exact.moments)

    return refitted


def _with_stages(model: AnytimeModel, stages: StagedModel) -> AnytimeModel:
    """Return the model with the stages of a set of its groups; its settings say that the order is given."""
    limits = {"max_cost": None, "max_groups": None, "min_gain": 0.0, "start": ()}
    given = limits | {"schedule": FixedOrder(stages.sequence.groups)}
    settings = {name: given.get(name, value) for name, value in model.settings.items()}
    return replace(model, stages=stages, settings=settings)
