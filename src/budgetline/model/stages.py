"""Staged models: one linear model per prefix of a sequence, in the user's units."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float, Mask, Positions, Table
from budgetline.inputs import check_choice
from budgetline.messages import shown, some, warn
from budgetline.model.spread import Errors, Spread
from budgetline.model.staged import Available, RowFunction
from budgetline.model.subsets import LinearSubset, Subset
from budgetline.moments.moments import Moments
from budgetline.sequencing.sequence import GroupSequence

SCORE_BYTES = 1 << 22
"""One matrix product computes the scores of as many stages as fit into this."""
SAME_GAIN = 1e-9
"""Gains that differ by less than this share of all gains are equal."""


@dataclass(frozen=True)
class LinearModel:
    """One linear model: coefficients (P, D), intercepts (P,), the columns it reads, and the stage that it is like."""

    coef: Float
    intercept: Float
    columns: Positions
    stage: int


@dataclass(frozen=True)
class StagedModel:
    """The linear models of all stages, and a solver for any other subset of groups.

    Attributes
    ----------
    sequence : GroupSequence
    names : tuple of str
        Names of all groups, including those that were not chosen.
    coef_path : array of shape (stages, P, D)
    intercept_path : array of shape (stages, P)
    null_intercept : array of shape (P,)
        The model before any group: the training mean.
    columns : int array of shape (T,)
        The chosen columns of X, in the order of the sequence.
    column_ends : int array of shape (stages,)
        How many of them the first j stages use.
    subset : LinearSubset or GeneralisedSubset
        Models of subsets of the chosen columns, standardised.
    mean, scale : arrays of shape (D,)
        Standardisation of X.
    spread : Spread or None
        Covariances of the coefficients of all stages, if ``subset`` does not determine them.
    """

    sequence: GroupSequence
    names: tuple[str, ...]
    coef_path: Float
    intercept_path: Float
    null_intercept: Float
    columns: Positions
    column_ends: Positions
    subset: Subset
    mean: Float
    scale: Float
    spread: Spread | None = None

    @property
    def n_stages(self) -> int:
        """Number of stages, not counting stage 0."""
        return len(self.sequence)

    @property
    def widths(self) -> Positions:
        """How many columns each step adds, shape (stages,)."""
        return np.diff(self.column_ends, prepend=0)

    def embedded(self, columns: Positions, n_features: int) -> StagedModel:
        """Return the same model over a wider table, in which its columns are at the positions ``columns``."""
        if np.array_equal(columns, np.arange(n_features)):
            return self
        coef = np.zeros((*self.coef_path.shape[:-1], n_features))
        coef[..., columns] = self.coef_path
        mean, scale = np.zeros(n_features), np.full(n_features, np.inf)
        mean[columns], scale[columns] = self.mean, self.scale
        return replace(self, coef_path=coef, columns=columns[self.columns], mean=mean, scale=scale)

    def at_stage(self, stage: int) -> LinearModel:
        """Return the model of the first ``stage`` groups; stage 0 is the intercept alone."""
        if stage == 0:
            P, D = self.null_intercept.size, self.mean.size
            return LinearModel(np.zeros((P, D)), self.null_intercept, np.empty(0, dtype=np.intp), 0)
        columns = np.sort(self.columns[: self.column_ends[stage - 1]])
        return LinearModel(self.coef_path[stage - 1], self.intercept_path[stage - 1], columns, stage)

    def stage_scores(self, table: Table) -> Iterator[Float]:
        """Yield the scores (n, P) of stages 0, 1, …; several stages share one matrix product.

        ``table`` holds the columns of the last stage, in the order of ``at_stage(n_stages).columns``.
        """
        n, P = table.shape[0], self.null_intercept.size
        yield np.tile(self.null_intercept, (n, 1))
        at_once = max(1, SCORE_BYTES // (8 * n * P))
        step = max(1, SCORE_BYTES // (8 * max(table.shape[1], 1)))
        for start in range(0, self.n_stages, at_once):
            stages = slice(start, min(start + at_once, self.n_stages))
            scores = np.empty((n, stages.stop - start, P))
            for first in range(0, n, step):  # a table of another type is converted a few rows at a time
                scores[first : first + step] = self._product(table[first : first + step], stages)
            for j in range(scores.shape[1]):
                yield scores[:, j]

    def mean_over_rows(self, table: Table, weight: Float | None, rows_of: RowFunction) -> Float:
        """Return the weighted mean over rows of what ``rows_of(scores (m, K, P), rows)`` returns for all K stages.

        ``table`` holds the columns that the last stage uses. All stages share one product per chunk of rows.
        """
        n, P, total = table.shape[0], self.null_intercept.size, np.zeros(1)
        at_once = max(1, SCORE_BYTES // (8 * (1 + self.n_stages) * P))
        for start in range(0, n, at_once):
            rows = slice(start, min(start + at_once, n))
            null = np.broadcast_to(self.null_intercept, (rows.stop - start, 1, P))
            scores = np.concatenate([null, self._product(table[rows], slice(None))], axis=1)
            shares = np.ones(len(scores)) if weight is None else weight[rows]
            total = total + np.tensordot(shares, rows_of(scores, rows), axes=1)
        return np.asarray(total / (n if weight is None else weight.sum()))

    def mean_squared_errors(self, moments: Moments) -> Float:
        """Return mean squared errors (1 + stages, P) on the sample of the moments."""
        coef = np.concatenate([np.zeros((1, *self.coef_path.shape[1:])), self.coef_path])
        return moments.mean_squared_error(coef, np.vstack([self.null_intercept, self.intercept_path]))

    def _product(self, table: Table, stages: slice) -> Float:
        """Return the scores (n, K, P) of some stages, the first of them counted as 0."""
        columns = self.at_stage(self.n_stages).columns
        coef = self.coef_path[stages][..., columns]
        flat = np.asarray(table @ coef.reshape(len(coef) * self.null_intercept.size, columns.size).T)
        return flat.reshape(table.shape[0], len(coef), self.null_intercept.size) + self.intercept_path[stages]

    def of_groups(self, available: Collection[str]) -> LinearModel:
        """Return the model of exactly these groups, in any order; groups not in the sequence add nothing."""
        return self.of_steps(self.steps_of(available))

    def steps_of(self, available: Collection[str]) -> Mask:
        """Return which steps of the sequence these groups are, shape (stages,); warn about groups outside it."""
        wanted = {str(name) for name in available}
        if left_out := sorted(wanted - set(self.sequence.groups)):
            one = len(left_out) == 1
            which, them = (f"group {shown(left_out[0])} is", "it") if one else (f"groups {some(left_out)} are", "them")
            why = f"the order ended before {them}, because of a limit or for lack of gain"
            warn(f"{which} not used: {why}", UserWarning)
        return np.array([name in wanted for name in self.sequence.groups], dtype=bool)

    def of_steps(self, in_sequence: Mask) -> LinearModel:
        """Return the model of the groups at these steps of the sequence, a mask of shape (stages,)."""
        count = int(in_sequence.sum())
        if in_sequence[:count].all():
            return self.at_stage(count)
        return self._in_user_units(in_sequence, *self.subset.solve(in_sequence, self.widths))

    def stages_like(self, there: Mask) -> Positions:
        """Return which stages sets of the first k groups (n, k) are like, shape (n,); a prefix is its own stage.

        The gain of another set counts as the sum of the gains of its steps. Without an early group, the later ones
        explain rather more than that, so intervals are rather too wide than too narrow.
        """
        count = there.sum(axis=1)
        prefix = (there == (np.arange(there.shape[1]) < count[:, None])).all(axis=1)
        like = self.stages_gaining(there @ self.sequence.gains[: there.shape[1]])
        return np.where(prefix, count, like).astype(np.intp)

    def stages_gaining(self, gains: Float) -> Positions:
        """Return the last stages that gain no more than this, up to rounding: what holds for them holds for sets."""
        reached = np.maximum.accumulate(np.append(0.0, np.cumsum(self.sequence.gains)))
        return np.asarray(np.searchsorted(reached, gains + SAME_GAIN * reached[-1], side="right") - 1)

    def choose(self, budget: float | None, stage: int | None, available: Available) -> LinearModel:
        """Return the model that the keywords of ``predict`` ask for; without any, the last stage."""
        if isinstance(available, Iterator):
            available = list(available)  # an iterator can be read only once
        last = self.last_stage(budget, stage, available)
        return self.at_stage(last) if available is None else self.of_groups(available)

    def last_stage(self, budget: float | None, stage: int | None, available: Available) -> int:
        """Check the keywords of ``predict`` and return the stage that budget or stage allow; without any, the last."""
        check_choice(budget, stage, available, self.n_stages, self.names)
        if budget is not None:
            return self.sequence.stage_at(float(budget))
        return self.n_stages if stage is None else int(stage)

    def in_order(self, stage: int) -> tuple[Positions, Positions]:
        """Return the columns of the first groups, group after group, and where each group begins among them."""
        ends = self.column_ends[:stage]
        return self.columns[: ends[-1] if stage else 0], np.concatenate([[0], ends])[:stage].astype(np.intp)

    def pattern_scores(self, table: Table, there: Mask) -> Float:
        """Return the scores (n, P) of every row, by the model of exactly those of the first k groups that it has.

        Parameters
        ----------
        table : array of shape (n, T)
            The columns of the first k groups, group after group: those of ``in_order(k)``.
        there : bool array of shape (n, k)
            Which groups each row has; what the others hold does not matter.
        """
        k = there.shape[1]
        packed, which = np.unique(np.packbits(there, axis=1), axis=0, return_inverse=True)
        patterns = np.zeros((len(packed), self.n_stages), dtype=bool)
        patterns[:, :k] = np.unpackbits(packed, axis=1, count=k)
        columns, starts = self.in_order(k)
        widths = np.diff(starts, append=columns.size)
        rows = np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(np.bincount(which.ravel()))[:-1])
        scores = np.empty((there.shape[0], self.null_intercept.size))
        for pattern, own, model in zip(patterns, rows, self.of_patterns(patterns), strict=True):
            used = np.repeat(pattern[:k], widths)
            block = table if len(packed) == 1 else table[own]
            scores[own] = np.asarray(block[:, used] @ model.coef[:, columns[used]].T) + model.intercept
        return scores

    def of_patterns(self, patterns: Mask) -> Iterator[LinearModel]:
        """Yield the models of many sets of groups, masks (sets, stages), which share work."""
        prefix = (patterns == np.sort(patterns, axis=1)[:, ::-1]).all(axis=1)
        others = self.subset.solve_many(patterns[~prefix], self.widths)
        for pattern, exact in zip(patterns, prefix.tolist(), strict=True):
            yield self.at_stage(int(pattern.sum())) if exact else self._in_user_units(pattern, *next(others))

    def standardised(self, model: LinearModel) -> tuple[Float, Float]:
        """Return coefficients (P, T) of the standardised columns of the sequence and levels (P,) of a model."""
        scale = self.scale[self.columns]
        W = model.coef[:, self.columns] * np.where(np.isfinite(scale), scale, 0.0)
        return W, model.intercept + model.coef @ self.mean

    def places(self, columns: Positions) -> Positions:
        """Return where columns of X are among the chosen ones."""
        by_column = np.argsort(self.columns)
        return by_column[np.searchsorted(self.columns, columns, sorter=by_column)]

    def errors_at(self, stage: int, alpha: float) -> tuple[Errors, float] | None:
        """Return standard errors at a stage, and the degrees of freedom of the dispersion; None if it is unknown."""
        columns = self.columns[: self.column_ends[stage - 1]] if stage else self.columns[:0]
        if not columns.size:
            return None
        if self.spread is not None:
            return self.spread.errors(self.column_ends, stage), np.inf
        varying = np.isfinite(self.scale[columns])
        return self.subset.errors(columns.size, alpha, varying) if isinstance(self.subset, LinearSubset) else None

    def _in_user_units(self, in_sequence: Mask, W: Float, level: Float) -> LinearModel:
        coef, intercept = in_user_units(W, self.columns, self.mean, self.scale, level)
        columns = np.sort(self.columns[np.repeat(in_sequence, self.widths)])
        return LinearModel(coef, intercept, columns, int(self.stages_like(in_sequence[None])[0]))


def in_user_units(W: Float, columns: Positions, mean: Float, scale: Float, y_mean: Float) -> tuple[Float, Float]:
    """Turn coefficients (…, P, T) of standardised columns into coefficients (…, P, D) and intercepts (…, P) for X."""
    coef = np.zeros((*W.shape[:-1], mean.size))
    coef[..., columns] = W / scale[columns]
    return coef, y_mean - coef @ mean
