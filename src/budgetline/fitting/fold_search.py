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
from budgetline.fitting.interactions import with_pairs
from budgetline.fitting.out_of_fold import FoldModel, OutOfFold
from budgetline.fitting.recipe import FoldSearch, Recipe
from budgetline.fitting.rows_training import RowsTraining
from budgetline.fitting.training import Fold, Training
from budgetline.moments.moments import Split
from budgetline.progress import announced
from budgetline.threads import map_in_threads

PAIR_ROWS = 20_000
"""Pairs of columns are tried on at most this many rows: fits with pairs take many times as long."""
WORSE = 0.005
"""Held-out quality falls if it falls by more than this, and by more than a standard error."""
FOLDS_FIRST = 2
"""Pairs that do not help in the first folds are not tried in the others."""
KEPT = 1 << 23
"""The models of a fold are kept if their coefficients take no more bytes."""


class FoldResult(NamedTuple):
    """The explained share of the held-out loss of a fold by budget, its mean over budgets, and the models."""

    score: float
    curve: BudgetCurve
    model: FoldModel


def choose_on_folds(
    training: Training, recipe: Recipe, search: FoldSearch
) -> tuple[Training, Recipe, dict[str, object], OutOfFold]:
    """Return data and recipe with the settings that are best on held-out rows, what was learned, and the best folds."""
    alphas, corrections = search.alphas, search.corrections
    recipe = replace(recipe, correction=float(corrections[0]), search=None)
    cv = training.fixed(search.cv, search.groups)
    tried, cv = _on_few_rows(training, cv, search.rows)
    results = held_out(tried, cv, [replace(recipe, alpha=float(alpha)) for alpha in alphas])
    table = scores_of(results)
    best = int(np.argmax(table.mean(axis=1)))
    recipe, results = replace(recipe, alpha=float(alphas[best])), results[best : best + 1]
    if corrections.size > 1:
        results += held_out(tried, cv, [replace(recipe, correction=float(c)) for c in corrections[1:]])
    correction = int(np.argmax(scores_of(results).mean(axis=1)))
    recipe = replace(recipe, correction=float(corrections[correction]))
    learned: dict[str, object] = {
        "alpha_": recipe.alpha,
        "cv_scores_": table,
        "correction_": recipe.correction,
        "correction_scores_": scores_of(results),
    }
    most, folds, parts = _best_pairs(tried, recipe, search.interactions, cv, results[correction])
    learned["held_out_"] = curve = _mean_curve(folds)
    out_of_fold = OutOfFold(*parts, recipe, [fold.model for fold in folds], search.calibrate)
    if most:
        assert isinstance(training, RowsTraining)
        encoding = with_pairs(training, recipe, most)
        training, recipe = training.encoded(encoding), recipe.over(encoding)
    return training, _ended(recipe, curve) if search.stop_at_best else recipe, learned, out_of_fold


def _on_few_rows(training: Training, cv: object, most: int | None) -> tuple[Training, object]:
    """Return at most ``most`` rows in memory and their folds; None, and rows elsewhere: all."""
    if most is None or not isinstance(training, RowsTraining) or training.rows.n_rows <= most:
        return training, cv
    return training.sampled(most, training.fixed(cv))


def _best_pairs(
    training: Training, recipe: Recipe, numbers: Sequence[int] | None, cv: object, without: list[FoldResult]
) -> tuple[int, list[FoldResult], tuple[Training, object]]:
    """Return the best number of pairs, its results, and the rows and folds that these are of.

    Pairs must be better by more than their standard error.

    Every fold looks for pairs in its own training rows. ``without`` are the results without pairs.
    """
    if numbers is None or not recipe.bins or max(numbers) == 0 or not isinstance(training, RowsTraining):
        return 0, without, (training, cv)
    sample, splits, most = training, training.fixed(cv), 0
    if training.rows.n_rows > PAIR_ROWS:
        sample, splits = training.sampled(PAIR_ROWS, splits)
        without = held_out(sample, splits, [recipe])[0]
    best = without if numbers[0] == 0 else []
    for number in (number for number in numbers if number):
        found = _with_pairs_in(sample, recipe, splits[:FOLDS_FIRST], number)
        if not best or _gain(found, best)[0] > 0:
            found += _with_pairs_in(sample, recipe, splits[FOLDS_FIRST:], number)
        gain, error = _gain(found, best)
        if not best or (len(found) == len(best) and gain > error):
            most, best = number, found
    return most, best, (sample, splits)


