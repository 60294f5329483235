"""The model of a set of groups as an :class:`AnytimeModel` of its own: one stage per group of the set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.fitting.linear import fit_gram, warn_from_moments
from budgetline.fitting.recipe import Recipe
from budgetline.model.anytime import AnytimeModel
from budgetline.model.stages import LinearModel, StagedModel
from budgetline.model.subsets import GeneralisedSubset
from budgetline.objectives.gram import Gram
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import FixedOrder
from budgetline.sequencing.sequence import GroupSequence


def with_stages(model: AnytimeModel, stages: StagedModel) -> AnytimeModel:
    """Return the model with the stages of a set of its groups; its settings say that the order is given."""
    limits = {"max_cost": None, "max_groups": None, "min_gain": 0.0, "start": ()}
    given = limits | {"schedule": FixedOrder(stages.sequence.groups)}
    settings = {name: given.get(name, value) for name, value in model.settings.items()}
    return replace(model, stages=stages, settings=settings)


def known_columns(model: AnytimeModel) -> tuple[Positions, ...]:
    """Return the columns of every group, among those that are read, of which a model of squared error knows C and b.

    Without moments a model knows nothing of the groups after the end of its sequence: one column stands for each.
    """
    if model.moments is not None:
        return model.layout.position
    chosen = set(model.sequence.order.tolist())
    return tuple(own if g in chosen else own[:1] for g, own in enumerate(model.layout.position))


def planned_from_gram(model: AnytimeModel, gram: Gram, order: list[int]) -> AnytimeModel:
    """Fit least squares to groups of a model in this order, from C and b of the columns that it knows."""
    layout, stages, schedule = model.layout, model.stages, FixedOrder(order)
    recipe = Recipe(
        known_columns(model), model.groups.names, model.groups.prices, "fr", schedule, Limits(), True, model.alpha,
        model.weights,
    )  # fmt: skip
    if model.moments is not None:  # who made C and b from them has warned if they are ill conditioned
        found, _ = fit_gram(gram, recipe, *model.moments.standardisation(model.weights))
    else:
        units = stages.mean[layout.read], stages.scale[layout.read], stages.null_intercept
        found, doubt = fit_gram(gram, recipe, *units)
        warn_from_moments(doubt, gram.eps, model.alpha)
    return with_stages(model, found.embedded(layout.read, layout.n_features))


def planned_approximately(model: AnytimeModel, chosen: Mask, value_of: Callable[[Mask], float]) -> AnytimeModel:
    """Return the models of the groups at these steps of a sequence, in its order, without the data.

    Prefixes of the sequence are exact; other sets are fitted to the population that the model keeps. ``value_of``
    returns F of the groups at some steps.
    """
    stages, sequence = model.stages, model.sequence
    steps = np.flatnonzero(chosen)
    prefixes = [np.isin(np.arange(chosen.size), steps[: j + 1]) for j in range(steps.size)]
    models = [stages.of_steps(prefix) for prefix in prefixes]
    widths = np.diff(stages.column_ends, prepend=0)
    values = np.append(0.0, [value_of(prefix) for prefix in prefixes])
    order = sequence.order[steps]
    names, costs = tuple(sequence.groups[j] for j in steps), model.groups.prices.steps(order)
    assert isinstance(stages.subset, GeneralisedSubset)
    found = replace(
        stages,
        sequence=GroupSequence(order, names, costs, np.diff(values), sequence.null_value),
        coef_path=np.array([each.coef for each in models]).reshape(steps.size, *stages.coef_path.shape[1:]),
        intercept_path=np.array([each.intercept for each in models]).reshape(steps.size, stages.null_intercept.size),
        columns=stages.columns[np.repeat(chosen, widths)],
        column_ends=np.cumsum(widths[steps]),
        subset=stages.subset.restricted(chosen, widths),
    )
    return with_stages(model, found)


def with_sets(
    model: AnytimeModel, sets: Sequence[LinearModel], names: tuple[str, ...], costs: Sequence[float] | Float
) -> AnytimeModel:
    """Return a model whose stages are the models of sets of groups, at increasing costs, to be judged on data.

    The sets need not contain one another, so every stage reads the columns of all of them, and of the model.
    """
    stages, count = model.stages, len(sets)
    columns = np.unique(np.concatenate([stages.columns, *(each.columns for each in sets)]))
    paid = np.diff(np.asarray(costs, dtype=np.float64), prepend=0.0)
    found = replace(
        stages,
        sequence=GroupSequence(np.arange(count), names, paid, np.zeros(count), stages.sequence.null_value),
        coef_path=np.array([each.coef for each in sets]).reshape(count, *stages.coef_path.shape[1:]),
        intercept_path=np.array([each.intercept for each in sets]).reshape(count, stages.null_intercept.size),
        columns=columns,
        column_ends=np.full(count, columns.size, dtype=np.intp),
    )
    return replace(model, stages=found)
