"""What further groups would gain, from any set S of groups at hand: F(S ∪ A) − F(S) of several sets A.

Squared error: exact, from the moments, or from the factor of the sequence. Other losses need no refit either:

- With a sample of rows, the risks of the models that would answer are compared. Around a fitted stage θ*, with scores
  η* and gradient g of its risk, known exactly,

      R(θ) = Σ ω (φ(η) − ∇φ(η*)'η) + g'θ + λ/2 ‖W − W*‖² + a constant,

  which needs no targets; only the sum is taken over the sample.
- Without one, by the quadratic model around θ*: least squares with its Hessian in the place of C, b = Hθ* − g.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.model.anytime import AnytimeModel
from budgetline.model.changes import ScoreChange
from budgetline.model.subsets import LinearSubset, QuadraticSubset
from budgetline.objectives.factors import BlockCholesky
from budgetline.objectives.glm import Expansion
from budgetline.objectives.gram import Gram
from budgetline.objectives.least_squares import LeastSquares
from budgetline.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows (m, T) of the columns of a sequence, standardised, and their weights (m,), which sum to one."""

    rows: Float
    weight: Float


@dataclass(frozen=True, eq=False)
class _Problem:
    """C and b of blocks of columns, how wide these are, and the block of every group that has one."""

    gram: Gram
    sizes: Positions
    block: dict[int, int]

    def gains(self, chosen: Sequence[int], added: Sequence[Sequence[int]]) -> Float:
        """Return the gain of each set of blocks if some are chosen already."""
        with one_blas_thread():
            objective = LeastSquares(BlockCholesky(self.gram), self.sizes, "fr")
            for k in chosen:
                objective.choose(k)
            single = objective.gains()
            return np.array([single[A[0]] if len(A) == 1 else objective.joint_scores([A])[0] / 2 for A in added])


def stored_gains(model: AnytimeModel, chosen: Mask, added: Sequence[Positions]) -> Float:
    """Return F(S ∪ A) − F(S), shape (K,), for the groups S of a mask (J,) and K sets A of further groups.

    All these groups must be known: see :func:`known_groups`.
    """
    subset, inside = model.stages.subset, np.flatnonzero(chosen).tolist()
    if isinstance(subset, LinearSubset):
        problem, always = _linear(model, subset), list[int]()
    else:
        problem, always = _quadratic(model, subset, chosen), [0]
    blocks = [[problem.block[g] for g in A.tolist()] for A in added]
    return problem.gains([*always, *(problem.block[g] for g in inside)], blocks)


def sampled_gains(
    model: AnytimeModel, chosen: Mask, added: Sequence[Positions], sample: Sample, now: Float | None
) -> tuple[Float, Float | None]:
    """Return by how much the risk of the models that answer falls, at least 0, and the chances of other decisions.

    The latter are of shape (K, n), for rows with scores ``now`` (n, P) before; None without them.
    """
    stages, order, subset = model.stages, model.sequence.order, model.stages.subset
    assert isinstance(subset, QuadraticSubset)
    around = subset.expansion(chosen[order], np.diff(stages.column_ends, prepend=0))
    risk = SampledRisk.around(around, subset, model.alpha, sample)
    models = stages.of_patterns(np.array([chosen[order], *(chosen[order] | np.isin(order, A) for A in added)]))
    before, reached = risk.of(*stages.standardised(next(models)))
    gains, chances = list[float](), list[Float]()
    for each in models:
        after, scores = risk.of(*stages.standardised(each))
        gains.append(max(before - after, 0.0))  # without noise and approximation no group could raise the risk
        if now is not None:
            chances.append(ScoreChange.learn(reached, scores).changed(now) / len(scores))
    return np.array(gains), None if now is None else np.array(chances).reshape(len(gains), len(now))


