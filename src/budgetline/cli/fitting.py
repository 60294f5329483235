"""``budgetline fit``: from files to a model file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from budgetline.cli import options
from budgetline.cli.data import NONE, Features, Files, chunks_of, features_of, fits, gathered
from budgetline.cli.errors import Refused, refusing
from budgetline.cli.invocation import command_name
from budgetline.cli.screens import Screen, in_line
from budgetline.cli.writing import check_output, saying
from budgetline.data import Source
from budgetline.estimators import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, AnytimeRegressorCV
from budgetline.messages import shown
from budgetline.persistence import save
from budgetline.report.formatting import amount, count


@dataclass(frozen=True)
class Settings:
    """What the user wants of the estimator; None: the library decides."""

    task: options.Task
    rule: options.Rule | None = None
    schedule: options.Schedule | None = None
    alpha: float | None = None
    folds: int | None = None
    max_cost: float | None = None
    max_groups: int | None = None
    loss: options.Loss | None = None
    costs_ignored: bool = False

    def check(self) -> None:
        """Raise an error if settings contradict each other."""
        if self.alpha is not None and self.folds is not None:
            raise Refused("give one of --alpha and --cv: cross-validation chooses alpha")
        if self.loss is options.Loss.poisson and self.folds is not None:
            raise Refused("--cv is for squared error and for classes: give --alpha with --loss poisson")
        if self.loss is not None and self.task is options.Task.classification:
            raise Refused(f"--loss {self.loss.value} is for regression, and this is classification")

    def estimator(self, groups: Any, streamed: bool = False) -> Any:
        """Return the estimator, not fitted."""
        self.check()
        classes = self.task is options.Task.classification
        rule = self.rule
        if rule is None and streamed and (classes or self.loss is options.Loss.poisson):
            rule = options.Rule.score  # fr would read the data once per candidate
        given: dict[str, Any] = {
            "rule": None if rule is None else rule.value,
            "schedule": None if self.schedule is None else self.schedule.value,
            "alpha": self.alpha,
            "cv": self.folds,
            "max_cost": self.max_cost,
            "max_groups": self.max_groups,
            "loss": {None: None, "squared": "squared_error", "poisson": "poisson"}[self.loss],
            "cost_sensitive": False if self.costs_ignored else None,
        }
        if self.folds is not None:
            given.pop("loss")
            kind: Any = AnytimeClassifierCV if classes else AnytimeRegressorCV
        else:
            kind = AnytimeClassifier if classes else AnytimeRegressor
        return kind(groups, **{name: value for name, value in given.items() if value is not None})


def fit(
    data: options.Data,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="Where to write the model.")],
    target: options.Target = None,
    groups: options.Groups = None,
    task: Annotated[options.Task, typer.Option(help="What to learn; auto looks at the target.")] = options.Task.auto,
    rule: Annotated[options.Rule | None, typer.Option(help="How groups are judged. Default: fr.")] = None,
    schedule: Annotated[options.Schedule, typer.Option(help="Which groups may come next.")] = options.Schedule.greedy,
    alpha: Annotated[float | None, typer.Option(min=0, help="Ridge constant. Default: 1e-5.")] = None,
    cv: Annotated[int | None, typer.Option(metavar="K", min=2, help="Choose alpha by K folds instead.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Spend no more than this.")] = None,
    max_groups: Annotated[int | None, typer.Option(min=1, help="Stop after so many groups.")] = None,
    weight: options.Weight = None,
    loss: Annotated[options.Loss | None, typer.Option(help="Of a regression. Default: squared.")] = None,
    stream: Annotated[
        bool | None, typer.Option("--stream/--in-memory", help="Read in chunks, or all at once. Default: what fits.")
    ] = None,
    file_format: options.FileFormat = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn the order of the groups and a model for every budget; write them to one file."""
    screen = Screen(as_json, quiet)
    files = Files(data, file_format, zero_based)
    check_output(output, inputs=[*files.found[0], groups])
    Settings(task, rule, schedule, alpha, cv, max_cost, max_groups, loss).check()
    features = features_of(files, groups, {"--target": target, "--weight": weight}, screen)
    source = files.source(target, features.names, weight=weight)
    streamed = not fits(files, source) if stream is None else stream
    labels = (chunk.y for chunk in chunks_of(source, NONE))
    table = None if streamed else gathered(files, source, screen)
    chosen = task_of(task, labels if table is None else [table.y], target, screen)
    settings = Settings(chosen, rule, schedule, alpha, cv, max_cost, max_groups, loss)
    if table is None:
        model = _fit_streamed(settings, features, source, screen)
    else:
        estimator = settings.estimator(features.groups)
        screen.note(f"learning from {len(table.y):,} rows in memory")
        with refusing():
            model = estimator.fit(table.X, table.y, sample_weight=table.weight)
    with saying(output):
        save(model, output)
    _report(model, output, (data, target), screen)


