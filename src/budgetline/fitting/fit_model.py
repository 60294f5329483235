"""``fit_model``: from data and a recipe to a fitted model, in six steps.

1. **Pairs.** If the recipe asks for pairs of columns, an additive model of all groups is fitted, and the pairs that
   explain most of its residuals become groups that cost nothing and require both columns (``interactions``).
2. **Moments.** Squared error needs only means and products of columns, so a source is read once for them, and rows are
   added to those of earlier calls of ``partial_fit`` (``Training.gathered``).
3. **Choices.** If the recipe has a search, alpha, the correction and the number of pairs are those that are best on
   held-out rows, over all budgets (``fold_search``).
4. **Fit** (``Training.fit``). Where they are not chosen yet, the ridge constant (``ridge_choice``) and what noise
   explains of every group (``penalties``) come from the model of all groups. Then the greedy loop finds the order,
   and every prefix of it gets its coefficients, with what is needed to predict from other subsets of groups.
5. **Certainty.** From the folds of the search: how to calibrate probabilities, the held-out errors of every stage, and
   what each fold has spent when it has bought a group (``out_of_fold``).
6. **Checks.** Warn if the digits of the coefficients cannot be trusted, or if alpha is far too small.

Estimators, their searches, plans and ``partial_fit`` call this function; nobody else makes an ``AnytimeModel``, except
from a file.
"""

from __future__ import annotations

from dataclasses import replace

from budgetline.fitting.agreement import warn_if_rounded, warn_of_lost_columns
from budgetline.fitting.fold_search import choose_on_folds
from budgetline.fitting.interactions import add_pairs
from budgetline.fitting.linear import warn_from_moments
from budgetline.fitting.open_settings import warn_if_overfitted
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.training import Fitted, Training
from budgetline.groups import Layout
from budgetline.model.anytime import AnytimeModel


def fit_model(training: Training, recipe: Recipe) -> AnytimeModel:
    """Learn a model.

    Parameters
    ----------
    training : Training
        What to learn from: rows in memory, moments, or a source.
    recipe : Recipe
        What to learn, and how.

    Returns
    -------
    AnytimeModel
        Its ``learned`` holds the settings that were chosen, by the names of the estimator's fitted attributes.
    """
    learned: dict[str, object] = {}
    calibration, errors, folds = None, None, None
    training, recipe = add_pairs(training, recipe)
    training = training.gathered()
    if recipe.search is not None:
        training, recipe, learned, folds = choose_on_folds(training, recipe, recipe.search)
    fitted = training.fit(recipe)
    stages = fitted.stages
    if folds is not None:
        learned["fold_costs_"] = reached = folds.reached(stages.sequence)
        calibration, errors = folds.certainty(stages.sequence)
        stages = replace(stages, sequence=replace(stages.sequence, fold_costs=reached))
    if recipe.auto:
        learned["alpha_"] = fitted.recipe.alpha
    _check(fitted, recipe, training.layout, chosen="alpha_" in learned)
    layout = training.layout
    return AnytimeModel(
        layout=layout,
        stages=stages.embedded(layout.read, layout.n_features),
        family=training.task.family,
        target_shape=training.task.target_shape,
        alpha=fitted.recipe.alpha,
        classes=training.task.classes,
        moments=fitted.moments,
        learned={**learned, **fitted.learned},
        encoding=recipe.encoding,
        penalties=fitted.recipe.penalties,
        calibration=calibration,
        errors=errors,
    )


def _check(fitted: Fitted, recipe: Recipe, layout: Layout, *, chosen: bool) -> None:
    """Warn if digits cannot be trusted, or if alpha was not chosen from the data and is far too small."""
    if fitted.doubt and fitted.moments is not None:
        warn_from_moments(fitted.doubt, fitted.moments.eps, fitted.recipe.alpha)
        warn_if_rounded(fitted.stages, fitted.recipe.alpha, layout.labels(layout.read))
    warn_of_lost_columns(fitted.data, fitted.stages.scale, layout)
    if fitted.moments is not None and fitted.stages.n_stages == len(layout.groups) and not chosen:
        warn_if_overfitted(recipe, fitted.moments)
