"""Fits of a session: what is computed once for a table and a target, and what every other price or group needs.

Columns are encoded one by one, and all moments are of all columns. So other groups, prices and selections of columns
need no new pass over the rows: for squared error a fit is one run of the greedy loop on moments, for the whole table
and for each fold. Folds have encodings of their own, as in :func:`budgetline.cross_val_budget_curve`, whose numbers
these are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from budgetline.arrays import Array, Float, Positions
from budgetline.data.rows import Rows
from budgetline.encoding import Encoding
from budgetline.encoding.encoders import Encoder
from budgetline.encoding.fitting import encoding_from, summary_of
from budgetline.encoding.raw import ReadTable, raw_table
from budgetline.encoding.table import TableEncoding
from budgetline.estimators import AnytimeClassifier, AnytimeRegressor
from budgetline.estimators.base import DEFAULT_ALPHA
from budgetline.estimators.classifier import family_of
from budgetline.evaluation import BudgetCurve
from budgetline.evaluation.held_out import HeldOut
from budgetline.evaluation.metrics import RowMetric, as_metric
from budgetline.evaluation.resampling import Samples, make_folds
from budgetline.explore.state import State
from budgetline.explore.table import Sample
from budgetline.groups import FeatureGroups, Layout
from budgetline.groups.parsing import places_of, positions_of
from budgetline.inputs import check_labels, check_table, check_target, numbers_of
from budgetline.model.anytime import AnytimeModel
from budgetline.model.recipe import Recipe
from budgetline.model.training import Fold, MomentsTraining, RowsTraining
from budgetline.objectives.families import LOSSES, Family
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import Schedule, as_schedule
from budgetline.statistics.moments import Moments, moments_of

FOLDS = 5
Tell = Callable[[str, int, int], None]
"""Is told what is being done, how many steps are done, and of how many."""
Check = Callable[[], None]
"""Raises an error if the work is not needed any more."""


@dataclass(frozen=True)
class Setting:
    """What everything that is prepared depends on: the target, what is learned, and what columns become."""

    target: str
    task: str
    loss: str
    encoding: str

    @classmethod
    def of(cls, state: State) -> Setting:
        """Return the setting of a state that has a target."""
        assert state.target is not None
        return cls(state.target, state.task, state.loss, state.encoding)


@dataclass(frozen=True)
class Part:
    """Some rows: the design columns (n, D) of all columns of the table, and targets (n, P); ``y`` (n,) as given.

    ``encoders`` is None if columns are used as they are. With squared error only ``moments`` are kept; ``remake`` makes
    the design again where moments do not suffice.
    """

    names: tuple[str, ...]
    encoders: tuple[Encoder, ...] | None
    y: Array
    Y: Float
    design: Float | None
    moments: Moments | None
    remake: Callable[[], Float]

    @cached_property
    def ends(self) -> Positions:
        """Where the design columns of every column end, after a leading 0."""
        widths = [1] * len(self.names) if self.encoders is None else [encoder.width for encoder in self.encoders]
        return np.cumsum([0, *widths])

    def columns(self, used: tuple[str, ...]) -> Positions:
        """Return the design columns of some columns of the table."""
        place = {name: k for k, name in enumerate(self.names)}
        blocks = [np.arange(self.ends[place[name]], self.ends[place[name] + 1]) for name in used]
        return np.concatenate(blocks)

    def layout(self, groups: FeatureGroups, used: tuple[str, ...]) -> tuple[Layout, TableEncoding | None]:
        """Return which design columns, of the columns used, the groups are; and the encoding, if there is one."""
        source = groups.resolve(used, len(used))
        if self.encoders is None:
            return source, None
        place = dict(zip(self.names, self.encoders, strict=True))
        encoding = TableEncoding(source, tuple(place[name] for name in used))
        return encoding.layout, encoding


@dataclass(frozen=True)
class Prepared:
    """Training rows, of the whole table and of every fold, and the held-out rows of the folds."""

    setting: Setting
    sample: Sample
    family: Family
    classes: Array | None
    target_shape: tuple[int, ...]
    tol: float
    whole: Part
    training: tuple[Part, ...]
    held: tuple[Part, ...]

    @property
    def from_moments(self) -> bool:
        """Whether fits need moments alone."""
        return self.setting.loss == "squared_error"


def prepare(sample: Sample, columns: Collection[str], setting: Setting, tell: Tell, check: Check) -> Prepared:
    """Encode columns of a table, and compute the moments of the whole and of every fold."""
    names = tuple(name for name in sample.X.column_names if name in columns)
    y, shape, classes = sample.y, tuple[int, ...](), None
    if setting.task == "classification":
        classes, codes = check_labels(y, len(y))
        Y = codes[:, None].astype(np.float64) if classes.size == 2 else np.eye(classes.size)[codes]
        shape = () if classes.size == 2 else (classes.size,)
        family, tol = family_of(classes.size), AnytimeClassifier().tol
    else:
        Y, shape = check_target(y, len(y))
        family, tol = LOSSES[setting.loss](), 1e-10
    rows = Samples(sample.X.select(list(names)), y)
    splits = rows.splits(make_folds(FOLDS, classes is not None), classes is not None)
    made, total = list[Part](), 1 + 2 * len(splits)

    def part(index: Positions | None, like: Part | None = None) -> Part:
        check()
        tell("reading the table", len(made), total)
        taken = rows if index is None else rows.take(index)
        made.append(_part(taken, Y if index is None else Y[index], names, setting, like))
        return made[-1]

    whole = part(None)
    training = tuple(part(train) for train, _ in splits)
    held = tuple(part(test, like) for (_, test), like in zip(splits, training, strict=True))
    return Prepared(setting, sample, family, classes, shape, tol, whole, training, held)


def _part(rows: Samples, Y: Float, names: tuple[str, ...], setting: Setting, like: Part | None) -> Part:
    """Encode rows, as others were if ``like`` is given."""
    encoders = None if like is None else like.encoders
    if setting.encoding == "none":

        def remake() -> Float:
            return np.asarray(numbers_of(check_table(rows.X)), dtype=np.float64)

    else:
        source = FeatureGroups.singletons(names).resolve(names, len(names))
        read = ReadTable.of(raw_table(rows.X)[0], dict(enumerate(names)))
        if encoders is None:
            settings = Encoding(setting.encoding)
            encoders = encoding_from(summary_of(read, source, settings, None), source, settings).encoders
        encoding = TableEncoding(source, encoders)

        def remake() -> Float:
            return encoding.encode(read)

    design = remake()
    moments = moments_of(Rows(design, Y), ()) if setting.loss == "squared_error" else None
    return Part(names, encoders, np.asarray(rows.y), Y, None if moments is not None else design, moments, remake)


def estimator_of(state: State, **settings: object) -> AnytimeRegressor | AnytimeClassifier:
    """Return the estimator, not fitted, that learns what a state asks for."""
    encoding = None if state.encoding == "none" else state.encoding
    given: dict[str, object] = {
        "rule": state.rule, "start": list(state.start), "alpha": state.alpha, "encoding": encoding, **settings
    }  # fmt: skip
    if state.task == "classification":
        return AnytimeClassifier(state.feature_groups, **given)  # type: ignore[arg-type]
    return AnytimeRegressor(state.feature_groups, loss=state.loss, **given)  # type: ignore[arg-type]


class Checked:
    """A schedule that ends a fit which is not needed any more, at its next step."""

    def __init__(self, schedule: Schedule, check: Check) -> None:
        self.schedule, self.check = schedule, check
        self.bundles = getattr(schedule, "bundles", True)

    def allowed(self, costs: Float, remaining: Array, spent: float) -> Array:
        """Return what the schedule allows."""
        self.check()
        return self.schedule.allowed(costs, remaining, spent)


def fit(
    prepared: Prepared, part: Part, state: State, check: Check, *, alpha: float | None = None, **settings: object
) -> AnytimeModel:
    """Return the model that the library fits to some rows.

    ``alpha`` is the ridge constant, if it is known; ``settings`` are other ones of the estimator than those of the
    state.
    """
    alpha = state.alpha if alpha is None else alpha
    estimator = estimator_of(state, alpha=alpha, **settings)
    groups = state.feature_groups
    used = state.used
    layout, encoding = part.layout(groups, used)
    schedule = Checked(as_schedule(estimator.schedule, groups.names, groups.prices), check)
    recipe = Recipe(
        layout.position,
        groups.names,
        groups.prices,
        estimator.rule,
        schedule,
        Limits(None, None, 0.0),
        estimator.cost_sensitive,
        DEFAULT_ALPHA if alpha is None else alpha,
        None if encoding is None else encoding.weights,
        auto=alpha is None and encoding is not None,
        encoding=encoding,
        start=positions_of("start", state.start, places_of(groups.names)),
    )
    training = _training(prepared, part, layout, used)
    fitted = training.fit(recipe)
    return AnytimeModel(
        layout,
        fitted.stages.embedded(layout.read, layout.n_features),
        prepared.family,
        prepared.target_shape,
        fitted.alpha,
        prepared.classes,
        fitted.moments,
        type(estimator).__name__,
        estimator.get_params(deep=False),
        {"alpha_": fitted.alpha} if recipe.auto else {},
        encoding,
        fitted.penalties,
    )


def _training(prepared: Prepared, part: Part, layout: Layout, used: tuple[str, ...]) -> MomentsTraining | RowsTraining:
    """Return rows, or their moments, with the columns of a layout."""
    columns = None if used == part.names else part.columns(used)
    of_rows = (layout, prepared.family, prepared.tol, prepared.target_shape, prepared.classes)
    if part.moments is None:
        assert part.design is not None
        return RowsTraining(Rows(part.design, part.Y, None, columns), *of_rows)
    moments = part.moments if columns is None else part.moments.select(columns)

    def by_rows() -> Fold:
        training = RowsTraining(Rows(part.remake(), part.Y, None, columns), *of_rows)
        return Fold(training, lambda fitted: np.empty(0))

    return MomentsTraining(layout, (replace(moments, feature_names=layout.names_read),), by_rows)


def judge(prepared: Prepared, part: Part, model: AnytimeModel, state: State) -> BudgetCurve:
    """Return the curve of a model on some rows, in the metric of the state."""
    measure, columns = as_metric(state.metric), part.columns(state.used)
    if part.moments is not None and isinstance(measure, RowMetric) and measure.of_errors is not None:
        moments = part.moments.select(columns)
        variance = np.diag(moments.scatter)[moments.n_features :] / moments.weight
        values = measure.finished(measure.of_errors(model.stages.mean_squared_errors(moments)), variance)
    else:
        design = part.remake() if part.design is None else part.design
        table = design[:, columns[model.last.columns]]
        values = measure.values(HeldOut(model, table, part.y, table, fitted=model))
    costs = np.concatenate([[0.0], model.sequence.cumulative_costs])
    return BudgetCurve(costs, values, measure.name, measure.greater_is_better, ("", *model.sequence.groups))
