"""From an engine to a staged generalised linear model."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgWarning

from budgetline.arrays import Float, Positions
from budgetline.fitting.open_settings import settled_by_engine
from budgetline.fitting.recipe import Recipe
from budgetline.glm.engines import Engine
from budgetline.glm.families import Family, Logistic, Poisson, Softmax
from budgetline.glm.generalised_linear import GeneralisedLinear
from budgetline.glm.newton import factored
from budgetline.glm.set_families import Cox, SetFamily
from budgetline.leastsquares.gram import EPS
from budgetline.messages import warn
from budgetline.model.population import Population, cells_of, factor_of, within
from budgetline.model.spread import Spread, block_widths, covariance_blocks
from budgetline.model.stages import StagedModel, in_user_units
from budgetline.model.subsets import GeneralisedSubset, LinearSubset, Subset
from budgetline.sequencing.sequence import GroupSequence
from budgetline.threads import one_blas_thread

SAMPLE_ROWS, SAMPLE_NUMBERS = 20_000, 4 * 10**6
"""Limits of rows, and of numbers, that the cells of a population are learned from."""


def fit_generalised(
    engine: Engine, recipe: Recipe, family: Family | SetFamily, tol: float, *, subsets: bool = True
) -> tuple[StagedModel, Recipe]:
    """Run the greedy loop for a family; refit every stage to a gradient below ``tol`` · deviation of the targets.

    The columns of the engine are those of ``recipe.by_group``. Without ``subsets``, the model predicts only from
    prefixes. Also return the recipe with the ridge constant and the penalties that were found.
    """
    recipe = settled_by_engine(recipe, engine, family)
    unit = engine.y_spread if engine.y_spread > 0 else 1.0  # gradients are in units of the targets
    with one_blas_thread():
        level = family.start(engine.y_mean)
        settings = (recipe.alpha, tol * unit, recipe.rule, recipe.penalties)
        owners, external, blocks = _owners(recipe), family.external(np.eye(level.size)), list[Float]()

        def keep(columns: Positions, U: Float) -> None:
            found = covariance_blocks(U, block_widths(owners[columns]), external)
            blocks.append(found / engine.sample_size)

        # a listwise loss, whose targets are no outcomes, is no likelihood; others have no known dispersion
        kept = subsets and isinstance(family, Logistic | Softmax | Poisson | Cox)
        objective = GeneralisedLinear(engine, recipe.sizes, level, *settings, keep if kept else None)
        order, gains = recipe.order(objective)
        objective.warn_if_separable()
        if isinstance(family, SetFamily):
            subset: Subset = _quadratic(objective)
        else:
            population = _population(engine, objective, family) if subsets else None
            subset = GeneralisedSubset(population, family, recipe.alpha)
    if engine.y_spread > 0:
        _warn_if_drowned(objective, engine)
    columns, null = recipe.by_group[objective.columns], family.external(objective.null.theta[0])
    path = np.zeros((order.size, 1 + columns.size, null.size))
    for stage, theta in zip(path, objective.stages, strict=True):
        stage[: len(theta)] = family.external(theta)
    mean, scale = engine.x_mean, engine.x_scale
    coef, intercept = in_user_units(path[:, 1:].transpose(0, 2, 1), columns, mean, scale, path[:, 0])
    ends = np.array([len(theta) - 1 for theta in objective.stages], dtype=np.intp)
    names, costs = tuple(recipe.names[g] for g in order), recipe.prices.steps(order)
    sequence = GroupSequence(order, names, costs, gains, objective.null_value)
    parts = (coef, intercept, null, columns, ends, subset, mean, scale)
    whole = 0 < order.size == len(blocks)  # no stage has too many coefficients
    spread = Spread(block_widths(owners[objective.columns]), np.concatenate(blocks)) if whole else None
    return StagedModel(sequence, recipe.names, *parts, spread), recipe


def _owners(recipe: Recipe) -> Positions:
    """Return which column of the user's table every column belongs to, group after group."""
    columns = recipe.by_group
    return columns if recipe.encoding is None else np.searchsorted(recipe.encoding.ends, columns, side="right")


def _quadratic(objective: GeneralisedLinear) -> LinearSubset:
    """Return models of subsets that minimise the quadratic model of the risk around the last stage.

    With H = U'U its Hessian and θ its coefficients, they are the least-squares solutions of Uw ≈ Uθ. Both sides are
    scaled so that all columns gain what the last stage gains.
    """
    fit = objective.last
    U, theta = factored(fit.hessian()[1:, 1:]) if fit.columns.size > 1 else np.zeros((0, 0)), fit.theta[1:]
    z = U @ theta
    scale = np.sqrt(2 * (objective.null.risk - fit.risk) / np.vdot(z, z)) if z.any() else 1.0
    kept, nothing = np.ones(len(U), dtype=bool), np.zeros(1)
    return LinearSubset(np.ascontiguousarray(scale * U), scale * z, kept, nothing, nothing, 0.0)


def _population(engine: Engine, objective: GeneralisedLinear, family: Family) -> Population:
    """Return what is kept of the rows: sums of the chosen columns, and means of cells of rows with similar scores."""
    columns, null = 1 + objective.columns, objective.null
    of_classes = family.loss == "log_loss"
    variance = float(family.curvature(null.theta).trace()[0]) if of_classes else engine.y_spread**2
    about = (null.slopes[objective.columns], null.theta[0], variance, float(engine.sample_size))
    if not columns.size:
        return Population(np.zeros((0, 0)), np.ones(1), np.zeros((1, 0)), *about)
    factor = factor_of(engine.covariance(columns[None])[0])
    sample = engine.sample(columns, min(SAMPLE_ROWS, SAMPLE_NUMBERS // columns.size + 1))
    theta = objective.stages[-1]
    share, mean = cells_of(sample.values, sample.weight, theta[0] + sample.values @ theta[1:])
    return Population(factor, share, within(factor, share, mean), *about)


def _warn_if_drowned(objective: GeneralisedLinear, engine: Engine) -> None:
    """Warn if the terms of the risk, Σω(φ(η) − y'η), are so large that changes of the risk are mostly rounding."""
    null = objective.null
    terms = abs(null.risk) + 2 * float(np.abs(engine.y_mean) @ np.abs(null.theta[0]))
    doubt = 16 * EPS * terms / max(objective.null_value, 1e-300)
    if doubt > 1e-6:
        warn(
            f"the gains are tiny compared with the size of the risk: about {max(0, int(-np.log10(doubt)))} digits of "
            "the gains can be trusted. If a few samples outweigh all others, make the weights less unequal.",
            LinAlgWarning,
        )