def _fit_streamed(settings: Settings, features: Features, source: Source, screen: Screen) -> Any:
    if settings.folds is not None:
        raise Refused("--cv needs all rows in memory: give --alpha, or a part of the rows")
    estimator = settings.estimator(features.groups, streamed=True)
    how = "once" if isinstance(estimator, AnytimeRegressor) and estimator.loss == "squared_error" else "several times"
    by_score = " by rule score" if settings.rule is None and estimator.rule == "score" else ""
    screen.note(f"reading the data {how}, in chunks; learning{by_score}")
    with refusing():
        return estimator.fit(source, progress=screen.progress)


def task_of(wanted: options.Task, targets: Iterable[NDArray[Any]], name: str | None, screen: Screen) -> options.Task:
    """Return the task that the target asks for, and say why, unless the user has said it.

    ``targets`` are parts of it; no more are read than it takes to decide.
    """
    seen: set[Any] = set()
    what = f"the target{'' if name is None else f' {shown(name)}'} holds"
    for y in targets:
        text = y.dtype.kind in "OUS" and all(isinstance(label, str) for label in y.tolist())
        if y.dtype.kind not in "biuf" and not text:
            raise Refused(f"{what} {_kind(y)}, neither numbers nor labels")
        if wanted is options.Task.regression and text:
            raise Refused(f"{what} text, such as {shown(y[0])}, and a regression needs numbers: --task classification")
        broken = [] if text else y[np.mod(y, 1) != 0].tolist() if y.dtype.kind == "f" else []
        if wanted is options.Task.classification and broken:
            raise Refused(f"{what} numbers such as {broken[0]:g}, not labels of classes: --task regression")
        if wanted is not options.Task.auto:
            return wanted
        seen |= set() if text else set(np.unique(y)[:3].tolist())
        if broken or len(seen) > 2:
            screen.note(f"regression: {what} numbers (else: --task classification)")
            return options.Task.regression
        if text or y.dtype.kind == "b":
            break
    why = f"only {' and '.join(f'{label:g}' for label in sorted(seen))}" if seen else "text"
    screen.note(f"classification: {what} {why} (else: --task regression)")
    return options.Task.classification


def _kind(y: NDArray[Any]) -> str:
    kinds = sorted({type(value).__name__ for value in y[:1000].tolist()})
    return "dates or times" if y.dtype.kind in "mM" else " and ".join(kinds)


def _report(model: Any, output: Path, given: tuple[str, str | None], screen: Screen) -> None:
    """Print the sequence, what was written, and what to do next."""
    file, data = quote(str(output)), quote(given[0])
    option = "" if given[1] is None else f" -t {quote(given[1])}"
    order = model.sequence_
    screen.sequence(order)
    left_out = [name for name in model.feature_groups_.names if name not in set(order.groups)]
    if left_out:
        screen.say(f"not in the sequence: {in_line(left_out)}")
    chosen = f", alpha {model.alpha_:g} chosen by cross-validation" if hasattr(model, "alpha_") else ""
    total = amount(float(order.costs.sum()))
    screen.note(f"wrote {output}: {type(model).__name__}, {count(len(order), 'group')}, total cost {total}{chosen}")
    budget = amount(float(order.cumulative_costs[len(order) // 2])) if len(order) else "1"
    command = command_name()
    screen.note(f"next: {command} show {file}")
    screen.note(f"      {command} predict {file} {data} --budget {budget}")
    screen.note(f"      {command} report {file} {data}{option}")
    screen.document(model_record(model) | {"written": str(output)})


def model_record(model: Any) -> dict[str, Any]:
    """Return what a model is, as plain values."""
    order = model.sequence_
    settings = {k: v for k, v in model.get_params(deep=False).items() if k not in ("feature_groups", "costs")}
    chosen = {"alpha_": model.alpha_} if hasattr(model, "alpha_") else {}
    classes = {"classes": model.classes_} if hasattr(model, "classes_") else {}
    names = getattr(model, "feature_names_in_", None)
    shared, requires = model.feature_groups_.shared, model.feature_groups_.requires
    return {
        "estimator": type(model).__name__,
        "task": "classification" if classes else "regression",
        **classes,
        "columns": int(model.n_features_in_),
        "column_names": None if names is None else list(names),
        "sequence": order.to_dict(),
        "total_cost": float(order.costs.sum()),
        "shared": {name: {"cost": cost, "groups": list(groups)} for name, (cost, groups) in shared.items()},
        "requires": {name: list(groups) for name, groups in requires.items()},
        "not_in_sequence": [name for name in model.feature_groups_.names if name not in set(order.groups)],
        "settings": {
            k: v if isinstance(v, str | int | float | bool | None) else shown(v, 1000) for k, v in settings.items()
        },
        **chosen,
    }