def _with_pairs_in(training: RowsTraining, recipe: Recipe, splits: Sequence[Split], most: int) -> list[FoldResult]:
    """Look for pairs in the training rows of every split, and evaluate models with them on the held-out rows."""

    def result(split: Split) -> FoldResult:
        train, test = split
        part = training.part(train)
        encoding = with_pairs(part, recipe, most)
        fold = Fold(part.encoded(encoding), lambda fitted: training.part(test).encoded(encoding).losses(fitted))
        score, curve, model = evaluated(recipe.over(encoding), fold)
        return FoldResult(score, curve, FoldModel(model.sequence, model.stages, encoding))

    if training.small:
        return map_in_threads(result, splits, "fold fit")
    return [result(split) for split in announced(splits, "fold fit")]


def _gain(found: list[FoldResult], before: list[FoldResult]) -> tuple[float, float]:
    """Return the mean difference of the scores of the same folds, and its standard error."""
    both = zip(found, before, strict=False)
    differences = np.array([new.score - old.score for new, old in both] or [0.0])
    error = differences.std(ddof=1) / np.sqrt(differences.size) if differences.size > 1 else 0.0
    return float(differences.mean()), float(error)


def _mean_curve(folds: list[FoldResult]) -> Float:
    """Return costs, the mean over folds of the explained share there, and its standard error, shape (K, 3)."""
    mean = BudgetCurve.mean([fold.curve for fold in folds])
    errors = np.full(len(mean), np.nan) if mean.errors is None else mean.errors
    return np.column_stack([mean.costs, mean.values, errors])


def _ended(recipe: Recipe, curve: Float) -> Recipe:
    """Return the recipe that stops where a curve (K, 3) is highest, if it falls afterwards, but not before a group."""
    costs, values, errors = curve[curve[:, 0] > 0].T
    best = int(np.argmax(values)) if values.size else 0
    if not values.size or values[best] - values[-1] <= max(WORSE, np.nan_to_num(errors[best])):
        return recipe
    return recipe.up_to(float(costs[best]))


def held_out(training: Training, cv: object, recipes: list[Recipe]) -> list[list[FoldResult]]:
    """Return the results of each recipe on each fold."""
    folds: Iterable[Fold] = training.folds(recipes[0], cv)
    if training.small:  # every fit keeps one thread busy; the threads of larger ones share their rows
        folds = list(folds)
        found = map_in_threads(lambda job: evaluated(*job), list(product(recipes, folds)), "fold fit")
        return [found[k : k + len(folds)] for k in range(0, len(found), len(folds))]
    rows = ([evaluated(recipe, fold) for recipe in announced(recipes, "setting")] for fold in announced(folds, "fold"))
    return [list(each) for each in zip(*rows, strict=True)]


def scores_of(results: list[list[FoldResult]]) -> Float:
    """Return the scores (recipes, folds)."""
    return np.array([[fold.score for fold in folds] for folds in results])


def evaluated(recipe: Recipe, fold: Fold) -> FoldResult:
    """Fit on a fold and evaluate on its held-out rows: the one place where a search does so.

    Sequences that end early keep their last value up to the largest budget.
    """
    fitted = fold.training.fit(recipe)
    sequence, total = fitted.stages.sequence, recipe.prices.total
    if recipe.limits.max_cost is not None:
        total = max(min(total, recipe.limits.max_cost), float(sequence.costs.sum()))
    explained = np.nan_to_num(explained_share(fold.losses(fitted)))
    curve = BudgetCurve(np.append(0.0, sequence.cumulative_costs), explained)
    stages = fitted.stages if fitted.stages.coef_path.nbytes <= KEPT else None
    return FoldResult(timeliness(curve, total), curve, FoldModel(sequence, stages))
