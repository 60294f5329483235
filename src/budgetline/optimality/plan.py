"""Plans: what to buy for a budget that is known, and the model of it.

For squared error a plan is the best set of the quadratic problem of the model, proven by a certificate. Its model is
the least-squares fit of these groups, from C and b.

For other losses every set would need a fit. The risk is approximated by a quadratic around up to three fitted stages:
the empty one, the last that the budget pays for, and the last. The best set of each is a candidate. So are the prefix
of the sequence, the prefix filled up with what still fits, and the best single groups. All are compared by the value of
their models, and the best affordable one is the plan; so a larger budget never gets a worse set. The models come from
the population that the model keeps of its training rows: exact for prefixes of the sequence, otherwise approximations.

With the training data, either model is fitted to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from budgetline.arrays import Array, Float, Mask
from budgetline.bounds.certificate import Certificate
from budgetline.bounds.problem import Conditions, GroupNames, Quadratic
from budgetline.bounds.search import BestSet, best_sets
from budgetline.budgets import SLACK
from budgetline.devices import like
from budgetline.fitting import Recipe, RowsTraining, fit_model
from budgetline.fitting.linear import fit_gram, warn_from_moments
from budgetline.inputs import check_number
from budgetline.messages import printable, some
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.model.stages import StagedModel
from budgetline.model.subsets import LinearSubset
from budgetline.optimality.set_values import (
    known_columns,
    known_groups,
    problems_for,
    stages_of,
    stored_gains,
)
from budgetline.progress import Progress
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import FixedOrder
from budgetline.tables import rounded_down

FitToData = Callable[[tuple[str, ...]], AnytimeModel]
"""Fits the models of groups, in this order, to data."""
TrainingData = tuple[RowsTraining, Recipe]
"""The data that a model was fitted to, in memory and checked, and how it was fitted."""
BEST_SINGLES = 3
"""For losses other than squared error, this many single groups are candidates for each budget."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The best set of groups for a known budget, and the models fitted to it.

    The order of a model serves every budget, because it can be stopped at any point. A plan is made for one budget
    only. Estimators create plans with `AnytimeRegressor.plan`. A plan works wherever a fitted model does: in ``save``,
    ``to_onnx``, `AnytimeRunner`, curves and reports. Loading a saved plan gives an estimator of the class that created
    it. Its sequence consists of the groups of the plan.

    For squared error, the set maximises F, the reduction of the training risk, over all affordable sets. If the model
    was fitted with a correction, the correction is subtracted from F. The ``certificate`` proves the ``bound``. For
    other losses, the set comes from a quadratic model of the risk around a fitted stage or from the sequence, or it is
    a single group. The set is good but not necessarily the best, and nothing is certified: ``bound`` and
    ``certificate`` are None.

    Attributes
    ----------
    groups : tuple of str
        The groups in the order in which they are bought.
    cost : float
        Total cost of the groups.
    explained : float
        F/R(∅), the share of the training risk that the set explains. It is an estimate if ``refitted`` is False.
    value : float
        The value that was maximised, as a share of R(∅): ``explained`` minus the correction for the groups.
    bound : float or None
        Upper bound on the value of any allowed and affordable set.
    optimal : bool
        Whether ``value`` reaches ``bound``, up to rounding.
    certificate : Certificate or None
        The proof of ``bound``. It certifies F minus the correction.
    refitted : bool
        Whether the models minimise the loss on their groups. This is always the case for squared error. For other
        losses, it is the case only if the training data were passed or if the groups are a prefix of the sequence.
        Otherwise, the models are the approximations that ``predict(available=...)`` uses.
    model_ : AnytimeModel
        The model whose sequence consists of the groups of the plan. Its last stage is the model of the plan.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
    >>> plan = model.plan(200, time_limit=60)
    >>> plan
    Plan(cp, sex, age, trestbps, exercise, fluoroscopy: cost 194.2, explains 52.0%, optimal)
    >>> plan.predict(heart.data[:2]).round(2).tolist()
    [0.28, 1.31]
    """

    groups: tuple[str, ...]
    cost: float
    explained: float
    value: float
    bound: float | None
    optimal: bool
    certificate: Certificate | None
    refitted: bool
    model_: AnytimeModel

    @property
    def ratio(self) -> float | None:
        """The certified share of the optimum, which is the value divided by the bound; None if nothing is certified.

        If the bound is not positive, the ratio is 1 for an optimal plan and 0 for any other.
        """
        if self.bound is None:
            return None
        return max(0.0, min(1.0, self.value / self.bound)) if self.bound > 0 else float(self.optimal)

    def predict(self, X: object) -> Array:
        """Predict targets for the rows of X from the groups of the plan; columns of other groups are not read."""
        return self._respond("predict", X)

    def predict_proba(self, X: object) -> Float:
        """Return probabilities of the classes for the rows of X, shape (n, P), from the groups of the plan."""
        return self._respond("predict_proba", X)

    def decision_function(self, X: object) -> Float:
        """Return a classifier's scores for the rows of X, shape (n,) for two classes and (n, P) for more."""
        return self._respond("decision_function", X)

    def _respond(self, method: str, X: object) -> Array:
        if method != "predict" and self.model_.classes is None:
            raise TypeError(f"{method} is for classifiers; this plan is of an {self.model_.estimator}: use predict")
        return like(X, self.model_.result(X, method))

    def __repr__(self) -> str:
        groups = ", ".join(map(printable, self.groups)) or "nothing"
        about = "" if self.refitted else "about "
        return f"Plan({groups}: cost {self.cost:.6g}, explains {about}{self.explained:.1%}, {self._quality()})"

    def _quality(self) -> str:
        """Return in words how good the set is."""
        if self.certificate is None or self.ratio is None:
            return "not certified" if self.refitted else "an approximation, not certified"
        how = "optimal" if self.optimal else f"at least {rounded_down(self.ratio, 4):.2%} of the optimum"
        if condition := self.certificate.condition:
            how += f" of sets {condition}"
        return how if self.certificate.penalties is None else f"{how}, less the correction"

    def _repr_html_(self) -> str:
        return self.model_.sequence._repr_html_()


