"""Fits of a session: what the command line learns from the same table, groups and prices, and how good it is.

Every change on the page has two results. The first comes soon: the order, with the settings that were chosen before the
change (alpha, correction, pairs of columns), or with the library's defaults. The second is what ``budgetline fit``
learns, with settings that are chosen again on folds, and the held-out curves of ``budgetline report``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

from budgetline.estimators.cross_validation import unsearched
from budgetline.estimators.unattended import FOLDS, Estimator, estimator_for, shuffled_rows, unattended, usual_folds
from budgetline.evaluation import BudgetCurve, budget_curve
from budgetline.evaluation.resampling import Samples, folds_in_words, make_folds
from budgetline.explore.session_data import Sample
from budgetline.explore.state import State
from budgetline.messages import cut, hold_warnings, printable
from budgetline.model.anytime import AnytimeModel
from budgetline.progress import watching
from budgetline.report import Report
from budgetline.report.builders import describe
from budgetline.report.formatting import said_once

Tell = Callable[[str, int, int], None]
"""Is told what is being done, how many steps are done, and of how many."""
Check = Callable[[], None]
"""Raises an error if the work is not needed any more."""


@dataclass(frozen=True)
class Learned:
    """A model of the whole table, its curve there, and the curves of the models of the folds on held-out rows.

    ``estimator`` holds the model. ``plain`` is not fitted: it learns with what was chosen. ``notes`` are warnings.
    """

    state: State
    sample: Sample
    estimator: Estimator
    plain: Estimator
    training: BudgetCurve
    folds: tuple[BudgetCurve, ...]
    notes: tuple[str, ...]

    @property
    def model(self) -> AnytimeModel:
        """What was learned from the whole table."""
        return self.estimator.model_

    @cached_property
    def content(self) -> Report:
        """What a report says of the order and the curves."""
        state, made = self.state, folds_in_words(make_folds(FOLDS, self.model.classes is not None))
        mean, y = BudgetCurve.mean(self.folds), self.sample.y
        return describe(self.model, self.training, mean, title=state.title, unit=state.unit, y=y, folds_made=made)


def estimator_of(state: State, sample: Sample, *, search: bool = True) -> Estimator:
    """Return the estimator, not fitted, that ``budgetline fit`` uses for the same table, groups and settings.

    ``search`` False: as with ``--no-cv``.
    """
    classes, groups = state.task == "classification", state.feature_groups
    return unattended(
        groups,
        len(groups),
        sample.y,
        task=state.task,
        encoding=None if state.encoding == "none" else state.encoding,
        folds=usual_folds(sample.y, classes=classes) if search else None,
        alpha=state.alpha,
        rule=None if state.rule == "forward" else state.rule,
        loss=None if classes else state.loss,
        start=list(state.start) or None,
    )


def with_settings_of(state: State, sample: Sample, before: Estimator) -> Estimator:
    """Return the estimator of a state that searches nothing, with the settings that were chosen for another state."""
    asked, given = estimator_of(state, sample), before.get_params(deep=False)
    kept = {name: given[name] for name in ("alpha", "correction", "encoding")}
    others = {name: getattr(asked, name) for name in ("rule", "start", "min_gain", "max_groups")}
    loss = None if state.task == "classification" else state.loss
    return estimator_for(state.feature_groups, task=state.task, loss=loss, **kept, **others)


def fit(estimator: Estimator, sample: Sample) -> Estimator:
    """Fit an estimator as the command line does: folds are made of shuffled rows."""
    if hasattr(estimator, "cv"):
        rows = shuffled_rows(len(sample.y))
        sample = Sample(sample.X.take(rows), sample.y[rows])
    fitted: Estimator = estimator.fit(sample.X, sample.y)
    return fitted


def learn(
    sample: Sample,
    state: State,
    before: Estimator | None,
    check: Check,
    tell: Tell,
    show: Callable[[AnytimeModel], None],
) -> Learned:
    """Learn from the whole table and from the folds, and evaluate both.

    ``before`` has the settings that were chosen for an earlier state; None: no settings are known. ``show`` gets the
    model that is fitted first, without a search. ``tell`` is told how far the work is. ``check`` ends it by an error.
    """
    sample = sample.of(state.used)

    def telling(text: str, unit: str = "group") -> AbstractContextManager[None]:
        def listen(of: str, number: int, total: int | None) -> None:
            check()
            if of == unit and total is not None:
                tell(text, max(number - 1, 0), total)

        return watching(listen)

    with hold_warnings() as warnings:
        with telling("learning a first order"):
            plain = None if before is None else with_settings_of(state, sample, before)
            show(fit(plain or estimator_of(state, sample, search=False), sample).model_)
        with telling("choosing settings on folds", "fold fit"):
            fitted = fit(estimator_of(state, sample), sample)
        plain, folds = unsearched(fitted), list[BudgetCurve]()
        rows, classes = Samples(sample.X, sample.y), state.task == "classification"
        splits = rows.splits(make_folds(FOLDS, classes), classes)
        for k, (train, test) in enumerate(splits, start=1):
            with telling(f"fold {k} of {len(splits)}"):
                found = rows.take(train).fitted(plain)
            folds.append(rows.take(test).curve(found, state.metric))
        training = budget_curve(fitted, sample.X, sample.y, metric=state.metric)
    notes = tuple(cut(printable(text)) for text, _ in said_once(warnings))
    return Learned(state, sample, fitted, plain, training, tuple(folds), notes)
