"""Results and speed of two versions of the library: ``compare_versions.py BEFORE AFTER``, two working trees.

Each version runs in a process of its own, on the same problems: all rules, schedules, losses, sources, shared costs,
cross-validation, certificates, plans, files. Whole numbers and names must be equal; other numbers may differ by
1e-12 of the largest in their array. Files that BEFORE writes must load in AFTER and predict the same. ``--time``
also measures the jobs of ``JOBS`` in turns, and prints the ratio AFTER / BEFORE.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-12
Results = dict[str, Any]


# -- what changed its name between versions ------------------------------------------------------------------------


RULES: dict[str, str] = {}
"""Rules that have another name in the version that is imported."""


def with_present_names() -> None:
    """Give a version from before 2026-11-18 the names that its successors have."""
    import budgetline

    if not hasattr(budgetline, "open_data"):
        budgetline.open_data = budgetline.open_source
        budgetline.Moments.from_data = budgetline.Moments.of
        RULES["forward"] = "fr"


def fit_source(estimator: Any, source: Any) -> Any:
    """Fit from a source."""
    return estimator.fit_source(source) if hasattr(estimator, "fit_source") else estimator.fit(source)


def convex_loss() -> Any:
    """Return the class of a custom loss."""
    try:
        from budgetline.glm import ConvexLoss
    except ImportError:
        from budgetline.objectives import ConvexLoss
    return ConvexLoss


def without_correction(search: Any) -> Any:
    """Choose alpha alone, as the first version did, and calibrate nothing."""
    others = {"corrections": [0.0], "calibration": "none"}
    return search.set_params(**{name: value for name, value in others.items() if name in search.get_params()})


# -- problems --------------------------------------------------------------------------------------------------------


def table(seed: int, n: int = 120, sizes: tuple[int, ...] = (2, 1, 3, 1, 2, 4)) -> tuple[Any, ...]:
    """Return correlated columns, a score, groups and costs."""
    rng = np.random.default_rng(seed)
    D = sum(sizes)
    X = rng.normal(size=(n, D)) @ (np.eye(D) + 0.3 * rng.normal(size=(D, D))) + rng.uniform(-2, 2, D)
    score = (X - X.mean(axis=0)) @ (rng.normal(size=D) * rng.uniform(0, 1, D)) / np.sqrt(D)
    ends = np.cumsum(sizes)
    groups = {f"g{k}": list(range(end - size, end)) for k, (end, size) in enumerate(zip(ends, sizes, strict=True))}
    costs = dict(zip(groups, rng.uniform(0.5, 5, len(sizes)).round(2).tolist(), strict=True))
    return X, score, rng, groups, costs


def of_model(model: Any, X: Any) -> Results:
    """Return all attributes of a fitted model that users read."""
    sequence = model.sequence_
    total = float(sequence.costs.sum())
    some = list(sequence.groups)[::2]
    proba = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    return {
        "groups": list(sequence.groups),
        "gains": sequence.gains,
        "costs": sequence.costs,
        "coef": model.coef_path_,
        "intercept": model.intercept_path_,
        "at half": getattr(model, proba)(X[:9], budget=total / 2),
        "available": getattr(model, proba)(X[:9], available=some),
    }


def regressions() -> Iterator[tuple[str, Callable[[], Results]]]:
    """All rules and schedules, with costs that add up and that do not."""
    from budgetline import AnytimeRegressor, AnytimeRegressorCV, FeatureGroups, GroupLassoPath
    from budgetline.sequencing import Doubling

    for seed in range(3):
        X, score, rng, groups, costs = table(seed)
        y = score + rng.normal(size=len(X))
        Y, weight = np.column_stack([y, score**2]), rng.uniform(0.1, 2, len(X))
        shared = FeatureGroups(groups, costs, shared={"draw": (2.0, ["g0", "g2", "g3"])}, requires={"g4": ["g1"]})
        for rule in ("forward", "omp", "no-whiten", "single", "static"):
            for where, bought in (("plain", FeatureGroups(groups, costs)), ("shared", shared)):
                model = AnytimeRegressor(bought, rule=RULES.get(rule, rule), alpha=1e-3)
                yield f"{rule}, {where}, {seed}", lambda m=model, a=X, b=y: of_model(m.fit(a, b), a)
        for name, settings in {
            "costs ignored": {"cost_sensitive": False},
            "doubling": {"schedule": "doubling"},
            "c_min": {"schedule": Doubling(c_min=2.0)},
            "cheapest": {"schedule": "cheapest"},
            "random": {"schedule": "random"},
            "limits": {"max_cost": 8.0, "max_groups": 4, "min_gain": 1e-3},
        }.items():
            model = AnytimeRegressor(FeatureGroups(groups, costs), **settings)
            yield f"{name}, {seed}", lambda m=model, a=X, b=Y, w=weight: of_model(m.fit(a, b, w), a)
        model = without_correction(AnytimeRegressorCV(shared, alphas=[1e-4, 1e-2, 1.0]))
        yield f"CV, {seed}", lambda m=model, a=X, b=y: of_model(m.fit(a, b), a) | {"scores": m.cv_scores_}
        lasso = GroupLassoPath(shared, n_lambdas=30)
        yield f"lasso, {seed}", lambda m=lasso, a=X, b=y: of_model(m.fit(a, b), a) | {"path": m.path_coef_}
        wide = np.hstack([X] * 3)[:20] + rng.normal(size=(20, 3 * X.shape[1]))
        yield f"wide, {seed}", lambda a=wide, b=y[:20]: of_model(AnytimeRegressor(alpha=1e-2).fit(a, b), a)


def generalised() -> Iterator[tuple[str, Callable[[], Results]]]:
    """Counts, two classes, three classes, a custom loss."""
    from budgetline import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, FeatureGroups

    loss_class = convex_loss()

    for seed in range(2):
        X, score, rng, groups, costs = table(seed, n=200)
        bought = FeatureGroups(groups, costs, shared={"draw": (2.0, ["g0", "g2"])}, requires={"g4": ["g1"]})
        score = score / score.std()
        counts = rng.poisson(np.exp(0.5 * score)).astype(float)
        two = np.where(score + rng.logistic(size=len(X)) > 0, "ill", "well")
        three = np.digitize(score + rng.normal(size=len(X)), [-0.7, 0.7])
        for rule in ("forward", "score", "omp", "single"):
            settings: dict[str, Any] = {"rule": RULES.get(rule, rule), "alpha": 1e-2}
            poisson = AnytimeRegressor(bought, loss="poisson", **settings)
            yield f"poisson {rule}, {seed}", lambda m=poisson, a=X, b=counts: of_model(m.fit(a, b), a)
            for name, labels in (("two classes", two), ("three classes", three)):
                model = AnytimeClassifier(bought, **settings)
                yield f"{name} {rule}, {seed}", lambda m=model, a=X, b=labels: of_model(m.fit(a, b), a)
        loss = loss_class(lambda s: np.sqrt(1 + s**2), lambda s: s / np.sqrt(1 + s**2), lambda s: (1 + s**2) ** -1.5)
        model = AnytimeRegressor(bought, loss=loss, rule="omp", alpha=1e-2)
        yield f"convex, {seed}", lambda m=model, a=X, s=score: of_model(m.fit(a, np.tanh(s)), a)
        search = without_correction(AnytimeClassifierCV(bought, alphas=[1e-3, 1e-1], rule="omp", cv=3))
        yield f"classifier CV, {seed}", lambda m=search, a=X, b=two: of_model(m.fit(a, b), a) | {"scores": m.cv_scores_}


def sources(folder: Path) -> Iterator[tuple[str, Callable[[], Results]]]:
    """Arrays in chunks, files, iterators, moments."""
    import pandas as pd

    from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, Moments, open_data

    X, score, rng, groups, costs = table(5, n=300)
    y = score + rng.normal(size=len(X))
    labels = (y > 0).astype(int)
    names = [f"x{d}" for d in range(X.shape[1])]
    named = FeatureGroups({g: [names[d] for d in columns] for g, columns in groups.items()}, costs)
    frame = pd.DataFrame(X, columns=names)
    frame.assign(y=y).to_parquet(folder / "y.parquet", row_group_size=70)
    frame.assign(y=labels).to_csv(folder / "labels.csv", index=False)
    plain = FeatureGroups(groups, costs)

    def regressor() -> Any:
        return AnytimeRegressor(plain, alpha=1e-3)

    def classifier(groups: Any) -> Any:
        return AnytimeClassifier(groups, rule="omp", alpha=1e-2)

    yield "array source", lambda: of_model(fit_source(regressor(), open_data((X, y), chunk_rows=64)), X)
    yield (
        "parquet",
        lambda: of_model(fit_source(AnytimeRegressor(named, alpha=1e-3), open_data(folder / "y.parquet", "y")), frame),
    )
    yield "csv", lambda: of_model(fit_source(classifier(named), open_data(folder / "labels.csv", "y")), frame)
    chunks = [(X[k : k + 50], labels[k : k + 50]) for k in range(0, 300, 50)]
    yield "iterator", lambda: of_model(fit_source(classifier(plain), open_data(lambda: iter(chunks))), X)
    parts = Moments.from_data(X[:100], y[:100]) + Moments.from_data(X[100:], y[100:])
    yield "moments", lambda: of_model(regressor().fit_moments(parts), X)
    yield "partial", lambda: of_model(regressor().partial_fit(X[:150], y[:150]).partial_fit(X[150:], y[150:]), X)


def proofs() -> Iterator[tuple[str, Callable[[], Results]]]:
    """Certificates and plans, both searched to the end."""
    from budgetline import AnytimeRegressor, FeatureGroups, Moments, certify

    for seed in range(3):
        X, score, rng, groups, costs = table(seed, n=80)
        moments = Moments.from_data(X, score + rng.normal(size=len(X)))
        for where, settings in (
            ("plain", {}),
            ("shared", {"shared": {"draw": (2.0, ["g0", "g2", "g3"])}, "requires": {"g4": ["g1"]}}),
        ):
            bought = FeatureGroups(groups, costs, **settings)

            def proven(moments: Any = moments, bought: Any = bought) -> Results:
                model = AnytimeRegressor(bought, alpha=1e-3).fit_moments(moments)
                found, best = certify(model, time_limit=600), model.plan(6.0, time_limit=600)
                plan = {"best": list(best.groups), "value": best.value, "coef": best.model_.stages.coef_path}
                return {"bounds": found.bounds, "achieved": found.achieved, **plan}

            yield f"certificate, {where}, {seed}", proven


def files(folder: Path) -> Iterator[tuple[str, Callable[[], Results]]]:
    """A model written by the version before; written now if there is none yet."""
    from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, load, save

    X, score, _, groups, costs = table(7)
    bought = FeatureGroups(groups, costs, shared={"draw": (2.0, ["g0", "g2"])})
    makers: dict[str, Callable[[], Any]] = {
        "regressor": lambda: AnytimeRegressor(bought).fit(X, score),
        "classifier": lambda: AnytimeClassifier(bought, alpha=1e-2).fit(X, np.where(score > 0, "a", "b")),
    }
    for name, make in makers.items():

        def loaded(name: str = name, make: Callable[[], Any] = make) -> Results:
            path = folder / f"{name}.budgetline"
            if not path.exists():
                save(make(), path)
            try:
                return of_model(load(path), X)
            except ValueError as error:
                if "reads schema" not in str(error):
                    raise
            save(make(), path)  # the format has changed since: files of versions that were not released are not read
            return of_model(load(path), X)

        yield f"file of a {name}", loaded


def results(folder: Path) -> Results:
    """Run every problem with the version that is imported here."""
    found: Results = {}
    with_present_names()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for problems in (regressions(), generalised(), sources(folder), proofs(), files(folder)):
            for name, work in problems:
                found[name] = {key: np.asarray(value).tolist() for key, value in work().items()}
    return found


# -- speed -----------------------------------------------------------------------------------------------------------


def jobs() -> dict[str, Callable[[], object]]:
    """Return jobs that take between a tenth of a second and a few seconds."""
    from budgetline import (
        AnytimeClassifier,
        AnytimeRegressor,
        AnytimeRegressorCV,
        AnytimeRunner,
        GroupLassoPath,
        Moments,
        budget_curve,
        load,
        open_data,
        save,
    )
    from budgetline.datasets import load_heart

    X, score, rng, groups, _ = table(0, n=100_000, sizes=(6,) * 40)
    y = score + rng.normal(size=len(X))
    small, labels = X[:20_000], (y[:20_000] > 0).astype(int)
    moments = Moments.from_data(X, y)
    model, heart = AnytimeRegressor(groups).fit_moments(moments), load_heart()
    file = Path(tempfile.mkdtemp()) / "model"
    save(model, file)
    doctor = AnytimeClassifier(heart.feature_groups, alpha=1e-2)
    chunked = open_data((small, labels), chunk_rows=4_000)
    by_score = AnytimeClassifier(groups, rule="score", max_groups=5)
    runner = AnytimeRunner(model, {name: lambda raw: [0.0] * 6 for name in groups}, mode="cooperative")
    return {
        "fit, 100,000 × 240": lambda: AnytimeRegressor(groups).fit(X, y),
        "sequence from moments": lambda: AnytimeRegressor(groups).fit_moments(moments),
        "logistic omp, 20,000 × 240": lambda: AnytimeClassifier(groups, rule="omp", max_groups=10).fit(small, labels),
        "group lasso from moments": lambda: GroupLassoPath(groups, n_lambdas=50).fit_moments(moments),
        "predict at a budget": lambda: [model.predict(X, budget=20) for _ in range(10)],
        "logistic forward, heart": lambda: [doctor.fit(heart.data, heart.target) for _ in range(5)],
        "softmax score, 2,000 × 240": lambda: AnytimeClassifier(groups, rule="score", max_groups=5).fit(
            small[:2000], np.digitize(y[:2000], [-1, 0, 1])
        ),
        "logistic score over a source": lambda: fit_source(by_score, chunked),
        "squared error over a source": lambda: fit_source(AnytimeRegressor(groups), open_data((X, y))),
        "cross-validation, 20,000 × 240": lambda: AnytimeRegressorCV(groups, alphas=[1e-3, 1e-1]).fit(
            small, y[:20_000]
        ),
        "a curve": lambda: budget_curve(model, X, y),
        "certificate without a search": lambda: model.certificate(time_limit=0),
        "load": lambda: [load(file) for _ in range(20)],
        "300 runs of 40 groups": lambda: [runner.predict(0) for _ in range(300)],
        "staged predictions": lambda: sum(1 for _ in model.staged_predict(X)),
    }


def serve() -> None:
    """Time one job per line of standard input, in a process that stays."""
    with_present_names()
    at_hand = jobs()
    print(json.dumps(list(at_hand)), flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        at_hand[line.strip()]()
        print(json.dumps(time.perf_counter() - start), flush=True)
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss), flush=True)


# -- the comparison --------------------------------------------------------------------------------------------------


def differences(before: Results, after: Results) -> list[str]:
    """Return the differences, one line each."""
    wrong = [f"{name}: not in both" for name in before.keys() ^ after.keys()]
    for name in before.keys() & after.keys():
        for key, value in before[name].items():
            a, b = np.asarray(value), np.asarray(after[name][key])
            if a.shape != b.shape or (a.dtype.kind not in "fc" and not np.array_equal(a, b)):
                wrong.append(f"{name}, {key}: {str(value)[:80]} became {str(after[name][key])[:80]}")
            elif a.dtype.kind in "fc" and a.size:
                gap = np.abs(a - b).max() / max(np.abs(a).max(), np.finfo(float).tiny)
                if not gap <= TOLERANCE:
                    wrong.append(f"{name}, {key}: differs by {gap:.1e}")
    return sorted(wrong)


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which the package of a working tree is imported."""
    return {**os.environ, "PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}


def run(tree: Path, folder: Path) -> Results:
    """Return the results of one version."""
    command = [sys.executable, __file__, "--results", str(folder)]
    done = subprocess.run(command, env=environment(tree), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tree}: {done.stderr}")
    found: Results = json.loads(done.stdout)
    return found


def timed(before: Path, after: Path, rounds: int, part: str) -> None:
    """Print the median of AFTER / BEFORE over rounds, measured in turns, for the jobs whose names contain this text."""
    command = [sys.executable, __file__, "--serve"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    served = [subprocess.Popen(command, env=environment(tree), **pipes) for tree in (before, after)]
    names, _ = (json.loads(process.stdout.readline()) for process in served)
    for name in (name for name in names if part in name):
        ratios = []
        for k in range(rounds + 1):
            times = []
            for process in served[:: (-1) ** k]:
                process.stdin.write(f"{name}\n")
                process.stdin.flush()
                times.append(json.loads(process.stdout.readline()))
            first, second = times[:: (-1) ** k]
            ratios.append(second / first)
        print(f"{name}: {np.median(ratios[1:]):.3f}")
    first, second = (json.loads(process.communicate()[0]) for process in served)
    print(f"peak memory: {second / first:.3f}")


def main() -> None:
    """Compare two versions; the exit code is 1 if results differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--time", action="store_true", help="measure speed, too")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--job", default="", help="measure only jobs with this in their names")
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.results or given.serve:
        print(json.dumps(results(given.results))) if given.results else serve()
        return
    if given.before is None or given.after is None:
        parser.error("two working trees are needed")
    with tempfile.TemporaryDirectory() as folder:
        before, after = (run(tree.resolve(), Path(folder)) for tree in (given.before, given.after))
    wrong = differences(before, after)
    print("\n".join([f"{len(before)} problems, {len(wrong)} differences", *wrong]))
    if given.time:
        timed(given.before.resolve(), given.after.resolve(), given.rounds, given.job)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