def plan(
    model: object,
    budget: float,
    *,
    include: GroupNames = (),
    exclude: GroupNames = (),
    time_limit: float = 5.0,
    data: TrainingData | None = None,
    progress: Progress = None,
) -> Plan:
    """Find the best set of groups of a fitted model for a budget; parameters as in `AnytimeRegressor.plan`.

    ``data`` holds the training data in an internal form, which `AnytimeRegressor.plan` creates from X and y. If it is
    passed, the models of the plan are refitted to these data.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_heart
    >>> from budgetline.optimality import plan
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
    >>> plan(model, 100, time_limit=60)
    Plan(cp, sex, age, trestbps, exercise: cost 93.3, explains 46.6%, optimal)
    """
    found = plans(
        model, [budget], include=include, exclude=exclude, time_limit=time_limit, data=data, progress=progress
    )
    return found[0]


def plans(
    model: object,
    budgets: Iterable[float],
    *,
    include: GroupNames = (),
    exclude: GroupNames = (),
    time_limit: float = 5.0,
    data: TrainingData | None = None,
    progress: Progress = None,
) -> tuple[Plan, ...]:
    """Find plans of a ``model`` for several ``budgets`` within one time limit; parameters as in ``plan``.

    A plan for a larger budget never has a smaller ``value``. If ``data`` is passed, the models of the plans are
    refitted to these training data.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_heart
    >>> from budgetline.optimality import plans
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
    >>> [each.cost for each in plans(model, [3, 100], time_limit=60)]
    [3.0, 93.3]
    """
    known = as_model(model)
    refit = None if data is None else _refit_to(known, data)
    conditions = Conditions.of(known.groups, include, exclude, known.settings.get("start", ()))
    conditions = conditions.among(known_groups(known), known.groups.names)
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    amounts = [check_number("budget", budget, ge=0, finite=True) for budget in budgets]
    if known.squared_error:
        ((problem, _),) = problems_for(known, amounts)
        found = best_sets(problem, conditions, amounts, limit, progress)
        return tuple(_exact_plan(known, problem, best, refit) for best in found)
    candidates = _candidates(known, amounts, conditions, limit, progress)
    return _best_of(known, amounts, candidates, conditions, refit)


def _exact_plan(model: AnytimeModel, problem: Quadratic, best: BestSet, refit: FitToData | None) -> Plan:
    """Return the plan of the best set for squared error, with its certificate."""
    unit = problem.gram.null_value or 1.0
    order, cost = best.certificate.order.tolist(), problem.prices.cost(best.chosen)
    groups = tuple(model.groups.names[g] for g in order)
    own = _from_gram(model, problem, order) if refit is None else refit(groups)
    explained = (best.value + problem.penalty(best.chosen)) / unit if refit is None else _explained(own)
    value, bound = best.value / unit, float(best.certificate.bounds[0]) / unit
    return Plan(groups, cost, explained, value, bound, best.optimal, best.certificate, True, own)


def _candidates(
    model: AnytimeModel, budgets: list[float], conditions: Conditions, time_limit: float, progress: Progress
) -> list[Mask]:
    """Return a few good sets for every budget, for a loss other than squared error."""
    order, stage_at = model.sequence.order.tolist(), model.sequence.stage_at
    candidates = [conditions.filled(budget, order) for budget in budgets]
    share = time_limit / max(1, 3 * len(budgets))
    for problem, asked in problems_for(model, budgets):
        found = best_sets(problem, conditions, [budgets[k] for k in asked], share * len(asked), progress)
        candidates += [each.chosen for each in found]
    candidates += [conditions.filled(budget, order[: stage_at(budget)]) for budget in budgets]
    singles = _singles(model, conditions)
    for budget in budgets:
        candidates += _affordable(model, singles, budget)[:BEST_SINGLES]
    return candidates


