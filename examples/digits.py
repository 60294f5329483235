"""Handwritten digits under a deadline: image features whose costs are measured, not invented.

``python examples/digits.py``; ``--quick`` runs a tiny version, ``--write docs/results/digits.md`` keeps the report.
Twelve groups of features are computed from an 8 × 8 image by NumPy and SciPy. ``profile_costs`` times them, the
classifier learns in which order to compute them, and the runner computes as many as a deadline allows. Every sentence
about who is ahead is computed from the numbers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from budgetline import AnytimeClassifier, AnytimeRunner, FeatureGroups, budget_curve, profile_costs

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from core import print_report

Array = np.ndarray
ALPHA = 1e-2  # the best of 0.001, 0.01 and 0.1 in cross-validation on the training images, with all features

# -- features: functions of one image (8 × 8, ink from 0 to 16) ------------------------------------------------

ROWS, COLUMNS = np.ogrid[:8, :8]
QUARTER = np.arange(8) // 4
THIRD = np.array([0, 0, 0, 1, 1, 2, 2, 2])
NEIGHBOURS = ((0, 1), (1, 2), (2, 1), (1, 0))
PEEL = [np.array(m) for m in ([[0, 0, 0], [2, 1, 2], [1, 1, 1]], [[2, 0, 0], [1, 1, 0], [2, 1, 2]])]


def pixels(image: Array) -> Array:
    """Return the image itself."""
    return image.ravel()


def crossings(image: Array) -> Array:
    """Count how often each row and column goes from ink to paper or back."""
    ink = (image >= 6).astype(np.int8)
    return np.concatenate([np.abs(np.diff(ink, axis=axis)).sum(axis=axis) for axis in (0, 1)])


def contour(image: Array) -> Array:
    """Measure how far the ink is from each side, in every row and column."""
    ink = image >= 4
    sides = [(side, axis) for axis in (0, 1) for side in (ink, np.flip(ink, axis))]
    return np.concatenate([np.where(side.any(axis=axis), side.argmax(axis=axis), 8) for side, axis in sides])


def moments(image: Array) -> Array:
    """Return the amount of ink, its centre, and central moments up to order 3."""
    total = image.sum()
    y, x = (ROWS * image).sum() / total, (COLUMNS * image).sum() / total
    powers = ((2, 0), (1, 1), (0, 2), (3, 0), (2, 1), (1, 2), (0, 3))
    return np.array([total, y, x, *(((ROWS - y) ** p * (COLUMNS - x) ** q * image).sum() / total for p, q in powers)])


def fourier(image: Array) -> Array:
    """Return magnitudes of low frequencies, which do not depend on the position of the digit."""
    return np.abs(np.fft.rfft2(image))[[0, 1, 2, 3, -1, -2, -3], :4].ravel()


def distance(image: Array) -> Array:
    """Return the distance to the next paper or ink, as means over 2 × 2 pixels."""
    ink = image >= 6
    tables = (ndimage.distance_transform_edt(ink), ndimage.distance_transform_edt(~ink))
    return np.concatenate([table.reshape(4, 2, 4, 2).mean(axis=(1, 3)).ravel() for table in tables])


def patterns(image: Array) -> Array:
    """Count local patterns (which of four neighbours are darker) in each quarter of the image."""
    padded = np.pad(image, 1)
    code = np.zeros((8, 8), dtype=np.intp)
    for bit, (y, x) in enumerate(NEIGHBOURS):
        code += (padded[y : y + 8, x : x + 8] > image) << bit
    cell = 2 * QUARTER[:, None] + QUARTER
    return np.bincount((16 * cell + code).ravel(), minlength=64)


def upright(image: Array) -> Array:
    """Move the image to the centre, and shear it until it does not lean."""
    total = image.sum()
    y, x = (ROWS * image).sum() / total, (COLUMNS * image).sum() / total
    lean = ((ROWS - y) * (COLUMNS - x) * image).sum() / max(((ROWS - y) ** 2 * image).sum(), 1e-9)
    shear = np.array([[1, 0], [lean, 1]])
    return ndimage.affine_transform(image, shear, [y - 3.5, x - 3.5 - 3.5 * lean], order=1).ravel()


def gradients(image: Array) -> Array:
    """Return histograms of the direction of edges in nine cells."""
    down, right = ndimage.sobel(image, 0), ndimage.sobel(image, 1)
    direction = (np.arctan2(down, right) * (4 / np.pi)).astype(np.intp) % 8
    cell = 3 * THIRD[:, None] + THIRD
    strength = np.bincount((8 * cell + direction).ravel(), np.hypot(down, right).ravel(), minlength=72).reshape(9, 8)
    return (strength / (np.linalg.norm(strength, axis=1, keepdims=True) + 1)).ravel()


def holes(image: Array) -> Array:
    """Count parts and holes, and say where the holes are, at three levels of ink."""
    found: list[float] = []
    for level in (4, 7, 10):
        ink = np.pad(image >= level, 1)
        paper, areas = ndimage.label(~ink)
        inside = np.argwhere(paper > 1)
        centre = inside.mean(axis=0) if len(inside) else np.zeros(2)
        found += [ndimage.label(ink, np.ones((3, 3)))[1], areas - 1, len(inside), *centre]
    return np.array(found)


def gabor_filters() -> list[Array]:
    """Return waves in four directions and of two lengths, each within a Gaussian window."""
    y, x = np.mgrid[-4:5, -4:5]
    waves = []
    for length in (4, 8):
        for angle in np.pi * np.arange(4) / 4:
            along = x * np.cos(angle) + y * np.sin(angle)
            wave = np.exp(-(x**2 + y**2) / (length**2 / 2)) * np.cos(2 * np.pi * along / length)
            waves.append(wave - wave.mean())
    return waves


WAVES = gabor_filters()


def gabor(image: Array) -> Array:
    """Return the strength of strokes in four directions and of two widths, in nine cells of the enlarged image."""
    large = ndimage.zoom(image, 3, order=1)
    strokes = (np.abs(ndimage.convolve(large, wave)) for wave in WAVES)
    return np.concatenate([s.reshape(3, 8, 3, 8).mean(axis=(1, 3)).ravel() for s in strokes])


def skeleton(image: Array) -> Array:
    """Count length, ends and forks of the strokes, thinned to lines, in each quarter."""
    ink = np.pad(ndimage.zoom(image, 2, order=1) >= 6, 1)
    before = -1
    while before != (before := int(ink.sum())):
        for turn in range(4):
            for mask in PEEL:
                turned = np.rot90(mask, turn)
                ink &= ~ndimage.binary_hit_or_miss(ink, turned == 1, turned == 0)
    neighbours = ndimage.convolve(ink.astype(np.intp), np.ones((3, 3), dtype=np.intp), mode="constant") - 1
    maps = (ink, ink & (neighbours == 1), ink & (neighbours >= 3))
    return np.concatenate([m[1:-1, 1:-1].reshape(2, 8, 2, 8).sum(axis=(1, 3)).ravel() for m in maps])


FEATURES: dict[str, Callable[[Array], Array]] = {
    f.__name__: f
    for f in (
        pixels, crossings, contour, moments, fourier, distance, patterns, upright, gradients, holes, gabor, skeleton,
    )
}  # fmt: skip


# -- the experiment --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effort:
    """How much to run."""

    images: int = 1797
    features: tuple[str, ...] = tuple(FEATURES)
    sample: int = 50
    requests: int = 300
    deadlines: tuple[float, ...] = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01)


QUICK = Effort(images=240, features=("pixels", "moments", "holes"), sample=5, requests=20, deadlines=(0.001, 10.0))


@dataclass(frozen=True)
class Runs:
    """One method at one deadline: for every image, the seconds, whether the prediction was correct, and the groups."""

    seconds: Array
    right: Array
    groups: Array
    deadline: float

    @property
    def useful(self) -> Array:
        """Whether the prediction was correct and on time."""
        return self.right & (self.seconds <= self.deadline)


LEARNED, CHEAPEST, EVERYTHING = "learned order", "cheapest first", "everything, then predict"
Results = dict[tuple[str, float], Runs]


def everything(model: AnytimeClassifier, extractors: dict[str, Callable[[Array], Array]]) -> Callable[[Array], object]:
    """Return the usual pipeline: all features, then one product with the coefficients of the last stage."""
    coef, intercept, classes = model.coef_, model.intercept_, model.classes_

    def predict(image: Array) -> object:
        x = np.concatenate([function(image) for function in extractors.values()])
        return classes[np.argmax(coef @ x + intercept)]

    return predict


def run_all(
    runners: dict[str, AnytimeRunner],
    usual: Callable[[Array], object],
    images: Array,
    y: Array,
    effort: Effort,
) -> Results:
    """Predict every image with every method and deadline, in turns, so that a slow moment affects all of them."""
    jobs: list[tuple[str, float]] = [(EVERYTHING, np.inf), *((n, d) for n in runners for d in effort.deadlines)]
    taken: dict[tuple[str, float], list[tuple[float, bool, int]]] = {}
    rng = np.random.default_rng(0)
    for image, label in zip(images, y, strict=True):
        for k in rng.permutation(len(jobs)):  # the processor's cache depends on what ran just before
            name, deadline = jobs[k]
            start = time.perf_counter()
            if name == EVERYTHING:
                value, used = usual(image), len(effort.features)
            else:
                answer = runners[name].predict(image, deadline=deadline)
                value, used = answer.value, len(answer.groups)
            elapsed = time.perf_counter() - start
            for key in [(name, d) for d in effort.deadlines] if name == EVERYTHING else [(name, deadline)]:
                taken.setdefault(key, []).append((elapsed, value == label, used))
    return {key: Runs(*map(np.array, zip(*rows, strict=True)), deadline=key[1]) for key, rows in taken.items()}


def deadline_table(results: Results, effort: Effort) -> list[str]:
    """Return the table of all runs."""
    lines = [
        "| deadline | method | correct | groups used (mean) | p50 | p99 | late | correct and on time |",
        "|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for deadline in effort.deadlines:
        for name in (LEARNED, CHEAPEST, EVERYTHING):
            runs = results[name, deadline]
            p50, p99 = np.quantile(runs.seconds, [0.5, 0.99]) * 1e3
            late = np.mean(runs.seconds > deadline)
            lines.append(
                f"| {deadline * 1e3:g} ms | {name} | {runs.right.mean():.1%} | {runs.groups.mean():.1f} | {p50:.2f} ms "
                f"| {p99:.2f} ms | {late:.1%} | {runs.useful.mean():.1%} |"
            )
    return lines


def verdicts(results: Results, effort: Effort) -> list[str]:
    """Return who is ahead at each deadline. Differences are paired, because all methods predict the same images."""
    lines = []
    for deadline in effort.deadlines:
        ours = results[LEARNED, deadline].useful
        parts = []
        for name in (EVERYTHING, CHEAPEST):
            difference = ours.astype(float) - results[name, deadline].useful
            error = difference.std() / np.sqrt(difference.size)
            gap = difference.mean()
            word = "level with" if abs(gap) <= 2 * error else "ahead of" if gap > 0 else "behind"
            parts.append(f"{word} “{name}” ({gap:+.1%} ± {error:.1%})")
        lines.append(f"- {deadline * 1e3:g} ms: the learned order is {' and '.join(parts)}.")
    return lines


HEAD = """\
# Digits under a deadline: image features with measured costs

