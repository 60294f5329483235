"""The problem that certificates and plans solve: what sets of groups explain, and what they cost.

    maximise  F(S) = ½ tr(b_S' C_S⁻¹ b_S), less penalties of the groups of S,    subject to  cost(S) ≤ budget

C and b come from moments, from the factor of a fitted sequence, or, for losses other than squared error, from a
quadratic approximation of the risk around a fitted stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from budgetline.arrays import Float, Mask, Positions
from budgetline.fitting.linear import LARGEST_GRAM, warn_from_moments
from budgetline.groups import FeatureGroups, as_feature_groups
from budgetline.groups.prices import Prices
from budgetline.inputs import check_number
from budgetline.leastsquares.factors import BlockCholesky
from budgetline.leastsquares.gram import EPS, Gram
from budgetline.leastsquares.least_squares import LeastSquares
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.model.subsets import GeneralisedSubset, LinearSubset
from budgetline.moments.moments import Moments
from budgetline.sequencing.loop import Limits, greedy_order
from budgetline.sequencing.schedules import Schedule

ALPHA = 1e-5
"""The default ridge constant of estimators."""
RANK = 1e-13
"""Eigenvalues of C_S below this are rounding noise: columns are standardised."""
ROUNDINGS = 16
"""C is off by at most this many roundings of its entries, times its width."""
LEAST_ROUNDING, MOST_ROUNDING = 1e-9, 1e-2
"""Bounds are raised by at least the first share; if more than the second were needed, C is too inaccurate."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """F of every set of groups, and what it costs: C and b, group after group, and the columns of each group (J,).

    ``weights`` (D,) are penalty weights of columns, group after group; None: all 1. ``penalties`` (J,) ≥ 0 are
    subtracted from F: the *value* of a set is F(S) − Σ_{g ∈ S} penalties_g; None: nothing is.
    """

    gram: Gram
    sizes: Positions
    groups: FeatureGroups
    alpha: float
    weights: Float | None = None
    penalties: Float | None = None

    @classmethod
    def of_moments(cls, moments: Moments, feature_groups: object, costs: object, alpha: float | None) -> Quadratic:
        """Return the problem of moments and a user's groups and costs."""
        if not isinstance(moments, Moments):
            raise TypeError(f"moments must be Moments, got {type(moments).__name__}")
        alpha = check_number("alpha", ALPHA if alpha is None else alpha, ge=0, finite=True)
        groups = as_feature_groups(feature_groups, costs, moments.feature_names, moments.n_features)
        layout = groups.resolve(moments.feature_names, moments.n_features)
        return cls._from(moments, layout.columns, groups, alpha)

    @classmethod
    def of_model(cls, model: AnytimeModel) -> Quadratic:
        """Return the problem of all groups of a fitted model of squared error, from its moments or its factor."""
        layout = model.layout
        if model.moments is not None:
            return cls._from(model.moments, layout.position, design_groups(model), model.alpha, model.weights)
        subset = model.stages.subset
        assert isinstance(subset, LinearSubset)
        if model.stages.columns.size < layout.read.size or not subset.kept.all():
            raise ValueError(
                "the model does not hold the covariance of all groups (it ended early, or columns are dependent): "
                "give the moments, certify(moments, groups, sequence=model.sequence_)"
            )
        return cls.of_sequence(model)

    @classmethod
    def of_sequence(cls, model: AnytimeModel) -> Quadratic:
        """Return the problem of the groups in the sequence of a model of squared error, from its factor."""
        subset = model.stages.subset
        assert isinstance(subset, LinearSubset)
        return cls._of_columns(model, subset.U.T @ subset.U, subset.U.T @ subset.z, 1)

    @classmethod
    def around(cls, model: AnytimeModel, stage: int) -> Quadratic:
        """Return the quadratic approximation of the risk of a loss other than squared error, around a fitted stage.

        With θ* the stage, g and H the derivatives of the risk of the population that the model keeps, and
        t = Hθ* − g, the risk is about t'θ − ½θ'Hθ below a constant. Every set has the intercepts 0; without them

            C = H_xx − H_x0 H_00⁻¹ H_0x,    b = t_x − H_x0 H_00⁻¹ t_0.
        """
        subset = model.stages.subset
        assert isinstance(subset, GeneralisedSubset)
        expansion = subset.expansion(*model.stages.standardised(model.stages.at_stage(stage)))
        H, t, Q = expansion.H, (expansion.H @ expansion.theta - expansion.gradient)[:, None], expansion.n_scores
        level = np.linalg.solve(H[:Q, :Q], np.hstack([H[:Q, Q:], t[:Q]]))
        C = H[Q:, Q:] - H[Q:, :Q] @ level[:, :-1]
        return cls._of_columns(model, C / 2 + C.T / 2, t[Q:] - H[Q:, :Q] @ level[:, -1:], Q)

    @classmethod
    def _of_columns(cls, model: AnytimeModel, C: Float, b: Float, Q: int) -> Quadratic:
        """Return the problem with C and b of the columns of the sequence, in its order, with Q parameters per column.

        Each group after the end of the sequence gets one column with an identity and zeros: it explains nothing.
        """
        layout, known = model.layout, known_columns(model)
        sizes = sizes_of([np.repeat(own, Q) for own in known])
        place = np.empty(layout.n_features, dtype=np.intp)
        place[layout.read[np.concatenate(known)]] = np.arange(sizes.sum() // Q)
        at = (place[model.stages.columns][:, None] * Q + np.arange(Q)).ravel()
        whole, right = np.eye(int(sizes.sum())), np.zeros((int(sizes.sum()), b.shape[1]))
        whole[np.ix_(at, at)], right[at] = C, b
        gram = Gram(whole, right, np.array([2 * model.sequence.null_value]))
        weights = None if Q > 1 else _ordered(model.weights, known)
        return cls(gram, sizes, design_groups(model), model.alpha, weights)

    @classmethod
    def _from(
        cls,
        moments: Moments,
        columns: tuple[Positions, ...],
        groups: FeatureGroups,
        alpha: float,
        weights: Float | None = None,
    ) -> Quadratic:
        """Return the problem of columns of moments; warn if these do not determine the coefficients."""
        sizes = sizes_of(columns)
        gram = Gram.of(moments, np.concatenate(columns), alpha, weights)
        problem = cls(gram, sizes, groups, alpha, _ordered(weights, columns))
        least, largest = problem.spectrum[[0, -1]]
        warn_from_moments(float(moments.eps * largest / least) if least > 0 else 1.0, moments.eps, alpha)
        return problem

    @property
    def prices(self) -> Prices:
        """What sets of groups cost."""
        return self.groups.prices

    @property
    def parts(self) -> list[slice]:
        """The columns of every group."""
        return [slice(int(end - size), int(end)) for end, size in zip(np.cumsum(self.sizes), self.sizes, strict=True)]

    @property
    def labels(self) -> Positions:
        """The group of every column."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    @cached_property
    def spectrum(self) -> Float:
        """Eigenvalues of C, increasing."""
        return np.asarray(np.linalg.eigvalsh(self.gram.C), dtype=np.float64)

    @cached_property
    def rounding(self) -> float | None:
        """The share by which rounding may change F of any set; None if that is more than a percent.

        An error of E in C changes F by ½ tr w'Ew ≤ ‖E‖ F/λ_min(C).
        """
        least = float(self.spectrum[0])
        noise = ROUNDINGS * max(self.gram.eps, EPS) * len(self.gram.C)
        return max(LEAST_ROUNDING, noise / least) if least * MOST_ROUNDING > noise else None

    def solution(self, mask: Mask) -> Float:
        """Return w(S) = C_S⁻¹b_S, or C_S⁺b_S where C_S is singular, shape (D, P): zero outside the mask (J,)."""
        w = np.zeros_like(self.gram.b)
        if (columns := np.flatnonzero(mask[self.labels])).size:
            w[columns] = _solve(self.gram.C[np.ix_(columns, columns)], self.gram.b[columns])
        return w

    def explained(self, mask: Mask) -> float:
        """Return F(S) of the groups of a mask (J,)."""
        return float(np.sum(self.gram.b * self.solution(mask)) / 2)

    def value(self, mask: Mask) -> float:
        """Return F(S) less the penalties of the groups of a mask (J,)."""
        return self.explained(mask) - self.penalty(mask)

    def penalty(self, mask: Mask) -> float:
        """Return the sum of the penalties of the groups of a mask (J,)."""
        return 0.0 if self.penalties is None else float(self.penalties[mask].sum())

    def greedy(self, schedule: Schedule, *, cost_sensitive: bool = True) -> list[int]:
        """Return the groups that greedy ``fr`` buys, in order; penalties do not count."""
        objective = LeastSquares(BlockCholesky(self.gram), self.sizes, "fr")
        order, _ = greedy_order(objective, self.prices, schedule, Limits(), cost_sensitive=cost_sensitive)
        return [int(g) for g in order]

    def prefix_values(self, order: list[int]) -> Float:
        """Return the value of every prefix of an order, without the empty one, from one factorisation."""
        lost = 0.0 if self.penalties is None else np.cumsum(self.penalties[order])
        try:
            _, z, _, ends = self._factored(order)
        except np.linalg.LinAlgError:
            masks = np.tri(len(order), dtype=bool)
            return np.array([self.value(np.isin(np.arange(self.sizes.size), np.array(order)[m])) for m in masks])
        return np.asarray(np.cumsum((z**2).sum(axis=1))[ends - 1] / 2 - lost)

    def prefix_solutions(self, order: list[int], stages: list[int]) -> Iterator[Float]:
        """Yield w(G_j), shape (D, P), for some stages of an order, from one factorisation; C must not be singular."""
        L, z, columns, ends = self._factored(order)
        for stage in stages:
            k = ends[stage - 1]
            w = np.zeros_like(self.gram.b)
            w[columns[:k]] = solve_triangular(L[:k, :k], z[:k], lower=True, trans=1, check_finite=False)
            yield w

    def _factored(self, order: list[int]) -> tuple[Float, Float, Positions, Positions]:
        """Return L with LL' = C and z = L⁻¹b of the columns of an order, these columns, and where each group ends."""
        parts, every = self.parts, np.arange(len(self.gram.C))
        columns = np.concatenate([every[:0], *(every[parts[g]] for g in order)])
        L = np.linalg.cholesky(self.gram.C[np.ix_(columns, columns)])
        z = solve_triangular(L, self.gram.b[columns], lower=True, check_finite=False)
        return L, z, columns, np.cumsum(self.sizes[order])


def design_groups(model: AnytimeModel) -> FeatureGroups:
    """Return the groups of the columns that C and b are about: with an encoding the design columns, by position."""
    groups = model.groups
    if model.encoding is None:
        return groups
    columns = {name: own.tolist() for name, own in zip(groups.names, model.layout.columns, strict=True)}
    return FeatureGroups(columns, groups.costs, shared=groups.shared, requires=groups.requires)


def known_columns(model: AnytimeModel) -> tuple[Positions, ...]:
    """Return the columns of every group, among those that are read, whose C and b a model knows.

    Without moments a model knows nothing of the groups after the end of its sequence: each gets one column.
    """
    if model.moments is not None:
        return model.layout.position
    chosen = set(model.sequence.order.tolist())
    return tuple(own if g in chosen else own[:1] for g, own in enumerate(model.layout.position))


def model_of(subject: object, **of_moments: object) -> AnytimeModel:
    """Return a fitted model; arguments for moments must not be given."""
    if given := [name for name, value in of_moments.items() if value is not None]:
        raise TypeError(f"{given[0]} is for moments; a model has its own")
    return as_model(subject)


def _ordered(weights: Float | None, columns: Sequence[Positions]) -> Float | None:
    """Return penalty weights in the order of the columns of groups."""
    return None if weights is None else weights[np.concatenate(columns)]


def sizes_of(columns: Sequence[Positions]) -> Positions:
    """Return the number of columns of each group; all of them must fit into a matrix."""
    sizes = np.array([own.size for own in columns], dtype=np.intp)
    if (n_columns := sizes.sum()) > LARGEST_GRAM:
        raise ValueError(f"{n_columns} columns are too many for a certificate or a plan, at most {LARGEST_GRAM}")
    return sizes


def _solve(C: Float, b: Float) -> Float:
    """Return C⁻¹b, or C⁺b where C is singular."""
    try:
        L = np.linalg.cholesky(C)
        if np.diag(L).min() ** 2 > RANK:
            z = solve_triangular(L, b, lower=True, check_finite=False)
            return np.asarray(solve_triangular(L, z, lower=True, trans=1, check_finite=False))
    except np.linalg.LinAlgError:
        pass
    spectrum, V = np.linalg.eigh(C)
    inverse = np.divide(1.0, spectrum, out=np.zeros_like(spectrum), where=spectrum > RANK * spectrum[-1])
    return np.asarray((V * inverse) @ (V.T @ b))
