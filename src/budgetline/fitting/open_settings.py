"""What a recipe leaves open, found from the model of all groups: the ridge constant, and what noise explains.

``alpha="auto"`` is the likeliest ridge constant of the model of all groups. A correction subtracts a penalty from the
gain of every group: a multiple of what noise alone explains and costs. Both come from the statistics of the fit, which
are moments, standardised columns, or the engine of another loss.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.fitting.recipe import Recipe
from budgetline.glm.engines import Engine
from budgetline.glm.families import Family, Logistic, Softmax
from budgetline.glm.laplace import likeliest_alpha
from budgetline.glm.rows_engine import RowsEngine
from budgetline.glm.set_families import SetFamily
from budgetline.glm.sets_engine import SetsEngine
from budgetline.leastsquares.gram import Gram
from budgetline.leastsquares.ridge import Spectrum, effective_columns, noise_of_gram, noise_of_spectrum, rotated
from budgetline.messages import warn
from budgetline.moments.columns import StandardisedColumns
from budgetline.moments.moments import Moments
from budgetline.threads import one_blas_thread

AUTO = "alpha='auto'"
MOST_SQUARED, MOST_SCORES = 8192, 4096
"""The smaller of rows and columns may be at most this, for squared error and for other losses."""
FEWEST_ROWS = 10
"""With fewer rows a criterion says little."""
CHEAP = 1000
"""A given constant is compared with the likeliest one for up to this many columns."""


def settled_by_moments(recipe: Recipe, moments: Moments) -> Recipe:
    """Return a recipe with the likeliest constant and the penalties correction · σ̂²d_g/n, where it leaves them open.

    σ̂² is the residual variance of the model of all groups, or the estimate of restricted maximum likelihood if fewer
    than 20 degrees of freedom are left to that model.
    """
    if recipe.auto:
        recipe = recipe.with_alpha(spectrum_of(moments, recipe).alpha())
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


def settled_by_columns(recipe: Recipe, A: StandardisedColumns, targets: Float) -> Recipe:
    """Return the same for a wide table, with σ̂² by restricted maximum likelihood."""
    if recipe.auto:
        check_size(AUTO, A.root.size, A.scale.size, MOST_SQUARED)
        recipe = recipe.with_alpha(Spectrum.of_columns(A, targets).alpha())
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


def settled_by_engine(recipe: Recipe, engine: Engine, family: Family | SetFamily) -> Recipe:
    """Return the same for a generalised linear model: about the likeliest constant, penalties correction · d_g/n.

    At the intercept-only model all rows have the same curvature, so its Hessian is that times the covariance. Rules
    that do not divide by the Hessian score in units of the mean curvature. Over sets, the covariance is that Hessian.
    """
    if recipe.auto:
        recipe = recipe.with_alpha(_likeliest(recipe, engine, family))
    if not recipe.correction:
        return recipe
    level = family.start(engine.y_mean)
    curvature: Float = np.ones(1)
    if not isinstance(family, SetFamily):
        every = np.broadcast_to(level, (level.size, level.size))
        curvature = np.asarray(np.linalg.eigvalsh(family.curvature(every).product(np.eye(level.size))), np.float64)
    found = effective_columns(recipe.sizes, lambda c: engine.covariance(1 + c), recipe.alpha, curvature)
    unit = 1.0 if recipe.rule in ("forward", "score") else float(curvature.mean())
    return replace(_penalised(recipe, found, 1 / engine.sample_size), unit=unit)


def warn_if_overfitted(recipe: Recipe, moments: Moments) -> None:
    """Warn if the model of all groups has more effective parameters than half the rows and twice those needed.

    Only if that is possible (half as many columns as rows) and cheap to find out.
    """
    n = moments.n_samples
    if not (recipe.alpha > 0 and FEWEST_ROWS <= n < 2 * moments.n_features <= 2 * CHEAP):
        return
    spectrum = spectrum_of(moments, recipe)
    best = spectrum.alpha()
    used, needed = spectrum.parameters(recipe.alpha), spectrum.parameters(best)
    if spectrum.explained.any() and used > max(n / 2, 2 * needed):
        warn(
            f"alpha={recipe.alpha:g} fits the noise: the model of all groups uses {used:.0f} effective parameters for "
            f"{n} rows. alpha='auto' chooses alpha={best:.2g}, which uses {needed:.0f}.",
            UserWarning,
        )


def spectrum_of(moments: Moments, recipe: Recipe, name: str = AUTO) -> Spectrum:
    """Return the spectrum of all columns of a recipe that are not constant; errors about size begin with ``name``."""
    scale = moments.standardisation(recipe.weights)[1]
    columns = recipe.by_group[np.isfinite(scale[recipe.by_group])]
    check_size(name, columns.size, columns.size, MOST_SQUARED)
    return Spectrum.of_gram(Gram.of(moments, columns, 0.0, recipe.weights), moments.n_samples)


def check_size(name: str, n_rows: int, n_columns: int, most: int) -> None:
    """Raise an error if the model of all columns is too large for what a parameter asks."""
    if min(n_rows, n_columns) > most:
        raise ValueError(
            f"{name} evaluates the model of all {n_columns} columns, which are too many with {n_rows} rows: one of the "
            f"numbers must be at most {most}. Set {name.split('=')[0]} to {'a number' if '=' in name else '0'}."
        )


def _likeliest(recipe: Recipe, engine: Engine, family: Family | SetFamily) -> float:
    with one_blas_thread():
        columns = recipe.by_group.size
        if isinstance(engine, RowsEngine | SetsEngine):
            check_size(AUTO, engine.n_rows, columns, MOST_SCORES)
            if engine.n_rows < columns:  # rotate a wide table, so that it has no more columns than rows
                engine = engine.over(rotated(engine.A))
                columns = engine.x_scale.size
        dispersed = not isinstance(family, Logistic | Softmax | SetFamily)
        return likeliest_alpha(engine, family.start(engine.y_mean), columns, dispersed=dispersed)


def _penalised(recipe: Recipe, columns: Float, each: float) -> Recipe:
    """Return a recipe with penalties for effective numbers of columns (J,)."""
    return replace(recipe, penalties=recipe.correction * each * columns)
