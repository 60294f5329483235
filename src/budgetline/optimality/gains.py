"""What further groups would gain, from any set S of available groups: F(S ∪ A) − F(S) of several sets A.

Squared error: exact, from the moments, or from the factor of the sequence. Other losses need no rows either: models of
both sets are fitted to the population that the model keeps, see :mod:`budgetline.model.population`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.leastsquares.factors import BlockCholesky
from budgetline.leastsquares.gram import Gram
from budgetline.leastsquares.least_squares import LeastSquares
from budgetline.model.anytime import AnytimeModel
from budgetline.model.subsets import GeneralisedSubset, LinearSubset
from budgetline.threads import one_blas_thread


def stored_gains(model: AnytimeModel, chosen: Mask, added: Sequence[Positions]) -> Float:
    """Return F(S ∪ A) − F(S), shape (K,), for the groups S of a mask (J,) and K sets A of further groups.

    All these groups must be known: see :func:`known_groups`.
    """
    subset = model.stages.subset
    if isinstance(subset, LinearSubset):
        return _linear_gains(model, subset, chosen, added)
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
    assert isinstance(subset, GeneralisedSubset)
    least, most = _range(_prefix_values(model), steps)
    return min(max(subset.gain(steps, np.diff(stages.column_ends, prepend=0)), least), most)


def _prefix_values(model: AnytimeModel) -> Float:
    """Return F of the prefixes of the sequence, shape (1 + stages,)."""
    return np.append(0.0, np.cumsum(model.sequence.gains))


def _range(values: Float, steps: Mask) -> tuple[float, float]:
    """Return between which values F of the groups at these steps lies: those of the prefixes inside and around them.

    A population may promise more than any model of the rows reaches, above all where classes are separable.
    """
    inside, around = int(np.argmin(np.append(steps, False))), int(np.max(np.flatnonzero(steps) + 1, initial=0))
    return float(values[inside]), float(values[around])


def known_groups(model: AnytimeModel) -> Mask:
    """Return the groups whose gains the model knows, shape (J,): with moments all, otherwise those of its sequence."""
    known = np.full(len(model.groups), model.moments is not None)
    known[model.sequence.order] = True
    return known


def _linear_gains(model: AnytimeModel, subset: LinearSubset, chosen: Mask, added: Sequence[Positions]) -> Float:
    """Return the gains of squared error: of all groups from moments, or of those in the sequence from its factor."""
    if model.moments is not None:
        position = model.layout.position
        gram = Gram.of(model.moments, np.concatenate(position), model.alpha, model.weights)
        sizes, blocks = np.array([own.size for own in position]), np.arange(len(position))
    else:
        variance = np.full(subset.z.shape[1], 2 * model.sequence.null_value)  # of all targets, for a tolerance
        gram = Gram(subset.U.T @ subset.U, subset.U.T @ subset.z, variance)
        sizes, blocks = np.diff(model.stages.column_ends, prepend=0), np.zeros(chosen.size, dtype=np.intp)
        blocks[model.sequence.order] = np.arange(sizes.size)
    with one_blas_thread():
        objective = LeastSquares(BlockCholesky(gram), sizes, "fr")
        for k in blocks[chosen].tolist():
            objective.choose(k)
        single, sets = objective.gains(), [blocks[A].tolist() for A in added]
        return np.array([single[A[0]] if len(A) == 1 else objective.joint_scores([A])[0] / 2 for A in sets])
