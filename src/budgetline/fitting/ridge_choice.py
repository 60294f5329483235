"""The ridge constant of ``alpha="auto"``: chosen for the model of all groups, from the statistics of the fit."""

from __future__ import annotations

import numpy as np

from budgetline.arrays import Float
from budgetline.fitting.recipe import Recipe
from budgetline.glm.engines import Engine
from budgetline.glm.families import Family, Logistic, Softmax
from budgetline.glm.laplace import likeliest_alpha
from budgetline.glm.rows_engine import RowsEngine
from budgetline.leastsquares.gram import Gram
from budgetline.leastsquares.ridge import Spectrum, rotated
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
"""Whether a constant that was given is far off is looked at for up to this many columns."""


def with_alpha_of_moments(recipe: Recipe, moments: Moments) -> Recipe:
    """Return a recipe with the likeliest constant, if it is to be chosen."""
    return recipe.with_alpha(spectrum_of(moments, recipe).alpha()) if recipe.auto else recipe


def spectrum_of(moments: Moments, recipe: Recipe, name: str = AUTO) -> Spectrum:
    """Return the spectrum of all columns of a recipe that are not constant; ``name`` says in errors what for."""
    scale = moments.standardisation(recipe.weights)[1]
    columns = recipe.by_group[np.isfinite(scale[recipe.by_group])]
    check_size(name, columns.size, columns.size, MOST_SQUARED)
    return Spectrum.of_gram(Gram.of(moments, columns, 0.0, recipe.weights), moments.n_samples)


def warn_if_overfitted(recipe: Recipe, moments: Moments) -> None:
    """Warn if a constant lets the model of all groups use more parameters than half the rows, and twice those needed.

    Looked at only where half as many columns as rows make that possible, and their spectrum costs little.
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


def with_alpha_of_columns(recipe: Recipe, A: StandardisedColumns, targets: Float) -> Recipe:
    """Return a recipe with the likeliest constant on a wide table, if it is to be chosen."""
    if not recipe.auto:
        return recipe
    check_size(AUTO, A.root.size, A.scale.size, MOST_SQUARED)
    return recipe.with_alpha(Spectrum.of_columns(A, targets).alpha())


def with_alpha_of_engine(recipe: Recipe, engine: Engine, family: Family) -> Recipe:
    """Return a recipe with about the likeliest constant for a loss other than squared error, if it is to be chosen."""
    if not recipe.auto:
        return recipe
    with one_blas_thread():
        columns = recipe.by_group.size
        if isinstance(engine, RowsEngine):
            check_size(AUTO, engine.n_rows, columns, MOST_SCORES)
            if engine.n_rows < columns:
                engine, columns = _narrow(engine)
        dispersed = not isinstance(family, Logistic | Softmax)
        return recipe.with_alpha(likeliest_alpha(engine, family.start(engine.y_mean), columns, dispersed=dispersed))


def _narrow(engine: RowsEngine) -> tuple[RowsEngine, int]:
    """Return the engine of a wide table, turned so that it has no more columns than rows."""
    A = rotated(engine.A)
    return RowsEngine(A, engine.targets, np.arange(A.scale.size), engine.loss), A.scale.size


def check_size(name: str, n_rows: int, n_columns: int, most: int) -> None:
    """Raise an error if the model of all columns is too large for what a parameter asks."""
    if min(n_rows, n_columns) > most:
        raise ValueError(
            f"{name} evaluates the model of all {n_columns} columns, which are too many with {n_rows} rows: one of the "
            f"numbers must be at most {most}. Set {name.split('=')[0]} to {'a number' if '=' in name else '0'}."
        )
