"""Fits of a session: what the command line learns from the same table, groups and prices, and how good it is.

Every change on the page has two results. The first comes soon: the order, with the library's defaults for alpha, the
correction and pairs of columns. The second is what ``budgetline fit`` learns, with settings that are chosen on folds,
and the held-out curves of ``budgetline report``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

from budgetline.estimators.cross_validation import unsearched
from budgetline.estimators.unattended import FOLDS, Estimator, shuffled_rows, unattended, usual_folds
from budgetline.evaluation import BudgetCurve, budget_curve
from budgetline.evaluation.resampling import Samples, folds_in_words, make_folds
from budgetline.explore.session_data import Sample
from budgetline.explore.state import State
from budgetline.messages import cut, hold_warnings, printable
from budgetline.model.anytime import AnytimeModel, Staged
from budgetline.progress import watching
from budgetline.report import Report
from budgetline.report.builders import describe
from budgetline.report.formatting import said_once
from budgetline.report.on_folds import calibrated_curve

Tell = Callable[[str, int, int], None]
"""Receives what is being done, the number of finished steps, and the number of all steps."""
Check = Callable[[], None]
"""Raises an error if the work is no longer needed."""


@dataclass(frozen=True)
class Learned:
    """A model of the whole table, its curve there, and the curves of the models of the folds on held-out rows.

    ``estimator`` holds the model. ``plain`` is not fitted: it learns with what was chosen. ``folds`` are calibrated
    like the model; ``uncalibrated`` are not, and are compared with other orders. ``notes`` are warnings.
    """

    state: State
    sample: Sample
    estimator: Estimator
    plain: Estimator
    training: BudgetCurve
    folds: tuple[BudgetCurve, ...]
    uncalibrated: tuple[BudgetCurve, ...]
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
        encoding="spline",
        folds=usual_folds(sample.y, classes=classes) if search else None,
    )


def fit(estimator: Estimator, sample: Sample) -> Estimator:
    """Fit an estimator as the command line does: folds are made of shuffled rows."""
    if hasattr(estimator, "cv"):
        rows = shuffled_rows(len(sample.y))
        sample = Sample(sample.X.take(rows), sample.y[rows])
    fitted: Estimator = estimator.fit(sample.X, sample.y)
    return fitted


def telling(check: Check, tell: Tell, text: str, unit: str = "group") -> AbstractContextManager[None]:
    """Tell how many steps of a kind are done, and check, whenever the work of this context announces a step."""

    def listen(of: str, number: int, total: int | None) -> None:
        check()
        if of == unit and total is not None:
            tell(text, max(number - 1, 0), total)

    return watching(listen)


def fold_curves(
    estimator: object,
    sample: Sample,
    state: State,
    check: Check,
    tell: Tell,
    what: str = "",
    whole: Staged | None = None,
) -> tuple[tuple[BudgetCurve, ...], tuple[BudgetCurve, ...]]:
    """Return the curves of the folds on their held-out rows, as they are, and calibrated like a whole model."""
    rows, classes, curves = Samples(sample.X, sample.y), state.task == "classification", list[BudgetCurve]()
    calibrated = list[BudgetCurve]()
    splits = rows.splits(make_folds(FOLDS, classes), classes)
    for k, (train, test) in enumerate(splits, start=1):
        with telling(check, tell, f"{what}fold {k} of {len(splits)}"):
            found = rows.take(train).fitted(estimator)
        held = rows.take(test)
        curves.append(held.curve(found, state.metric))
        own = None if whole is None else calibrated_curve(whole, found, held, state.metric)
        calibrated.append(curves[-1] if own is None else own)
    return tuple(curves), tuple(calibrated)


def learn(sample: Sample, state: State, check: Check, tell: Tell, show: Callable[[AnytimeModel], None]) -> Learned:
    """Learn from the whole table and from the folds, and evaluate both.

    ``show`` gets the model that is fitted first, without a search. ``tell`` is told how far the work is. ``check`` ends
    it by an error.
    """
    sample = sample.of(state.used)
    with hold_warnings() as warnings:
        with telling(check, tell, "learning a first order"):
            show(fit(estimator_of(state, sample, search=False), sample).model_)
        with telling(check, tell, "choosing settings on folds", "fold fit"):
            fitted = fit(estimator_of(state, sample), sample)
        plain = unsearched(fitted)
        as_they_are, folds = fold_curves(plain, sample, state, check, tell, whole=fitted.model_)
        training = budget_curve(fitted, sample.X, sample.y, metric=state.metric)
    notes = tuple(cut(printable(text)) for text, _ in said_once(warnings))
    return Learned(state, sample, fitted, plain, training, folds, as_they_are, notes)
