"""The choice of alpha, correction and pairs of columns on folds, over all budgets at once.

The score of a fold is the mean over budgets, spread evenly up to the total cost, of the explained share of the held-out
loss. The settings are chosen one after the other: alpha with the first correction, the correction with that alpha, then
the number of pairs with both. With ``stop_at_best`` the sequence ends at the budget that is best on held-out rows, if
quality falls afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from budgetline.arrays import Float
from budgetline.evaluation.curve import BudgetCurve, explained_share, timeliness
from budgetline.evaluation.splits import splits_of
from budgetline.fitting.interactions import with_pairs
from budgetline.fitting.recipe import FoldSearch, Recipe
from budgetline.fitting.training import Fold, RowsTraining, Training
from budgetline.model.targets import codes_of
from budgetline.moments.fold_moments import Split
from budgetline.moments.moments import Moments
from budgetline.progress import announced
from budgetline.threads import map_in_threads

PAIR_ROWS = 20_000
"""Whether pairs of columns help is tried on at most this many rows: fits with pairs take many times as long."""
WORSE = 0.005
"""Held-out quality falls if it falls by more than this, and by more than a standard error."""
FOLDS_FIRST = 2
"""Pairs that do not help in the first folds are not tried in the others."""


class Judged(NamedTuple):
    """How good models of a fold are on held-out rows: the mean over all budgets, and the explained share by budget."""

    score: float
    curve: BudgetCurve


def choose_on_folds(
    training: Training, recipe: Recipe, search: FoldSearch
) -> tuple[Training, Recipe, dict[str, object]]:
    """Return data and recipe with the settings that are best on held-out rows, and the scores of all."""
    alphas, corrections = search.alphas, search.corrections
    recipe = replace(recipe, correction=float(corrections[0]), search=None)
    cv = training.fixed(search.cv) if search.groups is None else _splits(training, search)
    tried, cv = _on_few_rows(training, cv, search.rows)
    judged, held = held_out(tried, cv, [replace(recipe, alpha=float(alpha)) for alpha in alphas])
    table = scores_of(judged)
    best = choose_alpha(alphas, table, search.one_standard_error)
    recipe, judged = replace(recipe, alpha=float(alphas[best])), judged[best : best + 1]
    if corrections.size > 1:
        judged += held_out(tried, cv, [replace(recipe, correction=float(c)) for c in corrections[1:]])[0]
    correction = int(np.argmax(scores_of(judged).mean(axis=1)))
    recipe = replace(recipe, correction=float(corrections[correction]))
    learned: dict[str, object] = {
        "alpha_": recipe.alpha,
        "cv_scores_": table,
        "correction_": recipe.correction,
        "correction_scores_": scores_of(judged),
    }
    most, folds = _best_pairs(tried, recipe, search.interactions, cv, judged[correction])
    learned["held_out_"] = curve = _mean_curve(folds)
    once = isinstance(search.cv, int | np.integer | None) and None not in held  # every row is held out once
    if once and search.groups is None and tried is training and not most:  # moments of pairs are not known
        learned["fold_moments_"] = tuple(held)
    if most:
        assert isinstance(training, RowsTraining)
        encoding = with_pairs(training, recipe, most)
        training, recipe = training.encoded(encoding), recipe.over(encoding)
    return training, _ended(recipe, curve) if search.stop_at_best else recipe, learned


def _on_few_rows(training: Training, cv: object, most: int | None) -> tuple[Training, object]:
    """Return at most ``most`` rows, and their folds; all rows for None, and if they are not in memory."""
    if most is None or not isinstance(training, RowsTraining) or training.rows.n_rows <= most:
        return training, cv
    return training.sampled(most, training.fixed(cv))


def _splits(training: Training, search: FoldSearch) -> list[Split]:
    """Return folds that keep the rows of a group together."""
    assert isinstance(training, RowsTraining)
    classes = training.classes is not None
    y = codes_of(training.rows.Y) if classes else training.rows.Y
    return splits_of(search.cv, y, search.groups, classifier=classes)


def _best_pairs(
    training: Training, recipe: Recipe, numbers: Sequence[int] | None, cv: object, without: list[Judged]
) -> tuple[int, list[Judged]]:
    """Return the best number of pairs, and its folds: pairs must be better by more than their standard error.

    Every fold looks for pairs in its own training rows. ``without`` are the folds of the recipe without pairs.
    """
    if numbers is None or not recipe.bins or max(numbers) == 0 or not isinstance(training, RowsTraining):
        return 0, without
    sample, splits, most = training, training.fixed(cv), 0
    if training.rows.n_rows > PAIR_ROWS:
        sample, splits = training.sampled(PAIR_ROWS, splits)
        without = held_out(sample, splits, [recipe])[0][0]
    best = without if numbers[0] == 0 else []
    for number in (number for number in numbers if number):
        found = _with_pairs_in(sample, recipe, splits[:FOLDS_FIRST], number)
        if not best or _gain(found, best)[0] > 0:
            found += _with_pairs_in(sample, recipe, splits[FOLDS_FIRST:], number)
        gain, error = _gain(found, best)
        if not best or (len(found) == len(best) and gain > error):
            most, best = number, found
    return most, best


def _with_pairs_in(training: RowsTraining, recipe: Recipe, splits: Sequence[Split], most: int) -> list[Judged]:
    """Look for pairs in the training rows of every split, and judge models with them on the held-out rows."""

    def judged(split: Split) -> Judged:
        part, losses = training.fold_of(split)
        encoding = with_pairs(part, recipe, most)
        fold = Fold(part.encoded(encoding), lambda fitted: losses(fitted, encoding))
        return judged_on(recipe.over(encoding), fold)

    if training.small:
        return map_in_threads(judged, splits, "fold fit")
    return [judged(split) for split in announced(splits, "fold fit")]


def _gain(found: list[Judged], before: list[Judged]) -> tuple[float, float]:
    """Return the mean difference of the scores of the same folds, and its standard error."""
    both = zip(found, before, strict=False)
    differences = np.array([new.score - old.score for new, old in both] or [0.0])
    error = differences.std(ddof=1) / np.sqrt(differences.size) if differences.size > 1 else 0.0
    return float(differences.mean()), float(error)


def _mean_curve(folds: list[Judged]) -> Float:
    """Return costs, the mean over folds of the explained share there, and its standard error, shape (K, 3)."""
    mean = BudgetCurve.mean([fold.curve for fold in folds])
    errors = np.full(len(mean), np.nan) if mean.errors is None else mean.errors
    return np.column_stack([mean.costs, mean.values, errors])


def _ended(recipe: Recipe, curve: Float) -> Recipe:
    """Return the recipe that spends no more than where a curve (K, 3) is highest, if it falls afterwards.

    Something is bought in any case, even if nothing helps.
    """
    costs, values, errors = curve[curve[:, 0] > 0].T
    best = int(np.argmax(values)) if values.size else 0
    if not values.size or values[best] - values[-1] <= max(WORSE, np.nan_to_num(errors[best])):
        return recipe
    return recipe.up_to(float(costs[best]))


def held_out(training: Training, cv: object, recipes: list[Recipe]) -> tuple[list[list[Judged]], list[Moments | None]]:
    """Return how good each recipe is on each fold, and the moments of the held-out rows."""
    folds: Iterable[Fold] = training.folds(recipes[0], cv)
    if training.small:  # every fit keeps one thread busy; the threads of larger ones share their rows
        folds = list(folds)
        found = map_in_threads(lambda job: judged_on(*job), list(product(recipes, folds)), "fold fit")
        n = len(folds)
        return [found[k : k + n] for k in range(0, len(found), n)], [fold.held for fold in folds]
    tried = [
        ([judged_on(recipe, fold) for recipe in announced(recipes, "setting")], fold.held)
        for fold in announced(folds, "fold")
    ]
    return [list(each) for each in zip(*(row for row, _ in tried), strict=True)], [held for _, held in tried]


def scores_of(judged: list[list[Judged]]) -> Float:
    """Return the scores (recipes, folds)."""
    return np.array([[fold.score for fold in folds] for folds in judged])


def judged_on(recipe: Recipe, fold: Fold) -> Judged:
    """Fit on a fold; return the explained share of the held-out loss by budget, and its mean over budgets.

    Sequences that end early keep their last value up to the largest budget considered.
    """
    fitted = fold.training.fit(recipe)
    sequence, total = fitted.stages.sequence, recipe.prices.total
    if recipe.limits.max_cost is not None:
        total = max(min(total, recipe.limits.max_cost), float(sequence.costs.sum()))
    explained = np.nan_to_num(explained_share(fold.losses(fitted)))
    curve = BudgetCurve(np.append(0.0, sequence.cumulative_costs), explained)
    return Judged(timeliness(curve, total), curve)


def choose_alpha(alphas: Float, scores: Float, one_standard_error: bool) -> int:
    """Return the position of the alpha with the best mean score, or of the largest within one standard error of it."""
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if not one_standard_error or scores.shape[1] < 2:
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.argmax(np.where(means >= means[best] - error, alphas, -np.inf)))
