"""Plans: what to buy for a budget that is known, and the model of it.

For squared error a plan is the best set of the quadratic problem of the model, proven by a certificate, and its model
the least-squares fit of these groups.

For other losses every set would need a fit. The risk is approximated by a quadratic around up to three fitted stages:
the empty one, the last that the budget pays for, and the last. The best set of each is a candidate; another is the
sequence itself, filled up with what still fits. The candidate that explains most is the plan.

:mod:`~budgetline.optimality.best_sets` searches, :mod:`~budgetline.optimality.planned_models` fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Array, Float, Mask
from budgetline.devices import like
from budgetline.inputs import check_number
from budgetline.messages import printable
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.optimality.best_sets import best_sets
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.conditions import Conditions, GroupNames
from budgetline.optimality.planned_models import FitToData, TrainingData, from_gram, from_population, refit_to
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.search import filled
from budgetline.progress import Progress
from budgetline.tables import rounded_down


@dataclass(frozen=True, eq=False)
class Plan:
    """The best set of groups for a budget that is known, and the models fitted on it.

    The order of a model serves every budget, so that it can be interrupted; a plan serves one. Estimators make plans:
    :meth:`AnytimeRegressor.plan`. A plan works wherever a fitted model does: in ``save``, ``to_onnx``,
    :class:`AnytimeRunner`, curves and reports. A plan that was saved is loaded as the estimator it came from, with the
    groups of the plan as its sequence.

    For squared error the set maximises, over all sets that the budget can pay for, F on the training data, less the
    correction if the model was fitted with one; ``bound`` is proven by ``certificate``. For other losses the set comes
    from quadratic models of the risk around fitted stages. It is a good set, not always the best, and nothing is
    certified: ``bound`` and ``certificate`` are None.

    Attributes
    ----------
    groups : tuple of str
        In the order in which they are bought.
    cost : float
    explained : float
        F/R(∅): the share of the training risk that the set explains; an estimate where ``refitted`` is False.
    value : float
        What was maximised, as a share of R(∅): ``explained`` less the correction of the groups.
    bound : float or None
        No set that is allowed and affordable has a value above this.
    optimal : bool
        Whether ``value`` reaches ``bound``, up to rounding.
    certificate : Certificate or None
        The proof of ``bound``. What it certifies is F less the correction.
    refitted : bool
        Whether the models are the minimisers of the loss on their groups: always for squared error, for other losses if
        the data were given or the groups are a prefix of the sequence. Otherwise they are those of
        ``predict(available=...)``: approximations.
    model_ : AnytimeModel
        The sequence of the groups of the plan; its last stage is the model of the plan.

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
        """Value over bound: the certified share of the optimum; None if nothing is certified.

        Where the bound is not positive: 1 if the plan is optimal, otherwise 0.
        """
        if self.bound is None:
            return None
        return max(0.0, min(1.0, self.value / self.bound)) if self.bound > 0 else float(self.optimal)

    def predict(self, X: object) -> Array:
        """Predict from the groups of the plan; columns of other groups are not read."""
        return self._answer("predict", X)

    def predict_proba(self, X: object) -> Float:
        """Return probabilities of the classes, shape (n, P), from the groups of the plan."""
        return self._answer("predict_proba", X)

    def decision_function(self, X: object) -> Float:
        """Return the scores of a classifier, shape (n,) for two classes, (n, P) for more."""
        return self._answer("decision_function", X)

    def _answer(self, method: str, X: object) -> Array:
        if method != "predict" and self.model_.classes is None:
            raise TypeError(f"{method} is for classifiers; this plan is of an {self.model_.estimator}: use predict")
        watch = self.model_.watch()
        scores = self.model_.scores(X, watch=watch)
        watch.warn()
        return like(X, self.model_.respond(scores, method))

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
    at_most_one: Iterable[GroupNames] = (),
    time_limit: float = 5.0,
    data: TrainingData | None = None,
    progress: Progress = None,
) -> Plan:
    """Find the best set of groups of a fitted model for a budget; parameters as in :meth:`AnytimeRegressor.plan`."""
    about = {"include": include, "exclude": exclude, "at_most_one": at_most_one}
    return plans(model, [budget], **about, time_limit=time_limit, data=data, progress=progress)[0]  # type: ignore[arg-type]


