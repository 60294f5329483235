"""Held-out probabilities of one of two classes as plain records, and what thresholds make of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StageCounts:
    """Held-out rows of the first and the second class after a stage, by bins of probability; weighted if rows are."""

    stage: int
    first: tuple[float, ...]
    second: tuple[float, ...]


@dataclass(frozen=True)
class Called:
    """What is called the second class from a threshold on, and shares that are right: None where there are no rows."""

    called: float | None
    sensitivity: float | None
    specificity: float | None
    positive_value: float | None
    negative_value: float | None


@dataclass(frozen=True)
class Probabilities:
    """Held-out probabilities of the second of two classes, in bins between ``thresholds``, at some stages."""

    thresholds: tuple[float, ...]
    stages: tuple[StageCounts, ...]

    def __post_init__(self) -> None:
        for k, each in enumerate(self.stages):
            if not len(each.first) == len(each.second) == len(self.thresholds) + 1:
                raise ValueError(f"stages[{k}] must have counts of {len(self.thresholds) + 1} bins")
        stages = [each.stage for each in self.stages]
        if stages[:1] != [0] or stages != sorted(set(stages)):
            raise ValueError("stages must start at 0, and ascend")

    def at(self, stage: int) -> StageCounts:
        """Return the counts at the last stage that is not later."""
        return [each for each in self.stages if each.stage <= stage][-1]

    def called(self, stage: int, k: int) -> Called:
        """Return what the k-th threshold does after a stage."""
        counts = self.at(stage)
        wrong, right = sum(counts.first[k + 1 :]), sum(counts.second[k + 1 :])
        spared, missed = sum(counts.first[: k + 1]), sum(counts.second[: k + 1])
        pairs = ((wrong + right, spared + missed), (right, missed), (spared, wrong), (right, wrong), (spared, missed))
        return Called(*(a / (a + b) if a + b > 0 else None for a, b in pairs))
