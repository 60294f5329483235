"""What sets of groups explain, from what a fitted model keeps: no training rows are needed.

Squared error: exact, from the moments, or from the factor of the sequence. Other losses: models of the sets are fitted
to the population that the model keeps, see `population`; or the risk is approximated by a quadratic around a stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.bounds.problem import Quadratic
from budgetline.groups import FeatureGroups
from budgetline.leastsquares.gram import Gram
from budgetline.model.anytime import AnytimeModel
from budgetline.model.stages import StagedModel
from budgetline.model.subsets import GeneralisedSubset, LinearSubset
from budgetline.sequencing.sequence import GroupSequence

# -- quadratic problems ------------------------------------------------------------------------------------------------


def problem_of(model: AnytimeModel) -> Quadratic:
    """Return the problem of a fitted model of squared error, from its moments, or else from its factor.

    Over sets of rows the factor is that of the quadratic model of the risk around the last stage.
    """
    if model.moments is None:
        subset = model.stages.subset
        assert isinstance(subset, LinearSubset)
        return _of_columns(model, subset.U.T @ subset.U, subset.U.T @ subset.z, 1)
    weights, order = model.weights, np.concatenate(model.layout.position)
    gram = Gram.of(model.moments, order, model.alpha, weights)
    own = None if weights is None else weights[order]
    return Quadratic(gram, _sizes(model.layout.position), design_groups(model), model.alpha, own)


def problem_around(model: AnytimeModel, stage: int) -> Quadratic:
    """Return the quadratic approximation of the risk of a loss other than squared error, around a fitted stage.

    With θ* the stage, g and H the derivatives of the risk of the population that the model keeps, and t = Hθ* − g, the
    risk is about t'θ − ½θ'Hθ below a constant. Every set has the intercepts 0; without them

        C = H_xx − H_x0 H_00⁻¹ H_0x,    b = t_x − H_x0 H_00⁻¹ t_0.
    """
    subset = model.stages.subset
    assert isinstance(subset, GeneralisedSubset)
    expansion = subset.expansion(*model.stages.standardised(model.stages.at_stage(stage)))
    H, t, Q = expansion.H, (expansion.H @ expansion.theta - expansion.gradient)[:, None], expansion.n_scores
    level = np.linalg.solve(H[:Q, :Q], np.hstack([H[:Q, Q:], t[:Q]]))
    C = H[Q:, Q:] - H[Q:, :Q] @ level[:, :-1]
    return _of_columns(model, C / 2 + C.T / 2, t[Q:] - H[Q:, :Q] @ level[:, -1:], Q)


def problems_for(model: AnytimeModel, budgets: list[float]) -> Iterator[tuple[Quadratic, list[int]]]:
    """Yield the problems of a model, less its correction, and the positions of the budgets to search each of them for.

    With a quadratic risk it is one problem; for other losses there are up to three for each budget: around the empty
    stage, the one that the budget buys, and the last.
    """
    if isinstance(model.stages.subset, LinearSubset):
        yield replace(problem_of(model), penalties=model.penalties), list(range(len(budgets)))
        return
    asked: dict[int, list[int]] = {}
    for k, budget in enumerate(budgets):
        for stage in sorted({0, model.sequence.stage_at(budget), model.n_stages}):
            asked.setdefault(stage, []).append(k)
    for stage, own in asked.items():
        yield replace(problem_around(model, stage), penalties=model.penalties), own


def known_groups(model: AnytimeModel) -> Mask:
    """Return the groups that the model knows, shape (J,): with moments all, otherwise those of its sequence."""
    known = np.full(len(model.groups), model.moments is not None)
    known[model.sequence.order] = True
    return known


def known_columns(model: AnytimeModel) -> tuple[Positions, ...]:
    """Return the columns of every group, among those that are read; a group that is not known has one column."""
    known = known_groups(model).tolist()
    return tuple(own if there else own[:1] for there, own in zip(known, model.layout.position, strict=True))


def design_groups(model: AnytimeModel) -> FeatureGroups:
    """Return the groups of the columns that C and b are about: with an encoding the design columns, by position."""
    groups = model.groups
    if model.encoding is None:
        return groups
    columns = {name: own.tolist() for name, own in zip(groups.names, model.layout.columns, strict=True)}
    return FeatureGroups(columns, groups.costs, shared=groups.shared, requires=groups.requires)


def _of_columns(model: AnytimeModel, C: Float, b: Float, Q: int) -> Quadratic:
    """Return the problem with C and b of the columns of the sequence, in its order, with Q parameters per column.

    Each group that is not known gets one column with an identity and zeros: it explains nothing.
    """
    layout, known = model.layout, known_columns(model)
    sizes = Q * _sizes(known)
    place = np.empty(layout.n_features, dtype=np.intp)
    place[layout.read[np.concatenate(known)]] = np.arange(sizes.sum() // Q)
    at = (place[model.stages.columns][:, None] * Q + np.arange(Q)).ravel()
    whole, right = np.eye(int(sizes.sum())), np.zeros((int(sizes.sum()), b.shape[1]))
    whole[np.ix_(at, at)], right[at] = C, b
    gram = Gram(whole, right, np.array([2 * model.sequence.null_value]))
    weights = None if Q > 1 or model.weights is None else model.weights[np.concatenate(known)]
    return Quadratic(gram, sizes, design_groups(model), model.alpha, weights)


def _sizes(columns: Sequence[Positions]) -> Positions:
    return np.array([own.size for own in columns], dtype=np.intp)


# -- values of single sets ---------------------------------------------------------------------------------------------


def stored_gains(model: AnytimeModel, chosen: Mask, added: Sequence[Positions]) -> Float:
    """Return F(S ∪ A) − F(S), shape (K,), for the groups S of a mask (J,) and K sets A of further groups.

    All these groups must be known: see `known_groups`.
    """
    subset = model.stages.subset
    if isinstance(subset, LinearSubset):
        return problem_of(model).gains(chosen, added)
    order, widths, values = model.sequence.order, np.diff(model.stages.column_ends, prepend=0), _prefix_values(model)
    steps = chosen[order]
    low, high = _range(values, steps)
    before, found = min(subset.gain(steps, widths), float(values[-1])), list[float]()
    for A in added:
        after = steps | np.isin(order, A)
        least, most = _range(values, after)
        gain = min(subset.gain(after, widths), float(values[-1])) - before
        found.append(min(max(gain, least - high, 0.0), most - low))
    return np.array(found)


def estimated_value(model: AnytimeModel, steps: Mask) -> float:
    """Return F of the groups at these steps of the sequence of a loss other than squared error, a mask (stages,).

    Prefixes of the sequence are exact.
    """
    stages, subset = model.stages, model.stages.subset
    least, most = _range(_prefix_values(model), steps)
    return min(max(subset.gain(steps, np.diff(stages.column_ends, prepend=0)), least), most)


def stages_of(model: AnytimeModel, chosen: Mask) -> StagedModel:
    """Return one stage for every group at these steps (stages,) of the sequence of a loss other than squared error.

    Prefixes of the sequence are exact; others are fitted to what the model keeps of the rows.
    """
    stages, sequence = model.stages, model.sequence
    steps, widths = np.flatnonzero(chosen), np.diff(stages.column_ends, prepend=0)
    prefixes = [chosen & (np.arange(chosen.size) <= last) for last in steps]
    models = [stages.of_steps(prefix) for prefix in prefixes]
    values = np.append(0.0, [estimated_value(model, prefix) for prefix in prefixes])
    order, names = sequence.order[steps], tuple(sequence.groups[j] for j in steps)
    costs = model.groups.prices.steps(order)
    return replace(
        stages,
        sequence=GroupSequence(order, names, costs, np.diff(values), sequence.null_value),
        coef_path=np.array([each.coef for each in models]).reshape(steps.size, *stages.coef_path.shape[1:]),
        intercept_path=np.array([each.intercept for each in models]).reshape(steps.size, stages.null_intercept.size),
        columns=stages.columns[np.repeat(chosen, widths)],
        column_ends=np.cumsum(widths[steps]),
        subset=stages.subset.restricted(chosen, widths),
        spread=None,
    )


def _prefix_values(model: AnytimeModel) -> Float:
    """Return F of the prefixes of the sequence, shape (1 + stages,)."""
    return np.append(0.0, np.cumsum(model.sequence.gains))


def _range(values: Float, steps: Mask) -> tuple[float, float]:
    """Return between which values F of the groups at these steps lies: those of the prefixes inside and around them.

    A population may promise more than any model of the rows reaches, above all where classes are separable.
    """
    inside, around = int(np.argmin(np.append(steps, False))), int(np.max(np.flatnonzero(steps) + 1, initial=0))
    return float(values[inside]), float(values[around])
