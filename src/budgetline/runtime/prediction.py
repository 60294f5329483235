"""What a run returns: the prediction, the groups behind it, and why the run stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from budgetline.arrays import Float, Positions
from budgetline.messages import cut

Reason = Literal["running", "complete", "deadline", "budget", "interrupted", "decided"]
FaultKind = Literal["raised", "late", "shape", "type", "not finite", "died", "refused", "required"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a group could not be used.

    Attributes
    ----------
    kind : str
        ``"raised"``, ``"late"`` (its timeout or the deadline came first), ``"shape"``, ``"type"``, ``"not finite"``,
        ``"died"`` (its process ended), ``"refused"`` (not started, because too many calls hang) or ``"required"`` (not
        started or not used, because a required group is missing).
    message : str
        What happened, with the text of the exception. Long texts are shortened.
    rows : int array, optional
        The affected inputs, if there are many. None means all inputs.
    """

    kind: FaultKind
    message: str
    rows: Positions | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", cut(self.message))

    def __str__(self) -> str:
        where = "" if self.rows is None else f" ({self.rows.size} inputs, the first is number {self.rows[0]})"
        return f"{self.kind}: {self.message}{where}"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Documents ranked by a cascade.

    Attributes
    ----------
    order : int array of shape (n,)
        The positions of the documents, the best document first.
    scores : array of shape (n,)
        Scores that give this order. They come from the last level that a document reached, and are above those of all
        lower levels.
    levels : int array of shape (n,)
        The number of levels that scored each document.
    spent : float
        Average cost of a document.
    elapsed : float
        Seconds from the call to this ranking.
    reason : str
        Why the run stopped, as in `Prediction`: ``"complete"``, ``"deadline"`` or ``"interrupted"``.
    faults : mapping group -> Fault
        Groups that could not be used in the last level that ran.
    """

    order: Positions
    scores: Float
    levels: Positions
    spent: float
    elapsed: float
    reason: Reason
    faults: Mapping[str, Fault] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A prediction, and the groups behind it.

    Attributes
    ----------
    value : number, label, or array
        The prediction. For many inputs, it is an array with one entry (or row) per input.
    probabilities : array, optional
        The probabilities of the classes, in the order of ``classes_``. None for regression.
    stage : int
        The length of the longest prefix of the sequence whose groups are all in use.
    groups : tuple of str
        The groups in use, in sequence order: more than ``stage`` of them if a group in between is missing.
    spent : float
        Cost of all groups that were started, even if they failed or were late. Shared costs count once.
    elapsed : float
        Seconds from the call to this prediction.
    timings : mapping group -> seconds
        The time from start to arrival, for every group that arrived, whether it was usable or not.
    reason : str
        Why the run stopped: ``"complete"`` (nothing is left to compute), ``"deadline"`` (it has passed, or all
        remaining groups would be late), ``"budget"``, ``"interrupted"`` or ``"decided"`` (early exit). In a stream, all
        predictions except the last one have ``"running"``.
    faults : mapping group -> Fault
        Groups that could not be used for some or all inputs, or that were not started because a required group is
        missing.
    skipped : tuple of str
        Groups that were not started because they, or a required group, would have been late.
    interval : pair of numbers or arrays, or None
        Lower and upper bounds of the target, if the runner was asked for them.
    """

    value: Any
    probabilities: Float | None
    stage: int
    groups: tuple[str, ...]
    spent: float
    elapsed: float
    timings: Mapping[str, float]
    reason: Reason
    faults: Mapping[str, Fault] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    interval: tuple[Any, Any] | None = None