Made by `python examples/digits.py --write docs/results/digits.md`. All figures come from one run on the machine
named below, on which other programs were running at the same time. The accuracies without a deadline hardly depend on
the machine, but all other figures do.
"""


def report(effort: Effort) -> list[str]:
    """Run everything and return the lines of the report."""
    digits = load_digits()
    images, y = digits.images[: effort.images], digits.target[: effort.images]
    extractors = {name: FEATURES[name] for name in effort.features}
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0, stratify=y)

    # 1. What does each group cost? 2. All features of all images, as a table.
    profile = profile_costs(extractors, images[train[: effort.sample]], repeats=5)
    tables = [np.array([function(image) for image in images], dtype=float) for function in extractors.values()]
    widths = np.cumsum([0, *(table.shape[1] for table in tables)])
    columns = {name: range(a, b) for name, a, b in zip(extractors, widths, widths[1:], strict=False)}
    X = np.hstack(tables)

    # 3. In which order should they be computed?
    groups = FeatureGroups(columns, costs=profile.costs)
    orders = {LEARNED: "greedy", CHEAPEST: "cheapest"}
    models = {
        name: AnytimeClassifier(groups, rule="omp", schedule=schedule, alpha=ALPHA, tol=1e-5).fit(X[train], y[train])
        for name, schedule in orders.items()
    }

    # 4. Predictions under a deadline.
    runners = {name: AnytimeRunner(model, extractors, seconds=profile.seconds) for name, model in models.items()}
    usual = everything(models[LEARNED], extractors)
    asked = test[: effort.requests]
    results = run_all(runners, usual, images[asked], y[asked], effort)
    for runner in runners.values():
        runner.close()
    return [
        HEAD,
        f"There are {len(train)} training images and {len(test)} test images, with {X.shape[1]} columns in "
        f"{len(groups)} groups.\n",
        *costs_section(profile, models[LEARNED]),
        *budget_section(models, X[test], y[test], groups),
        *deadline_section(results, effort),
    ]


def costs_section(profile: object, model: AnytimeClassifier) -> list[str]:
    """Return what was measured, and what was learned from it."""
    return [
        "## What the groups cost\n",
        f"```text\n{profile}\n```\n",
        "## The order learned (costs in seconds)\n",
        f"```text\n{model.sequence_}\n```\n",
    ]


def budget_section(models: dict[str, AnytimeClassifier], X: Array, y: Array, groups: FeatureGroups) -> list[str]:
    """Return the accuracy on the test images at budgets of computing time, without a clock."""
    curves = {name: budget_curve(model, X, y, metric="accuracy") for name, model in models.items()}
    total = float(groups.costs.sum())
    budgets = [b for b in (0.0, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3) if b < total] + [total]
    lines = [
        "## What a budget of computing time buys\n",
        "The table shows the accuracy on the test images at several budgets of computing time. The cost of a group is "
        "its median time.\n",
        "| budget | " + " | ".join(f"{name} | groups" for name in curves) + " |",
        "|---:" * (1 + 2 * len(curves)) + "|",
    ]
    for budget in budgets:
        cells = [f"{curves[n].at(budget):.1%} | {m.sequence_.stage_at(budget)}" for n, m in models.items()]
        lines.append(f"| {budget * 1e3:.3g} ms | {' | '.join(cells)} |")
    return [*lines, ""]


def deadline_section(results: Results, effort: Effort) -> list[str]:
    """Return what the runner did with a real clock."""
    return [
        "## Predictions under a deadline\n",
        f"The runner makes predictions for {effort.requests} test images, one at a time, in cooperative mode. It "
        "skips a group if the 95 % quantile of the group's time, plus the runner's own time, exceeds the time left "
        "until the deadline. If no group fits, it predicts from the class frequencies. All times are measured for the "
        "whole call. “Everything, then predict” is the usual pipeline, which computes all groups and ignores the "
        "deadline. In the last column, a late prediction counts as wrong.\n",
        *deadline_table(results, effort),
        "",
        "The list compares the shares of predictions that are correct and on time. Each difference is followed by its "
        "standard error. Two methods are “level” if they differ by at most two standard errors.\n",
        *verdicts(results, effort),
        "",
    ]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
