"""What is subtracted from the gain of every group if a recipe asks for a correction: what noise explains of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.ridge_choice import MOST_SQUARED, check_size, spectrum_of
from budgetline.glm.engines import Engine
from budgetline.glm.families import Family
from budgetline.leastsquares.gram import Gram
from budgetline.leastsquares.noise import effective_columns, noise_of_gram, noise_of_spectrum
from budgetline.leastsquares.ridge import Spectrum
from budgetline.moments.columns import StandardisedColumns
from budgetline.moments.moments import Moments
from budgetline.threads import one_blas_thread


def with_penalties_of_moments(recipe: Recipe, moments: Moments) -> Recipe:
    """Return a recipe with the penalties correction · σ̂²d_g/n, if it asks for a correction.

    σ̂² is the residual variance of the model of all groups, or the estimate of restricted maximum likelihood if fewer
    than 20 degrees of freedom are left to that model.
    """
    if not recipe.correction:
        return recipe
    n, varying = moments.sample_size, np.isfinite(moments.standardisation(recipe.weights)[1])
    columns = recipe.by_group[varying[recipe.by_group]]
    with one_blas_thread():
        noise = noise_of_gram(Gram.of(moments, columns, recipe.alpha, recipe.weights), recipe.alpha, n)
        if noise is None:
            noise = noise_of_spectrum(spectrum_of(moments, recipe, "correction"), n)
        gram = Gram.of(moments, recipe.by_group, 0.0, recipe.weights)
        constant = np.flatnonzero(~varying[recipe.by_group])
        gram.C[constant, constant] = 0.0
        return _penalised(recipe, effective_columns(recipe.sizes, gram.blocks, recipe.alpha), noise / n)


def with_penalties_of_columns(recipe: Recipe, A: StandardisedColumns, targets: Float) -> Recipe:
    """Return a recipe with the penalties for a wide table, with σ̂² by restricted maximum likelihood."""
    if not recipe.correction:
        return recipe
    check_size("correction", A.root.size, A.scale.size, MOST_SQUARED)
    weight = A.root**2
    n = float(weight.sum() ** 2 / (weight @ weight))

    def blocks(columns: Positions) -> Float:
        own = [A.columns(recipe.by_group[c]) for c in columns]
        return np.stack([Z.T @ Z for Z in own])

    noise = noise_of_spectrum(Spectrum.of_columns(A, targets), n)
    return _penalised(recipe, effective_columns(recipe.sizes, blocks, recipe.alpha), noise / n)


def with_penalties_of_engine(recipe: Recipe, engine: Engine, family: Family) -> Recipe:
    """Return a recipe with the penalties correction · d_g/n of a generalised linear model, and the unit of its scores.

    At the intercept-only model all rows have the same curvature, so its Hessian is that times the covariance. Rules
    that do not divide by the Hessian score in units of the mean curvature.
    """
    if not recipe.correction:
        return recipe
    level = family.start(engine.y_mean)
    every = np.broadcast_to(level, (level.size, level.size))
    curvature = np.asarray(np.linalg.eigvalsh(family.curvature(every).product(np.eye(level.size))), dtype=np.float64)
    found = effective_columns(recipe.sizes, lambda c: engine.covariance(1 + c), recipe.alpha, curvature)
    unit = 1.0 if recipe.rule in ("fr", "score") else float(curvature.mean())
    return replace(_penalised(recipe, found, 1 / engine.sample_size), unit=unit)


def _penalised(recipe: Recipe, columns: Float, each: float) -> Recipe:
    """Return a recipe with penalties for effective numbers of columns (J,)."""
    return replace(recipe, penalties=recipe.correction * each * columns)
