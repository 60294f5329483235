"""Effects: what every column adds to the score of a stage, as curves, bars, and tables of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import product

import numpy as np
from scipy.special import stdtrit

from budgetline.arrays import Float, Positions
from budgetline.encoding.encoders import CategoryEncoder, Encoder, NumberEncoder
from budgetline.encoding.raw import RawColumn
from budgetline.encoding.table import TableEncoding
from budgetline.evaluation.displays import Artist, plot_effects
from budgetline.evaluation.pictures import Axis, ScoreEffect
from budgetline.inputs import check_number
from budgetline.messages import name_of, printable, shown, some
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.tables import Tabular

POINTS, PAIR_POINTS = 48, 16
"""Points of a curve (at least), and numbers of each column of a pair (at most)."""
REACH = 1.5
"""A curve extends this many spans of the inner knots beyond them, but not beyond the data."""
INLINE = "display:inline-block;vertical-align:top;width:21rem;margin:.5rem"
BAND = 0.9
"""Coverage of the bands that are drawn."""
DIGITS = 5
"""Digits of the points of a curve, relative to their span."""


@dataclass(frozen=True, eq=False)
class Effect(Tabular):
    """What a column, or a pair of columns, adds to the score.

    Attributes
    ----------
    group : str
        The group to which the column belongs. A pair of columns is a group of its own.
    axes : tuple of Axis
        One axis for a single column, or two axes for a pair. The points of an axis are stored in three parts, in this
        order: ``axis.numbers`` are ascending and connected by a curve; ``axis.spikes`` are frequent numbers with
        effects of their own, or all numbers of a column that has few distinct values; and ``axis.categories`` include
        "(rare)" and "(missing)". ``axis.rug`` holds the knots of the curve.
    values : array of shape (points,), or (points, points) for a pair
        The effect at each point. Its mean over the training data is 0. If there are P scores, the array has an
        additional last axis of length P.
    outputs : tuple of str
        Names of the P scores. For more than two classes, these are the classes. For two classes, the only name is the
        class that a positive effect makes more likely. Several targets are numbered, and a single target has no name.
    classes : bool
        Whether the outputs are classes.
    errors : array or None
        Standard errors, in the shape of ``values``. They reflect the noise in the rows, with the ridge penalty treated
        as a prior, but not the uncertainty in the choice of the groups. None if the dispersion of the loss is unknown,
        as for a ``ConvexLoss``, or if there are too few rows to estimate it. Also None for a plan that was not
        refitted, unless its loss is squared error.
    free : float
        Degrees of freedom of the standard errors; infinity if the dispersion is known.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor
    >>> effect = AnytimeRegressor(alpha=0.0).fit([[1.0], [2.0], [6.0]], [2.0, 4.0, 12.0]).effects()["0"]
    >>> effect.name, round(float(np.ptp(effect.values) / np.ptp(effect.axes[0].numbers)), 6)
    ('0', 2.0)
    """

    group: str
    axes: tuple[Axis, ...]
    values: Float
    outputs: tuple[str, ...] = ()
    classes: bool = False
    errors: Float | None = None
    free: float = np.inf

    @property
    def name(self) -> str:
        """The column, or both columns of a pair."""
        return " × ".join(axis.column for axis in self.axes)

    def margins(self, coverage: float = BAND) -> Float | None:
        """Return half the width of the pointwise band with this ``coverage`` at each value; None if it is unknown."""
        check_number("coverage", coverage, "number between 0 and 1", gt=0, lt=1)
        if self.errors is None or not np.isfinite(self.errors).all():
            return None
        return self.errors * float(stdtrit(min(self.free, 1e9), (1 + coverage) / 2))

    def on_scores(self) -> Iterator[ScoreEffect]:
        """Yield the effect on each score, with the margins of its band."""
        margins = self.margins()
        parts = [part if part is None else self._by_score(part) for part in (self.values, margins)]
        for k, output in enumerate(self.outputs or ("",)):
            values, reach = (() if part is None else tuple(part[k].ravel().tolist()) for part in parts)
            yield ScoreEffect(self.group, self.axes, output, self.classes, values, reach)

    def _by_score(self, values: Float) -> Float:
        return np.moveaxis(values, -1, 0) if values.ndim > len(self.axes) else values[None]

    def to_dict(self) -> dict[str, list[object]]:
        """Return a dict of columns, one row per point and score; ``number`` is NaN for categories and missing values.

        ``lower`` and ``upper`` are the limits of a pointwise 90 % band. They are NaN if the band is unknown.
        """
        first, second = self.axes if len(self.axes) == 2 else (*self.axes, NOWHERE)
        points = list(product(first.points(), second.points()))
        unknown = [np.nan] * len(points)
        rows = [
            (self.group, first.column, *point, second.column, *other, part.output, value, value - reach, value + reach)
            for part in self.on_scores()
            for (point, other), value, reach in zip(points, part.values, part.margins or unknown, strict=True)
        ]
        return {name: [row[k] for row in rows] for k, name in enumerate(COLUMNS)}

    def _repr_html_(self) -> str:
        parts = ((escape(printable(part.caption)), part.picture) for part in self.on_scores())
        return "".join(f'<figure style="{INLINE}"><figcaption>{a}</figcaption>{b}</figure>' for a, b in parts)


NOWHERE = Axis("", categories=("",))
COLUMNS = (
    "group", "column", "point", "number", "other_column", "other_point", "other_number", "output",
    "effect", "lower", "upper",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Effects(Tabular):
    """The effects of all columns at a stage. The score of a row is the base plus the effects of its columns.

    Attributes
    ----------
    base : float, or array of shape (P,)
        The mean score over the training data.
    effects : tuple of Effect
        The effects in the order of the sequence. Columns of the same group are next to each other.
    stage : int
        The number of groups that are bought.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRegressor
    >>> X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 1.0]])
    >>> effects = AnytimeRegressor(alpha=0.0).fit(X, 2 * X[:, 0] + X[:, 1]).effects()
    >>> effects
    Effects(2 at stage 2: 0, 1)
    >>> round(effects.base, 6), (effects["0"].values / effects["0"].axes[0].numbers[-1]).round(2).tolist()
    (5.5, [-0.94, 0.0, 0.94])
    """

    base: float | Float
    effects: tuple[Effect, ...]
    stage: int

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def __getitem__(self, name: str) -> Effect:
        """Return the effect of a column, or of a pair ("a × b")."""
        found = {effect.name: effect for effect in self.effects}
        if name not in found:
            raise KeyError(f"there is no effect of {shown(name)} at stage {self.stage}: the effects are {some(found)}")
        return found[name]

    def to_dict(self) -> dict[str, list[object]]:
        """Return all effects in one dict of columns, in the form of `Effect.to_dict`."""
        parts = [effect.to_dict() for effect in self.effects]
        return {name: [entry for part in parts for entry in part[name]] for name in COLUMNS}

    def __repr__(self) -> str:
        classes = self.effects[0].outputs if self.effects and self.effects[0].classes else ()
        up = f"; up means class {some(classes, of=name_of)}" if classes else ""
        return f"Effects({len(self)} at stage {self.stage}: {some((e.name for e in self), of=name_of)}{up})"

    def plot(self, ax: Artist = None, *, names: Sequence[str] | None = None) -> list[Artist]:
        """Draw the effects of all or some columns with matplotlib (the extra ``plot``).

        Curves, points and bars have pointwise 90 % bands, which do not account for the uncertainty in the choice of the
        groups.

        Parameters
        ----------
        ax : array of matplotlib axes, optional
            The axes to plot on: one per column or, with several scores, one per column and score. If None, a new figure
            is created.
        names : sequence of str, optional
            The columns, or pairs of columns such as "a × b", to draw. By default, all are drawn.

        Returns
        -------
        list of matplotlib axes
            The axes of each effect.
        """
        chosen = self.effects if names is None else [self[name] for name in names]
        return plot_effects([part for effect in chosen for part in effect.on_scores()], ax)

    def _repr_html_(self) -> str:
        return "".join(effect._repr_html_() for effect in self.effects)


def effects_of(fitted: object, *, stage: int | None = None, budget: float | None = None) -> Effects:
    """Return what each column adds to the score at a stage or a budget, by default at the last stage.

    The effect of a column is w'(z − z̄), where z are its design columns and z̄ their means over the training data. The
    standard errors come from the inverse Hessian of the stage (``model/spread.py``).
    """
    model = as_model(fitted)
    at = model.stages.last_stage(budget, stage, None)
    linear = model.stages.at_stage(at)
    single, classes = not model.target_shape, model.classes is not None
    names = tuple(map(str, range(model.n_targets) if model.classes is None else model.classes.tolist()))
    outputs = names if not single else names[-1:] if classes else ()
    base = linear.intercept + linear.coef @ model.stages.mean
    known, found = model.stages.errors_at(at, model.alpha), []
    errors_of, free = known or (None, np.inf)
    for g in model.sequence.order[:at].tolist():
        for axes, design, columns in _points_of(model, g):
            centred = design - model.stages.mean[columns]
            parts = [centred @ linear.coef[:, columns].T]
            if errors_of is not None:
                parts.append(errors_of(centred / model.stages.scale[columns], model.stages.places(columns)))
            values, *errors = (part[..., 0] if single else part for part in parts)
            about = (outputs, classes, errors[0] if errors else None, free)
            found.append(Effect(model.groups.names[g], axes, values, *about))
    return Effects(float(base[0]) if single else base, tuple(found), at)


def coef_errors_of(fitted: object, *, stage: int | None = None, budget: float | None = None) -> Float:
    """Return standard errors of the coefficients at a stage, in their shape; 0 for columns that are not used."""
    model = as_model(fitted)
    stages, at = model.stages, model.stages.last_stage(budget, stage, None)
    known, columns = stages.errors_at(at, model.alpha), stages.at_stage(at).columns
    if columns.size and known is None:
        raise ValueError(
            f"standard errors at stage {at} are not known: the dispersion of the loss is unknown, there are too few "
            "rows to estimate it, or this is a plan that was not refitted (pass X and y to plan)"
        )
    found = np.zeros((model.n_targets, stages.scale.size))
    for d, place in zip(columns.tolist(), stages.places(columns).tolist(), strict=True):
        assert known is not None
        found[:, d] = known[0](np.ones(1), np.array([place])) / stages.scale[d]
    return found if model.target_shape else found[0]


Points = tuple[tuple[Axis, ...], Float, Positions]
"""The axes of a column or a pair, its design columns there (points, …, width), and their positions in the model."""


def _points_of(model: AnytimeModel, g: int) -> Iterator[Points]:
    """Yield the columns of a group, or its pair."""
    encoding = model.encoding
    if encoding is None:
        yield from (_plain(model, d) for d in model.layout.columns[g].tolist())
        return
    pair = g - (len(model.groups) - len(encoding.pairs))
    if pair >= 0:
        yield _pair(encoding, pair)
        return
    for k in encoding.source.position[g].tolist():
        axis, design = _axis(encoding.names[k], encoding.encoders[k])
        yield (axis,), design, _columns(encoding, k)


def _plain(model: AnytimeModel, d: int) -> Points:
    """Return a straight line over the mean ± 2 standard deviations."""
    mean, scale = float(model.stages.mean[d]), float(model.stages.scale[d])
    far = 2 * scale if np.isfinite(scale) else 0.0
    x, columns = np.unique(_rounded(np.array([mean - far, mean, mean + far]))), np.array([d])
    return (Axis(model.layout.labels(columns)[0], tuple(x.tolist())),), x[:, None], columns


def _pair(encoding: TableEncoding, k: int) -> Points:
    pair, names, encoders = encoding.pairs[k], encoding.names, encoding.encoders
    (a, first), (b, second) = (_thinned(*_axis(names[d], encoders[d])) for d in pair.columns)
    products = pair.encode(np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1)))
    return (a, b), products.reshape(len(a), len(b), -1), _columns(encoding, len(encoders) + k)


def _columns(encoding: TableEncoding, k: int) -> Positions:
    return np.arange(encoding.ends[k], encoding.ends[k + 1])


def _axis(name: str, encoder: Encoder) -> tuple[Axis, Float]:
    """Return the points of a column, and its design columns there."""
    if isinstance(encoder, CategoryEncoder):
        return _category_axis(name, encoder)
    missing = ("(missing)",) if encoder.missing else ()
    if encoder.values:
        axis = Axis(name, spikes=encoder.values, categories=missing)
    else:
        knots = _knots(encoder)
        low, high = _bounds(knots)
        grid = np.append(np.linspace(low, high, POINTS), knots[(low <= knots) & (knots <= high)])
        grid = np.setdiff1d(_rounded(grid), encoder.spikes)
        axis = Axis(name, tuple(grid.tolist()), encoder.spikes, missing, tuple(_rounded(knots).tolist()))
    return axis, encoder.encode(RawColumn(name, np.array(axis.all_numbers)))


def _category_axis(name: str, encoder: CategoryEncoder) -> tuple[Axis, Float]:
    """Return all categories; a single flag also has the category without the flag."""
    flags = np.eye(encoder.width)
    if encoder.width == 1 and encoder.categories:
        other = encoder.reference or f"(not {encoder.categories[0]})"
        return Axis(name, categories=(other, *encoder.categories)), np.vstack([np.zeros(1), flags])
    return Axis(name, categories=encoder.flags), flags


def _thinned(axis: Axis, design: Float) -> tuple[Axis, Float]:
    """Leave out points of a curve, so that a pair has few."""
    C = len(axis.numbers)
    kept = np.linspace(0, C - 1, min(C, PAIR_POINTS)).round().astype(np.intp)
    fewer = replace(axis, numbers=tuple(axis.numbers[k] for k in kept.tolist()))
    return fewer, design[np.append(kept, np.arange(C, len(axis)))]


def _knots(encoder: NumberEncoder) -> Float:
    """Return the knots in the units of the column; for a line, the warped mean ± 2 standard deviations."""
    t, warp = encoder.curve.knots, encoder.warp
    if t.size == 1:
        t = t + np.array([-2.0, 2.0]) / (encoder.curve.pieces[0, 1, 0] or 1.0)  # 0 for a column of one value
    return np.asarray(warp.middle + warp.scale * np.sinh(t))


def _bounds(knots: Float) -> tuple[float, float]:
    """Return the ends of a curve: the outer knots, unless these are far away from the others."""
    inner = knots[1:-1] if knots.size > 3 else knots
    far = REACH * float(np.ptp(inner))
    return max(float(knots[0]), float(inner[0]) - far), min(float(knots[-1]), float(inner[-1]) + far)


def _rounded(x: Float) -> Float:
    span = float(np.ptp(x)) or float(np.abs(x).max()) or 1.0
    return np.asarray(np.round(x, DIGITS - int(np.floor(np.log10(span)))))