def _singles(model: AnytimeModel, conditions: Conditions) -> list[Mask]:
    """Return the included groups with one further group and what it requires, by falling estimated value."""
    prices, included = model.groups.prices, conditions.included
    sets = [included | prices.closure([g]) for g in np.flatnonzero(~included & ~conditions.excluded).tolist()]
    sets = [each for each in sets if not (each & conditions.excluded).any()]
    values = stored_gains(model, included, [np.flatnonzero(each & ~included) for each in sets])
    if model.penalties is not None:
        values = values - np.array([model.penalties[each].sum() for each in sets])
    return [sets[k] for k in np.argsort(-values, kind="stable")]


def _affordable(model: AnytimeModel, sets: list[Mask], budget: float) -> list[Mask]:
    """Return the sets that a budget pays for."""
    return [each for each in sets if model.groups.prices.cost(each) <= budget * (1 + SLACK)]


def _best_of(
    model: AnytimeModel, budgets: list[float], candidates: list[Mask], conditions: Conditions, refit: FitToData | None
) -> tuple[Plan, ...]:
    """Return the plan of the best affordable candidate for every budget, filled up if that is better.

    What a smaller budget buys is a candidate for every larger one.
    """
    order, known, found = model.sequence.order.tolist(), list(candidates), dict[int, Plan]()

    @cache
    def plan_of(chosen: bytes) -> Plan:
        return _of_set(model, np.frombuffer(chosen, dtype=bool), refit)

    def value(chosen: Mask) -> float:
        return plan_of(chosen.tobytes()).value

    for k in sorted(range(len(budgets)), key=budgets.__getitem__):
        best = max(_affordable(model, known, budgets[k]), key=value)
        known.append(conditions.filled(budgets[k], order, best))
        found[k] = plan_of(max(best, known[-1], key=value).tobytes())
    return tuple(found[k] for k in range(len(budgets)))


def _of_set(model: AnytimeModel, chosen: Mask, refit: FitToData | None) -> Plan:
    """Return the plan of a set, fitted if there are data."""
    steps = chosen[model.sequence.order]
    groups = tuple(np.array(model.sequence.groups, dtype=object)[steps].tolist())
    own = _with_stages(model, stages_of(model, steps)) if refit is None else refit(groups)
    explained = _explained(own)
    lost = 0.0 if model.penalties is None else float(model.penalties[chosen].sum()) / (own.sequence.null_value or 1.0)
    exact = refit is not None or bool(steps[: len(groups)].all())  # prefixes of the sequence have been fitted
    cost = model.groups.prices.cost(chosen)
    return Plan(groups, cost, explained, explained - lost, None, False, None, exact, own)


def _explained(model: AnytimeModel) -> float:
    """Return F/R(∅) of all groups of a sequence."""
    return float(np.append(0.0, model.sequence.explained)[-1])


# -- the models of a plan: one stage per group of its set --------------------------------------------------------------


def _from_gram(model: AnytimeModel, problem: Quadratic, order: list[int]) -> AnytimeModel:
    """Fit least squares to groups of a model in this order, from C and b of the columns that it knows."""
    read, stages = model.layout.read, model.stages
    recipe = Recipe(
        known_columns(model), model.groups.names, model.groups.prices, "forward", FixedOrder(order), Limits(), True,
        model.alpha, model.weights,
    )  # fmt: skip
    n_rows = stages.subset.n_rows if isinstance(stages.subset, LinearSubset) else 0.0
    units = (stages.mean[read], stages.scale[read], stages.null_intercept)
    found, doubt = fit_gram(problem.gram, recipe, *units, n_rows)
    warn_from_moments(doubt, problem.gram.eps, model.alpha)
    return _with_stages(model, found.embedded(read, model.layout.n_features))


def _refit_to(model: AnytimeModel, data: TrainingData) -> FitToData:
    """Return the function that fits groups of a model to its training data, in a given order."""
    rows, recipe = data
    if not np.array_equal(rows.layout.read, model.layout.read) or rows.task.family.loss != model.family.loss:
        raise ValueError("groups or loss have been changed since the fit: fit again")
    if model.classes is not None and not np.array_equal(np.asarray(rows.task.classes), model.classes):
        raise ValueError(f"y has other classes than the model, which knows {some(map(str, model.classes))}")

    def refitted(groups: tuple[str, ...]) -> AnytimeModel:
        exact = fit_model(rows, recipe.with_order(FixedOrder(groups), model.alpha))
        return replace(_with_stages(model, exact.stages), moments=exact.moments)

    return refitted


def _with_stages(model: AnytimeModel, stages: StagedModel) -> AnytimeModel:
    """Return the model with the stages of a set of its groups; its settings say that the order is given."""
    limits = {"max_cost": None, "max_groups": None, "min_gain": 0.0, "start": ()}
    given = limits | {"schedule": FixedOrder(stages.sequence.groups)}
    settings = {name: given.get(name, value) for name, value in model.settings.items()}
    like = model.stages.stages_gaining(np.append(0.0, np.cumsum(stages.sequence.gains)))
    return replace(model.with_stages(stages, like), settings=settings)
