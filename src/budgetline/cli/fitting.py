"""``budgetline fit``: from data files to a model file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
from typer import Option

from budgetline.arrays import Array
from budgetline.cli import options
from budgetline.cli.data import NONE, Files, Table, features_of, read_all
from budgetline.cli.errors import Refused, refusing
from budgetline.cli.outputs import check_output, writing
from budgetline.cli.printing import Printer, command_name
from budgetline.cli.showing import model_record
from budgetline.data import Source
from budgetline.data.sources import Chunk
from budgetline.estimators import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, AnytimeRegressorCV
from budgetline.groups import FeatureGroups
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.persistence import save
from budgetline.report.formatting import amount, count

Estimator = AnytimeRegressor | AnytimeClassifier
"""Those that choose alpha are subclasses."""


def fit(
    data: options.Data,
    output: Annotated[Path, Option("-o", "--output", metavar="MODEL", help="Where to write the model.")],
    target: options.Target = None,
    groups: options.Groups = None,
    task: options.LearnedTask = "auto",
    rule: Annotated[options.Rule | None, Option(help="How groups are scored. Default: fr.")] = None,
    schedule: Annotated[options.Schedule, Option(help="Which groups may come next.")] = "greedy",
    alpha: Annotated[float | None, Option(min=0, help="Ridge constant. Default: 1e-5.")] = None,
    cv: Annotated[int | None, Option(metavar="K", min=2, help="Choose alpha by K folds instead.")] = None,
    max_cost: Annotated[float | None, Option(min=0, help="Spend at most this.")] = None,
    max_groups: Annotated[int | None, Option(metavar="N", min=1, help="Stop after N groups.")] = None,
    weight: options.Weight = None,
    loss: Annotated[options.Loss | None, Option(help="Loss of a regression. Default: squared.")] = None,
    stream: Annotated[
        bool | None, Option("--stream/--in-memory", help="Read in chunks or all at once. Default: all, if they fit.")
    ] = None,
    file_format: options.FileFormat = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn the order of the groups and a model for every budget; write them to one file.

    For example:
    budgetline fit heart.csv -t ill -g groups.yaml -o heart.budgetline
    budgetline fit 'days/*.parquet' -t y --cv 5 -o m.budgetline
    """
    printer = Printer(as_json, quiet)
    files = Files(data, file_format, zero_based)
    check_output(output, inputs=[*files.paths, groups])
    if alpha is not None and cv is not None:
        raise Refused("give one of --alpha and --cv: cross-validation chooses alpha")
    columns, grouped = features_of(files, groups, {"--target": target, "--weight": weight}, printer)
    source = files.source(target, features=columns, weight=weight)
    streamed = not files.fit_into_memory(source) if stream is None else stream
    if streamed and cv is not None:
        raise Refused("--cv needs all rows in memory: give --alpha, or a part of the rows")
    table = None if streamed else read_all(files, source, printer)
    chosen = task_of(task, files.chunks(source, printer, NONE) if table is None else [table], target, printer)
    if loss is not None and chosen == "classification":
        raise Refused(f"--loss {loss} is for regression, and this is classification")
    if streamed and rule is None and (chosen == "classification" or loss == "poisson"):
        rule = "score"  # fr would read the data once per candidate
        printer.note("learning by rule score")
    limits = {"max_cost": max_cost, "max_groups": max_groups}
    given = {"rule": rule, "schedule": schedule, "alpha": alpha, "cv": cv, "loss": options.LOSS_NAMES.get(loss or "")}
    model = _fitted(estimator_for(chosen, grouped, **given, **limits), source, table, printer)
    with writing(output):
        save(model, output)
    _print(model.model_, output, (data, target), printer)


def _fitted(estimator: Estimator, source: Source, table: Table | None, printer: Printer) -> Estimator:
    """Fit an estimator to the rows in memory, or to a source."""
    if table is not None:
        printer.note(f"learning from {len(table.y):,} rows in memory")
        with refusing():
            return estimator.fit(table.X, table.y, sample_weight=table.weight)
    once = isinstance(estimator, AnytimeRegressor) and estimator.loss == "squared_error"
    printer.note(f"reading the data {'once' if once else 'several times'}, in chunks")
    with refusing():
        return estimator.fit(source, progress=printer.progress)


def estimator_for(task: options.Task, groups: FeatureGroups | None, **settings: Any) -> Estimator:
    """Return the estimator for a task, not fitted; settings that are None keep the library's defaults."""
    given = {name: value for name, value in settings.items() if value is not None}
    if task == "classification":
        return (AnytimeClassifierCV if "cv" in given else AnytimeClassifier)(groups, **given)
    return (AnytimeRegressorCV if "cv" in given else AnytimeRegressor)(groups, **given)


def task_of(wanted: options.Task, parts: Iterable[Chunk | Table], name: str | None, printer: Printer) -> options.Task:
    """Return the task that the target asks for, and say why, unless the user has chosen it.

    No more parts of the data are read than it takes to decide.
    """
    seen: set[Any] = set()
    what = f"the target{'' if name is None else f' {shown(name)}'} holds"
    for y in (part.y for part in parts):
        text = y.dtype.kind in "OUS" and all(isinstance(label, str) for label in y.tolist())
        if y.dtype.kind not in "biuf" and not text:
            raise Refused(f"{what} {_kind(y)}, neither numbers nor labels")
        if wanted == "regression" and text:
            raise Refused(f"{what} text, such as {shown(y[0])}, and a regression needs numbers: --task classification")
        broken = y[np.mod(y, 1) != 0].tolist() if y.dtype.kind == "f" else []
        if wanted == "classification" and broken:
            raise Refused(f"{what} numbers such as {broken[0]:g}, not labels of classes: --task regression")
        if wanted != "auto":
            return wanted
        seen |= set() if text else set(np.unique(y)[:3].tolist())
        if broken or len(seen) > 2:
            printer.note(f"regression: {what} numbers (else: --task classification)")
            return "regression"
        if text or y.dtype.kind == "b":
            break
    why = f"only {' and '.join(f'{label:g}' for label in sorted(seen))}" if seen else "text"
    printer.note(f"classification: {what} {why} (else: --task regression)")
    return "classification"


def _kind(y: Array) -> str:
    kinds = sorted({type(value).__name__ for value in y[:1000].tolist()})
    return "dates or times" if y.dtype.kind in "mM" else " and ".join(kinds)


def _print(model: AnytimeModel, output: Path, given: tuple[str, str | None], printer: Printer) -> None:
    """Print the sequence, what was written, and what to do next."""
    sequence = model.sequence
    printer.sequence(sequence, model.groups.names)
    chosen = f", alpha {model.alpha:g} chosen by cross-validation" if "alpha_" in model.learned else ""
    total = amount(float(sequence.costs.sum()))
    printer.note(f"wrote {output}: {model.estimator}, {count(len(sequence), 'group')}, total cost {total}{chosen}")
    budget = amount(float(sequence.cumulative_costs[len(sequence) // 2])) if len(sequence) else "1"
    command, file, data = command_name(), quote(str(output)), quote(given[0])
    printer.note(f"next: {command} show {file}")
    printer.note(f"      {command} predict {file} {data} --budget {budget}")
    printer.note(f"      {command} report {file} {data}{'' if given[1] is None else f' -t {quote(given[1])}'}")
    printer.document(model_record(model) | {"written": str(output)})
