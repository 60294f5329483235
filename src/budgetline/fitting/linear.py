"""From moments to staged linear models: run the loop, check the conditioning, refine if needed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgWarning

from budgetline.arrays import Float, Positions
from budgetline.data.rows import Rows
from budgetline.fitting.open_settings import settled_by_columns, settled_by_moments
from budgetline.fitting.recipe import Recipe
from budgetline.leastsquares.coefficients import condition_number, refine, stage_coefficients, triangle
from budgetline.leastsquares.factors import BlockCholesky, Factor, Factorisation, GramSchmidt
from budgetline.leastsquares.gram import EPS, Gram
from budgetline.leastsquares.least_squares import LeastSquares
from budgetline.messages import warn
from budgetline.model.stages import StagedModel, in_user_units
from budgetline.model.subsets import LinearSubset
from budgetline.moments.columns import standardised_columns
from budgetline.moments.moments import Moments, moments_of
from budgetline.sequencing.sequence import GroupSequence
from budgetline.threads import one_blas_thread

FLOAT32_EPS = float(np.finfo(np.float32).eps)
SMALL_GRAM, LARGEST_GRAM = 1000, 8192
"""The D × D matrix is always formed up to the first number of columns, and up to the second if X is tall."""
MOST_NOISE = 0.1
"""Of a standardised column: a column that is not constant is more than its rounding error."""
FREE_REFINEMENT = 10**8
"""Stages are always refined if that takes fewer multiplications than this (well under a second)."""


@dataclass(frozen=True)
class _Run:
    """Result of one run of the loop: order, gains, variances (P,) of the targets, and the factor, in its columns."""

    order: Positions
    gains: Float
    variance: Float
    factor: Factor

    @property
    def null_value(self) -> float:
        return float(self.variance.sum() / 2)

    @property
    def full_rank(self) -> bool:
        return bool(self.factor.kept.all())


def fit_rows(
    rows: Rows, recipe: Recipe, names: Sequence[str] | None = None
) -> tuple[StagedModel, Moments | None, Recipe, bool]:
    """Fit from data in memory, by moments; coefficients are refined on the rows where moments have too few digits.

    Also return the moments, the recipe with the ridge constant and the penalties that were found, and whether the
    columns are far from dependent.
    """
    rows, exponent = rows.rescaled()
    if not gram_fits(rows, recipe):
        return _fit_wide(rows, recipe, names)
    moments = moments_of(rows, (rows.Y.shape[1],), names)
    recipe, kept = settled_by_moments(recipe, moments), moments.scaled(exponent)
    (mean, scale, y_mean), n_rows = moments.standardisation(recipe.weights), moments.sample_size
    run = _run(BlockCholesky(Gram.of(moments, recipe.by_group, recipe.alpha, recipe.weights)), recipe)
    doubt = _doubt(run, moments.eps)
    work = rows.n_rows * rows.n_columns * len(run.order) * rows.Y.shape[1]
    clear = doubt <= moments.eps**0.5
    if clear and work > FREE_REFINEMENT:
        W = stage_coefficients(run.factor)
        return _staged(recipe, run, W, mean, scale, y_mean, n_rows=n_rows), kept, recipe, clear
    if moments.eps > EPS:  # means of float32 products are too inaccurate to start from
        A, _, y_mean = standardised_columns(rows, names, recipe.weights)
        mean, scale = A.mean, A.scale
    if doubt > moments.eps ** (1 / 3):
        A, targets = triangle(rows, mean, scale, y_mean, recipe.alpha)
        run = _run(GramSchmidt(A, recipe.by_group, targets, 0.0, _noise(mean, scale)), recipe)
        _warn_from_data(run, recipe, _doubt(run, EPS))
    W, y_levels = stage_coefficients(run.factor), y_mean
    if W.size and run.full_rank:
        W, offset = refine(run.factor, W, rows, mean, scale, y_mean, recipe.alpha)
        y_levels = y_mean + offset
    return _staged(recipe, run, W, mean, scale, y_mean, y_levels, n_rows), kept, recipe, clear


def _fit_wide(rows: Rows, recipe: Recipe, names: Sequence[str] | None) -> tuple[StagedModel, None, Recipe, bool]:
    """Fit from standardised columns, which are read when they are needed."""
    A, targets, y_mean = standardised_columns(rows, names, recipe.weights)
    recipe = settled_by_columns(recipe, A, targets)
    run = _run(GramSchmidt(A, recipe.by_group, targets, recipe.alpha, _noise(A.mean, A.scale)), recipe)
    doubt = _doubt(run, EPS)
    _warn_from_data(run, recipe, doubt)
    W, n_rows = stage_coefficients(run.factor), 1 / float((A.root**4).sum())
    model = _staged(recipe, run, W, A.mean, A.scale, y_mean, n_rows=n_rows)
    return model, None, recipe, doubt <= EPS**0.5


def fit_moments(moments: Moments, recipe: Recipe) -> tuple[StagedModel, float]:
    """Fit from moments alone; also return an estimate of the relative error of the coefficients."""
    gram = Gram.of(moments, recipe.by_group, recipe.alpha, recipe.weights)
    return fit_gram(gram, recipe, *moments.standardisation(recipe.weights), moments.sample_size)


def fit_gram(
    gram: Gram, recipe: Recipe, mean: Float, scale: Float, y_mean: Float, n_rows: float
) -> tuple[StagedModel, float]:
    """Fit from C and b of the columns of the recipe, group after group; return what ``fit_moments`` does.

    ``n_rows`` is the effective number of rows, 0 if C and b are an approximation.
    """
    run = _run(BlockCholesky(gram), recipe)
    model = _staged(recipe, run, stage_coefficients(run.factor), mean, scale, y_mean, n_rows=n_rows)
    return model, _doubt(run, gram.eps)


def warn_from_moments(doubt: float, eps: float, alpha: float) -> None:
    """Warn if moments do not determine the coefficients to about half the digits."""
    if doubt > min(eps, FLOAT32_EPS) ** 0.5:  # eps grows when moments are subtracted
        digits = max(0, int(-np.log10(doubt)))
        warn(
            f"the moments are ill conditioned (alpha={alpha:g}): about {digits} digits of the coefficients can be "
            "trusted. Fit from the data instead of from moments, or raise alpha.",
            LinAlgWarning,
        )


def gram_fits(rows: Rows, recipe: Recipe) -> bool:
    """Return whether to form the D × D matrix: it is small, or X is tall and many of its columns may be chosen."""
    n, D = rows.n_rows, rows.n_columns
    if D <= SMALL_GRAM:
        return True
    chosen = np.sort(recipe.sizes)[::-1][: recipe.limits.max_groups].sum()
    return bool(n >= D and 8 * chosen >= D and (D <= LARGEST_GRAM or n >= 4 * D))


def _run(factorisation: Factorisation, recipe: Recipe) -> _Run:
    # For many small products a second BLAS thread does not help. Wide data stream all of X at every step.
    with one_blas_thread() if isinstance(factorisation, BlockCholesky) else nullcontext():
        objective = LeastSquares(factorisation, recipe.sizes, recipe.rule, track_gains=recipe.limits.min_gain > 0)
        order, gains = recipe.order(objective)
        factor = objective.factor()
    factor = replace(factor, columns=recipe.by_group[factor.columns])
    return _Run(order, gains, factorisation.target_variance, factor)


def _doubt(run: _Run, eps: float) -> float:
    """Estimate the relative error of the coefficients: eps·cond(C), or 1 if columns were dropped as dependent."""
    return eps * condition_number(run.factor.U) if run.full_rank else 1.0


def _noise(mean: Float, scale: Float) -> Float:
    """Return the rounding error of standardised columns: copies of a column differ by the rounding of its mean.

    It has a margin of up to 256 roundings, but is less than the column itself.
    """
    spread = np.where(np.isfinite(scale), scale, 1.0)
    return np.asarray(np.minimum(256 * EPS * (1 + np.abs(mean) / spread), MOST_NOISE))


def _warn_from_data(run: _Run, recipe: Recipe, doubt: float) -> None:
    """Warn if not even the data, whose condition number is the root of that of C, determine four digits."""
    if run.full_rank and (EPS * doubt) ** 0.5 > 1e-4:
        warn(
            f"the columns are so nearly dependent (alpha={recipe.alpha:g}) that few digits of the coefficients can be "
            "trusted. Raise alpha, or leave out redundant columns.",
            LinAlgWarning,
        )


def _staged(
    recipe: Recipe,
    run: _Run,
    W: Float,
    mean: Float,
    scale: Float,
    y_mean: Float,
    y_levels: Float | None = None,
    n_rows: float = 0.0,
) -> StagedModel:
    """Put coefficients of standardised columns into the user's units; ``y_levels`` are refined means (stages, P)."""
    names = tuple(recipe.names[g] for g in run.order)
    sequence = GroupSequence(run.order, names, recipe.prices.steps(run.order), run.gains, run.null_value)
    factor, columns = run.factor, run.factor.columns
    coef, intercept = in_user_units(W, columns, mean, scale, y_mean if y_levels is None else y_levels)
    subset = LinearSubset(factor.U, factor.z, factor.kept, y_mean, run.variance, n_rows)
    parts = (coef, intercept, y_mean, columns, factor.column_ends)
    return StagedModel(sequence, recipe.names, *parts, subset, mean, scale)
