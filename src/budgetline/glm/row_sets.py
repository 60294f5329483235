"""Losses over sets of rows: documents of a query, or patients at risk when another one dies.

For scores η, the risk of a set s with the softmax π^s_j = b_j e^{η_j} / Σ_{i∈s} b_i e^{η_i} of its rows is

    d_s log Σ_{j∈s} b_j e^{η_j} − Σ_j t_j η_j.

With row weights c_j = Σ_{s∋j} d_s π^s_j, minus the gradient in η is t − c. The Hessian in the coefficients is a Gram
matrix of rows less one of the means of the sets:

    H = Σ_j c_j z_j z_j' − Σ_s d_s m_s m_s',      m_s = Σ_{j∈s} π^s_j z_j.

**One order for both.** Rows are put in an order in which every set is the beginning of a *segment*. The segments of a
ranking are its queries, with one set each. Those of survival times are strata with the latest times first: patients at
risk at some time are all that come before. So sums over sets are sums of the rows that each set adds (``firsts`` are
the first ones), accumulated within segments, and Σ_{s∋j} accumulates them from the other end. Logarithms are
accumulated, so a set whose scores are all far below those of the segment loses no digits.

**Tied events** (Efron's approximation). Each of m events at one time has a set in which the tied ones count less, by
f = 0, 1/m, …, (m−1)/m: the sum is S − fE, where E is the sum of the tied rows alone. The means of the m sets span two
directions, S and E, so two means are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from budgetline.arrays import Array, Float, Mask, Positions

FARTHEST = 600.0
"""A set whose sum is this far below the largest score of its segment, as a logarithm, adds nothing to the Hessian."""


@dataclass(frozen=True)
class SetPoint:
    """A loss over sets at scores (n,): its value, t − c, c, and the means of the sets as weighted sums of rows.

    ``share`` (n,) are the b_j e^{η_j}, up to a factor per segment. With the sums S and E of share·z over the rows of a
    set and over those tied in it, the means are ``root``·(S − ``less``·E) and ``rest``·E, each (S,).
    """

    risk: float
    residual: Float
    weight: Float
    share: Float
    root: Float
    less: Float
    rest: Float


@dataclass(frozen=True, eq=False)
class RowSets:
    """Sets of rows, each the beginning of a segment.

    Attributes
    ----------
    order : array of shape (n,)
        Rows of the table in the order of the segments; rows of weight zero are left out.
    firsts : array of shape (S,)
        The first row, in this order, that a set adds to the one before it.
    segments : array of shape (G + 1,)
        The first set of every segment, and S.
    mass : array of shape (S,)
        d. Sets of mass zero only hold rows that are in no other set.
    target : array of shape (n,)
        t, in this order; so are the next two.
    base : array of shape (n,)
        b.
    tied : mask of shape (n,)
        Events whose ties are approximated by Efron's method.
    """

    order: Positions
    firsts: Positions
    segments: Positions
    mass: Float
    target: Float
    base: Float
    tied: Mask

    @cached_property
    def nested(self) -> bool:
        """Whether a segment has more than one set."""
        return len(self.segments) - 1 < len(self.firsts)

    @cached_property
    def saturated(self) -> float:
        """The least risk of any scores: each set's mass is on its own targets."""
        inside = self.target > 0
        t, b = self.target[inside], self.base[inside]
        held = np.repeat(np.arange(len(self.firsts)), self._counts)[inside]
        # within a set, scores are log(t/b) up to a constant, so that π is t/d
        per_set = np.bincount(held, t * np.log(t / b), len(self.firsts))
        mass = self.mass[self.mass > 0]
        found = float((mass * np.log(mass)).sum() - per_set.sum())
        return found + float((self._unit * np.log1p(-self._fraction)).sum())

    def at(self, eta: Float) -> SetPoint:
        """Return the loss at scores (n,), in the order of the segments."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
            return self._at(eta + np.log(self.base), eta)

    def rises(self, eta: Float) -> Float:
        """Return d over Σ b e^η of every set, shape (S,), both in units of rows: how far a hazard rises at an event."""
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            whole = self._accumulated(self._log_sums(eta + np.log(self.base)))
            return np.where(self.mass > 0, len(self.order) * self.mass * np.exp(-whole), 0.0)

    def accumulated(self, values: Float) -> Float:
        """Return the sums of values (m, n) over the rows of every set, (m, S)."""
        sums: Float = np.add.reduceat(values, self.firsts, axis=1)
        return self._running(sums, slice(None))

    def spread(self, values: Float) -> Float:
        """Return the sums of values (m, S) over the sets that hold a row, (m, n)."""
        return self.repeated(self._running(values.copy(), slice(None, None, -1)))

    def repeated(self, values: Float) -> Float:
        """Return the values (m, S) of the first set that holds a row, (m, n)."""
        return np.repeat(values, self._counts, axis=1)

    def _running(self, values: Float, way: slice) -> Float:
        """Replace values (m, S) by their running sums within segments."""
        if self.nested:
            for begin, end in pairwise(self.segments.tolist()):
                part = values[:, begin:end][:, way]
                np.cumsum(part, axis=1, out=part)
        return values

    def _at(self, scores: Float, eta: Float) -> SetPoint:
        level = self._log_sums(scores)
        whole = self._accumulated(level)
        part = np.exp(self._log_sums(np.where(self.tied, scores, -np.inf)) - whole) if self._any_tied else 0.0 * whole
        left = 1.0 - self._fraction * part[self._event]
        S = len(self.firsts)
        none = np.zeros(S)
        sums: list[Float] = [self.mass, none, self.mass, none, none]
        if self._any_tied:
            terms = (self._unit * self._fraction**p / left**q for p, q in POWERS)
            sums = [np.bincount(self._event, term, S).astype(np.float64) for term in terms]
        risk = self.mass @ np.where(self.mass > 0, whole, 0.0) + self._unit @ np.log(left) - self.target @ eta
        inside = self._accumulated(np.log(sums[0]) - whole, reverse=True)
        weight = np.exp(scores + np.repeat(inside, self._counts))
        if self._any_tied:
            weight -= np.where(self.tied, np.exp(scores + np.repeat(np.log(sums[1]) - whole, self._counts)), 0.0)
        shift = np.repeat(np.maximum.reduceat(level, self.segments[:-1]), np.diff(self.segments))
        near = (self.mass > 0) & (whole - shift > -FARTHEST)
        unit = np.where(near, np.exp(shift - np.where(near, whole, shift)), 0.0)
        less = np.divide(sums[3], sums[2], out=np.zeros(S), where=sums[2] > 0)
        rest = np.sqrt(np.maximum(sums[4] - less * sums[3], 0.0))
        share = np.exp(scores - np.repeat(shift, self._counts))
        return SetPoint(float(risk), self.target - weight, weight, share, unit * np.sqrt(sums[2]), less, unit * rest)

    @cached_property
    def _counts(self) -> Positions:
        """Numbers of rows (S,) that the sets add."""
        return np.diff(self.firsts, append=len(self.order))

    @cached_property
    def _any_tied(self) -> bool:
        return bool(self.tied.any())

    @cached_property
    def _events(self) -> Positions:
        """Numbers of tied events of every set (S,), at least one where it has mass."""
        tied = np.add.reduceat(self.tied, self.firsts, dtype=np.intp)
        return np.where(self.mass > 0, np.maximum(tied, 1), 0)

    @cached_property
    def _event(self) -> Positions:
        """The set of every event."""
        return np.repeat(np.arange(len(self.firsts)), self._events)

    @cached_property
    def _fraction(self) -> Float:
        """By how much tied rows count less for every event."""
        begin = np.repeat(np.cumsum(self._events) - self._events, self._events)
        return np.asarray((np.arange(self._event.size) - begin) / self._events[self._event])

    @cached_property
    def _unit(self) -> Float:
        """The mass of every event."""
        return np.asarray((self.mass / np.maximum(self._events, 1))[self._event])

    def _log_sums(self, scores: Float) -> Float:
        """Return log Σ e^scores over the rows that each set adds, shape (S,)."""
        top = np.maximum.reduceat(scores, self.firsts)
        top = np.where(np.isfinite(top), top, 0.0)
        return np.asarray(np.log(np.add.reduceat(np.exp(scores - np.repeat(top, self._counts)), self.firsts)) + top)

    def _accumulated(self, logs: Float, *, reverse: bool = False) -> Float:
        """Return log Σ e^logs over the sets of a segment up to each one, or from each one on, shape (S,)."""
        if not self.nested:
            return logs
        found, step = logs.copy(), -1 if reverse else 1
        for begin, end in pairwise(self.segments.tolist()):
            part = found[begin:end][::step]
            top, least = part.max(), part.min(where=np.isfinite(part), initial=np.inf)
            if 0 <= top - least < FARTHEST:  # no power underflows, and sums of positive numbers lose no digits
                part[:] = np.log(np.cumsum(np.exp(part - top))) + top
            else:
                part[:] = np.logaddexp.accumulate(part)
        return found


POWERS = ((0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
"""Sums over the tied events of a set are Σ unit·fᵖ/(1 − f·E/S)^q for these p and q."""


def query_sets(relevance: Float, query: Array, weight: Float) -> RowSets:
    """Return the sets of a ranking: one per query, whose targets are shares of its gains 2^relevance − 1.

    ``weight`` (n,) is the same for all documents of a query. Queries without a relevant document have mass zero.
    """
    kept = np.flatnonzero(weight > 0)
    order = kept[np.argsort(query[kept], kind="stable")]
    sorted_query, gain = query[order], np.exp2(relevance[order]) - 1
    firsts = np.flatnonzero(np.concatenate([[True], sorted_query[1:] != sorted_query[:-1]]))
    total = np.add.reduceat(gain, firsts)
    mass = np.where(total > 0, weight[order][firsts], 0.0)
    per_row = np.repeat(mass / np.where(total > 0, total, 1.0), np.diff(firsts, append=order.size))
    ones, none = np.ones(order.size), np.zeros(order.size, dtype=bool)
    return RowSets(order, firsts, np.arange(firsts.size + 1), mass, gain * per_row, ones, none)


def risk_sets(time: Float, event: Mask, stratum: Array, weight: Float, *, efron: bool) -> RowSets:
    """Return the sets of survival times: at every time of an event, the rows of its stratum that are still at risk."""
    kept = np.flatnonzero(weight > 0)
    order = kept[np.lexsort((event[kept], -time[kept], stratum[kept]))]  # at one time, censored rows come first
    when, died, group, w = time[order], event[order], stratum[order], weight[order]
    new_group = np.concatenate([[True], group[1:] != group[:-1]])
    last = np.concatenate([(group[1:] != group[:-1]) | (when[1:] != when[:-1]), [True]])  # of its time
    ends = last & _any_of_run(died, last)
    firsts = np.flatnonzero(new_group | np.concatenate([[False], ends[:-1]]))
    target = np.where(died, w, 0.0)
    mass = np.add.reduceat(target, firsts)
    several = np.add.reduceat(died, firsts, dtype=np.intp) > 1
    tied = died & np.repeat(several, np.diff(firsts, append=order.size)) & efron
    segments = np.append(np.searchsorted(firsts, np.flatnonzero(new_group)), firsts.size)
    return RowSets(order, firsts, segments, mass, target, w * (order.size / w.sum()), tied)


def _any_of_run(found: Mask, last: Mask) -> Mask:
    """Return, for the last row of every run, whether any row of the run was found."""
    begin = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
    return np.repeat(np.logical_or.reduceat(found, begin), np.diff(begin, append=found.size))