def plans(
    model: object,
    budgets: Iterable[float],
    *,
    include: GroupNames = (),
    exclude: GroupNames = (),
    at_most_one: Iterable[GroupNames] = (),
    time_limit: float = 5.0,
    data: TrainingData | None = None,
    progress: Progress = None,
) -> tuple[Plan, ...]:
    """Return the plan for every budget; they share the time. With ``data`` the models of the plans are fitted to it."""
    known = as_model(model)
    refit = None if data is None else refit_to(known, data)
    conditions = Conditions.of(known.groups, include, exclude, at_most_one, known.settings.get("start", ()))
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    amounts = [check_number("budget", budget, ge=0, finite=True) for budget in budgets]
    make = _exact_plans if known.squared_error else _approximate_plans
    return make(known, amounts, conditions, limit, progress, refit)


def _exact_plans(
    model: AnytimeModel,
    budgets: list[float],
    conditions: Conditions,
    time_limit: float,
    progress: Progress,
    refit: FitToData | None,
) -> tuple[Plan, ...]:
    """Return the plans of a model of squared error."""
    if model.moments is not None:
        problem = Quadratic.of_model(model)
    else:
        problem, conditions = Quadratic.of_sequence(model), conditions.within(model)
    problem = replace(problem, penalties=model.penalties)
    found, unit = [], problem.gram.null_value or 1.0
    for best in best_sets(problem, conditions, budgets, time_limit, progress):
        order = best.certificate.order.tolist()
        own = from_gram(model, problem.gram, order) if refit is None else refit(best.groups)
        explained = best.explained if refit is None else _explained(own)
        shares = explained, best.value / unit, best.bound / unit
        found.append(Plan(best.groups, best.cost, *shares, best.optimal, best.certificate, True, own))
    return tuple(found)


def _approximate_plans(
    model: AnytimeModel,
    budgets: list[float],
    conditions: Conditions,
    time_limit: float,
    progress: Progress,
    refit: FitToData | None,
) -> tuple[Plan, ...]:
    """Return the plans of a model of another loss: the best of a few candidates each."""
    about, order = conditions.within(model), model.sequence.order.tolist()
    searches: dict[int, list[int]] = {}  # the budgets to search for around each stage
    for k, budget in enumerate(budgets):
        for stage in stages_to_search(model, budget):
            searches.setdefault(stage, []).append(k)
    share = time_limit / max(1, sum(map(len, searches.values())))
    candidates = [[filled(about, about.included, about.excluded, budget, order)] for budget in budgets]
    for stage, asked in searches.items():
        problem = replace(Quadratic.around(model, stage), penalties=model.penalties)
        found = best_sets(problem, about, [budgets[k] for k in asked], share * len(asked), progress)
        for k, each in zip(asked, found, strict=True):
            candidates[k].append(np.isin(model.groups.names, each.groups))
    different = [{each.tobytes(): each for each in several}.values() for several in candidates]
    return tuple(
        max((_of_set(model, about, each, refit) for each in several), key=lambda plan: plan.value)
        for several in different
    )


def stages_to_search(model: AnytimeModel, budget: float) -> list[int]:
    """Return the stages around which to approximate the risk: the empty one, the one that a budget buys, the last."""
    return sorted({0, model.sequence.stage_at(budget), model.n_stages})


def _of_set(model: AnytimeModel, about: Conditions, chosen: Mask, refit: FitToData | None) -> Plan:
    """Return the plan of a set, fitted if there are data."""
    steps = chosen[model.sequence.order]
    groups = tuple(np.array(model.sequence.groups, dtype=object)[steps].tolist())
    own = from_population(model, steps) if refit is None else refit(groups)
    explained = _explained(own)
    lost = 0.0 if model.penalties is None else float(model.penalties[chosen].sum()) / (own.sequence.null_value or 1.0)
    exact = refit is not None or bool(steps[: len(groups)].all())  # prefixes of the sequence have been fitted
    cost = about.prices.cost(chosen)
    return Plan(groups, cost, explained, explained - lost, None, False, None, exact, own)


def _explained(model: AnytimeModel) -> float:
    """Return F/R(∅) of all groups of a sequence."""
    return float(np.append(0.0, model.sequence.explained)[-1])
