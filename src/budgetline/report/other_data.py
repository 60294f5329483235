"""Whether a report is about the rows that its model learned from."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import _num_samples

from budgetline.evaluation.budget_curves import training_curve
from budgetline.evaluation.resampling import Samples
from budgetline.inputs import check_weight
from budgetline.model.anytime import AnytimeModel, Staged
from budgetline.model.subsets import LinearSubset

SAME = 1e-6
"""Numbers of rows, and explained shares, whose relative difference is smaller are the same."""
MEANING = (
    "“training” means these rows here, and the held-out values are those of models that were fitted to parts of them."
    " For a report on this model, pass the data of the fit."
)


def other_data(model: Staged, fitted: object, rows: Samples) -> str:
    """Return a sentence if a model learned from other rows than these; "" if it did not, or if nobody can tell.

    Files hold no rows, but the effective number of rows, except those of rankings and survival times: there, the
    explained share tells.
    """
    if not isinstance(model, AnytimeModel):
        return ""
    learned, given = _rows_of_fit(model), _effective_number(rows)
    weighted = model.settings.get("class_weight") is not None  # then fewer rows count than there were
    if not learned:
        same = weighted or model.calibration is not None or _explains_the_same(model, fitted, rows)
    else:
        same = given >= learned * (1 - SAME) if weighted else abs(given - learned) <= SAME * learned
    if same:
        return ""
    if not learned or weighted or rows.weight is not None or abs(learned - round(learned)) > SAME * learned:
        return f"The model learned from other rows, or with other weights: {MEANING}"
    return f"These are {_num_samples(rows.X):,} rows, but the model learned from {round(learned):,}: {MEANING}"


def _rows_of_fit(model: AnytimeModel) -> float:
    """Return the effective number of rows from which a model learned, 0 if it does not hold it."""
    subset = model.stages.subset
    if isinstance(subset, LinearSubset):
        return subset.n_rows
    return 0.0 if subset.population is None else subset.population.n_rows


def _effective_number(rows: Samples) -> float:
    """Return the number of rows, (Σw)²/Σw² if they have weights w."""
    n = _num_samples(rows.X)
    weight = check_weight(rows.weight, n)
    if weight is None:
        return float(n)
    share = weight / weight.max()
    return float(share.sum() ** 2 / (share @ share))


def _explains_the_same(model: AnytimeModel, fitted: object, rows: Samples) -> bool:
    """Return whether the model explains the same share of the loss of these rows as of those of the fit."""
    ours, theirs = rows.curve(fitted, "explained").values, training_curve(model).values
    return bool(np.allclose(ours, theirs, rtol=SAME, atol=SAME))