def estimated_value(model: AnytimeModel, steps: Mask) -> float:
    """Return F of the groups at these steps of the sequence of a loss other than squared error, a mask (stages,).

    Prefixes of the sequence are exact. Others are compared with the stage from which they are answered: on the sample
    of rows, if the model keeps one, otherwise by the quadratic model.
    """
    values, count, stages = np.append(0.0, np.cumsum(model.sequence.gains)), int(steps.sum()), model.stages
    if steps[:count].all():
        return float(values[count])
    subset, widths = stages.subset, np.diff(stages.column_ends, prepend=0)
    assert isinstance(subset, QuadraticSubset)
    kept = subset.recalibration
    if kept is None:
        stage, change = subset.change(steps, widths)
        return float(values[stage]) - change
    around = subset.expansion(steps, widths)
    risk = SampledRisk.around(around, subset, model.alpha, Sample(kept.rows.astype(np.float64), kept.weight))
    before, after = (
        risk.of(risk.theta[1:].T, risk.theta[0])[0],
        risk.of(*stages.standardised(stages.of_steps(steps)))[0],
    )
    return float(values[around.stage]) - (after - before)


def known_groups(model: AnytimeModel) -> Mask:
    """Return the groups whose gains the model knows, shape (J,): with moments all, otherwise those of its sequence."""
    known = np.full(len(model.groups), model.moments is not None)
    known[model.sequence.order] = True
    return known


def _linear(model: AnytimeModel, subset: LinearSubset) -> _Problem:
    """Return the problem of squared error: of all groups from moments, or of those in the sequence from its factor."""
    if model.moments is not None:
        position = model.layout.position
        gram = Gram.of(model.moments, np.concatenate(position), model.alpha, model.weights)
        return _Problem(gram, np.array([own.size for own in position]), {g: g for g in range(len(position))})
    variance = np.full(subset.z.shape[1], 2 * model.sequence.null_value)  # of all targets, for a tolerance
    gram = Gram(subset.U.T @ subset.U, subset.U.T @ subset.z, variance)
    return _Problem(
        gram, np.diff(model.stages.column_ends, prepend=0), {g: k for k, g in enumerate(model.sequence.order.tolist())}
    )


def _quadratic(model: AnytimeModel, subset: QuadraticSubset, chosen: Mask) -> _Problem:
    """Return the problem of the quadratic model that answers for S; its first block is the intercept."""
    widths = np.diff(model.stages.column_ends, prepend=0)
    around = subset.expansion(chosen[model.sequence.order], widths)
    b = around.H @ around.theta - around.gradient
    gram = Gram(around.H, b[:, None], np.array([2 * model.sequence.null_value]))
    sizes = subset.n_scores * np.concatenate([[1], widths])
    return _Problem(gram, sizes, {g: k for k, g in enumerate(model.sequence.order.tolist(), 1)})


@dataclass(frozen=True, eq=False)
class SampledRisk:
    """The risk of any model, but for a constant, around a fitted stage."""

    subset: QuadraticSubset
    alpha: float
    sample: Sample
    targets: Float
    theta: Float
    gradient: Float

    @classmethod
    def around(cls, stage: Expansion, subset: QuadraticSubset, alpha: float, sample: Sample) -> SampledRisk:
        """Take the predictions at a stage for the targets."""
        theta, gradient = (
            subset.family.external(part.reshape(-1, subset.n_scores)) for part in (stage.theta, stage.gradient)
        )
        targets = subset.family.prediction(theta[0] + sample.rows @ theta[1:])
        return cls(subset, alpha, sample, targets, theta, gradient)

    def of(self, W: Float, level: Float) -> tuple[float, Float]:
        """Return the risk of coefficients (P, T) and levels (P,), and the scores (m, P) of the sample."""
        scores = level + self.sample.rows @ W.T
        loss = self.sample.weight @ self.subset.family.excess(scores[:, None], self.targets)[:, 0]
        slope = self.gradient[0] @ level + np.vdot(self.gradient[1:], W.T)
        return float(loss + slope + self.alpha / 2 * ((W.T - self.theta[1:]) ** 2).sum()), scores
