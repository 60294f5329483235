"""``budgetline fit``: from data files to a model file; and ``demo``: all steps on real data."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split
from typer import Option

from budgetline.cli import options
from budgetline.cli.data import (
    Features,
    Files,
    check_classes,
    check_output,
    features_of,
    with_numbers,
    write_text,
    writing,
)
from budgetline.cli.inspecting import encoded_columns
from budgetline.cli.printing import Printer, Refused, bought_at, command_name, held_out_of, refusing
from budgetline.data import Source
from budgetline.data.sources import Chunk
from budgetline.data.target_column import check_values, fractions_in, is_text
from budgetline.data.target_column import task_of as asked_task
from budgetline.datasets import load_nhanes
from budgetline.encoding import Encoding
from budgetline.estimators import AnytimeRegressorCV
from budgetline.estimators.regressor import BaseRegressor
from budgetline.estimators.unattended import Estimator, shuffled_rows, unattended, usual_folds
from budgetline.evaluation import BudgetCurve, budget_curve
from budgetline.files import model_path_for
from budgetline.fitting.fold_search import WORSE
from budgetline.groups import FeatureGroups
from budgetline.inputs import NamedArray
from budgetline.messages import name_of, shown, some
from budgetline.model.anytime import AnytimeModel
from budgetline.persistence import save
from budgetline.report import Report, make_report
from budgetline.report.builders import groups_with_columns, how_chosen, model_record
from budgetline.report.formatting import amount, count, number, share, with_error

NO_COLUMNS = np.empty(0, dtype=np.intp)
KNOWN = "DIQ"
"""The questionnaire about diabetes."""


class LearningData(NamedTuple):
    """The data of a fit: source, rows if they are in memory, groups, columns, encoding (None: plain numbers)."""

    source: Source
    table: Chunk | None
    groups: FeatureGroups | None
    columns: list[str] | None
    encoding: Encoding | str | None

    @property
    def group_names(self) -> Sequence[str]:
        """Names of the groups, or of the columns, if every column is a group."""
        if self.groups is not None:
            return self.groups.names
        return self.columns or [str(d) for d in range(self.source.n_features)]


def fit(
    data: options.DataFiles,
    output: options.Output = None,
    target: options.TargetName = None,
    groups: options.Groups = None,
    exclude: options.Exclude = None,
    task: options.LearnedTask = "auto",
    rule: options.GivenRule = None,
    schedule: options.GivenSchedule = "greedy",
    alpha: options.Alpha = None,
    encoding: options.Encoded = "auto",
    interactions: options.Pairs = None,
    correction: options.Correction = None,
    cv: options.ChoosingFolds = None,
    no_cv: options.NoFolds = False,
    fold_by: options.FoldBy = None,
    shuffle: options.Shuffle = True,
    start: options.Start = None,
    max_cost: options.MaxCost = None,
    max_groups: options.MaxGroups = None,
    all_groups: options.AllGroups = False,
    keep_ids: options.KeepIds = False,
    drop_missing_target: options.DropMissingTarget = False,
    weight: options.Weight = None,
    loss: options.GivenLoss = None,
    stream: options.Stream = None,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn the order of the groups and a model for every budget; write them to one file.

    For example:
    budgetline fit heart.csv -t ill
    budgetline fit heart.csv -t ill -g groups.yaml -o m.budgetline
    budgetline fit 'days/*.parquet' -t y --no-cv -o m.budgetline
    """
    printer, files = Printer(as_json, quiet), Files(data, file_format, zero_based, delimiter, na, drop_missing_target)
    output = model_path_for(data) if output is None else output
    check_output(output, inputs=[*files.paths, groups])
    others = {"--target": target, "--weight": weight, "--fold-by": fold_by}
    features = features_of(files, groups, others, exclude)
    found = _given(files, features, others, (encoding, interactions or 0, keep_ids), stream, task, printer)
    _check_folds(cv, no_cv, shuffle, fold_by, found.table is None)
    chosen = _task(files, found, task, loss, target, printer)
    settings = {
        "schedule": schedule, "max_cost": max_cost, "max_groups": max_groups, "all_groups": all_groups, "alpha": alpha,
        "correction": correction, "rule": rule, "loss": options.LOSS_NAMES.get(loss or ""), "pairs": interactions,
        "start": options.names_of(start, found.group_names) or None,
    }  # fmt: skip
    folds = None if no_cv else _number_of_folds(cv, found, chosen, alpha, printer)
    estimator = _estimator(found, chosen, folds, settings, printer)
    model = _fitted(estimator, found, shuffle and folds is not None, printer)
    with writing(output):
        save(model, output)
    _print(model.model_, output, (data, target), printer)


def _check_folds(cv: int | None, no_cv: bool, shuffle: bool, fold_by: str | None, streamed: bool) -> None:
    """Raise an error if the options about folds contradict each other."""
    if streamed and (fold_by is not None or (cv is not None and not shuffle)):
        option = "--no-shuffle" if fold_by is None else "--fold-by"
        raise Refused(f"{option} needs all rows in memory: in chunks, rows go to folds by a hash of their values")
    if no_cv and (cv is not None or fold_by is not None):
        raise Refused(f"give one of {'--cv' if fold_by is None else '--fold-by'} and --no-cv")
    if fold_by is not None and not shuffle:
        raise Refused("give one of --fold-by and --no-shuffle")


def _given(
    files: Files,
    features: Features,
    others: Mapping[str, str | None],
    asked: tuple[options.EncodingKind, int, bool],
    stream: bool | None,
    task: options.TaskName,
    printer: Printer,
) -> LearningData:
    """Open the data, and read all rows if they fit into memory; ``asked``: encoding, pairs, whether to keep ids."""
    target, weight, fold_by = others.values()
    kind, pairs, keep_ids = asked
    columns, settings = encoded_columns(files, features, target, (kind, pairs), printer, keep_ids)
    files.note_dropped(target, printer)
    source = files.source(target, columns, weight=weight, qid=fold_by, raw=settings is not None)
    streamed = not files.fit_into_memory(source, settings is not None) if stream is None else stream
    table = None if streamed else files.read_all(source, printer)
    if table is not None and task != "classification":
        table = with_numbers(table, target, printer)
    return LearningData(source, table, features[1], columns, settings)


def _task(
    files: Files, found: LearningData, task: options.TaskName, loss: str | None, target: str | None, printer: Printer
) -> options.TaskName:
    """Return the task, given or found from the target."""
    chunks = (
        (lambda: files.chunks(found.source, printer, NO_COLUMNS)) if found.table is None else (lambda: [found.table])
    )
    chosen = task_of(task, chunks(), target, printer)
    if task == "auto" and chosen == "classification":
        check_classes(chunks(), target)
    if loss is not None and chosen == "classification":
        raise Refused(f"--loss {loss} is for regression, and this is classification")
    return chosen


def _number_of_folds(
    cv: int | None, found: LearningData, task: options.TaskName, alpha: float | str | None, printer: Printer
) -> int | None:
    """Return the number of folds that settings are chosen on, None without any."""
    folds = cv
    if cv is None and found.table is not None:
        folds = usual_folds(found.table.y, classes=task == "classification")
        if folds is None:
            printer.note("too few rows to cross-validate: alpha is chosen from the data, and nothing is held out")
    if folds is not None and alpha == "auto":
        raise Refused("--alpha auto chooses alpha without folds: give --no-cv, too")
    return folds


def _estimator(
    found: LearningData, task: options.TaskName, folds: int | None, settings: Mapping[str, Any], printer: Printer
) -> Estimator:
    """Return the estimator, not fitted."""
    y, n_groups = None if found.table is None else found.table.y, len(found.group_names)
    given = {"classes": task == "classification", "encoding": found.encoding, "folds": folds, **settings}
    estimator = unattended(found.groups, n_groups, y, **given)
    if settings["rule"] is None and estimator.rule == "score":
        printer.note("learning by rule score: rule fr would refit every candidate at every step")
    most = getattr(estimator, "search_rows", None)
    if most is not None and y is not None and most < y.size:
        printer.note(f"to save time, settings and held-out quality come from {most:,} of the rows")
    return estimator


def _fitted(estimator: Estimator, found: LearningData, shuffled: bool, printer: Printer) -> Estimator:
    """Fit an estimator to the rows in memory, or to a source."""
    table = found.table
    if table is not None:
        printer.note(f"learning from {len(table.y):,} rows in memory")
        if shuffled and table.qid is None:  # the estimator cuts the rows in their order
            table = table.take(shuffled_rows(table.n_rows))
        kept: dict[str, Any] = {} if table.qid is None else {"groups": table.qid}
        located = nullcontext() if estimator.encoding is None else table.located()
        with refusing(), printer.waiting("learning"), located:
            fitted: Estimator = estimator.fit(table.X, table.y, sample_weight=table.weight, **kept)
        return fitted
    once = isinstance(estimator, BaseRegressor) and estimator.loss == "squared_error" and estimator.encoding is None
    printer.note(f"reading the data {'once' if once else 'several times'}, in chunks")
    with refusing():
        streamed: Estimator = estimator.fit(found.source, progress=printer.progress)
    return streamed


def task_of(wanted: options.TaskName, chunks: Iterable[Chunk], name: str | None, printer: Printer) -> options.TaskName:
    """Return the task that the user wants, or find it from the target and print why.

    Reading stops as soon as the task is known.
    """
    what = f"the target{'' if name is None else f' {shown(name)}'} holds"
    if wanted == "auto":
        with refusing():
            task, why = asked_task((chunk.y for chunk in chunks), what)
        printer.note(
            f"{task}: {what} {why} (else: --task {'classification' if task == 'regression' else 'regression'})"
        )
        return "regression" if task == "regression" else "classification"
    y = next(chunk.y for chunk in chunks)
    with refusing():
        check_values(y, what)
    if wanted == "regression" and is_text(y):
        raise Refused(f"{what} text, such as {shown(y[0])}, and a regression needs numbers: --task classification")
    if wanted == "classification" and (broken := fractions_in(y)).size:
        raise Refused(f"{what} numbers such as {broken[0]:g}, not labels of classes: --task regression")
    return wanted


def _print(model: AnytimeModel, output: Path, given: tuple[str, str | None], printer: Printer) -> None:
    """Print the sequence, the name of the file, and the next commands."""
    sequence = model.sequence
    printer.sequence(model)
    for line in _about_held_out(model):
        printer.warn(line)
    if model.encoding is not None and (rare := model.encoding.all_rare):
        what = f"text whose values are all too rare to learn from: {some(rare, of=name_of)}"
        printer.warn(f"{what} (if these are numbers, write them like 1234.5)")
    chosen = f", {text}" if (text := how_chosen(model)) else ""
    total, groups = amount(float(sequence.costs.sum())), count(_bought(model, len(sequence)), "group")
    printer.note(f"wrote {output}: {model.estimator}, {groups}, total cost {total}{chosen}")
    budget = amount(float(sequence.cumulative_costs[len(sequence) // 2])) if len(sequence) else "1"
    command, file, data = command_name(), quote(str(output)), quote(given[0])
    printer.note(f"next: {command} show {file}")
    printer.note(f"      {command} predict {file} {data} --budget {budget}")
    printer.note(f"      {command} report {file} {data}{'' if given[1] is None else f' -t {quote(given[1])}'}")
    printer.document(model_record(model) | {"written": str(output)})


def _about_held_out(model: AnytimeModel) -> Iterator[str]:
    """Yield a warning if more groups make predictions of held-out rows worse."""
    expected = held_out_of(model)
    if expected is None or len(expected) < 2:
        return
    best = int(np.argmax(expected[:, 0]))
    (most, error), last = expected[best], float(expected[-1, 0])
    if most - last > max(WORSE, np.nan_to_num(error)):
        cost = amount(float(model.sequence.cumulative_costs[best - 1])) if best else "0"
        quality = f"{share(most)} explained (held out), {share(last)} with all groups"
        groups = count(_bought(model, best), "group")
        yield f"predictions of new rows are best after {groups}: {quality}; predict with --budget {cost}"


def _bought(model: AnytimeModel, stage: int) -> int:
    """Return how many groups are bought up to a stage, without pairs of columns."""
    bought = groups_with_columns(model)
    return sum(name in bought for name in model.sequence.groups[:stage])


def demo(
    output: Annotated[Path, Option("-o", "--output", metavar="FOLDER", help="Where to write.")] = Path(
        "budgetline-demo"
    ),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run all steps on real data: what to ask and measure first to predict long-term blood sugar.

    For example:
    budgetline demo
    """
    printer = Printer(as_json, quiet)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot write to {output}: {error.strerror or error}") from error
    nhanes = load_nhanes()
    every, members = nhanes.feature_names, zip(nhanes.feature_groups.names, nhanes.feature_groups.columns, strict=True)
    costs = dict(zip(nhanes.feature_groups.names, nhanes.feature_groups.costs.tolist(), strict=True))
    # With the questionnaire about diabetes, no other question would be worth its cost.
    columns = {name: [every[d] for d in own] for name, own in members if name != KNOWN}
    used = [d for d, name in enumerate(every) if any(name in own for own in columns.values())]
    names = [every[d] for d in used]
    groups = FeatureGroups(
        {nhanes.group_titles[name]: own for name, own in columns.items()}, [costs[name] for name in columns]
    )
    X, X_test, y, y_test = train_test_split(nhanes.data[:, used], nhanes.target, test_size=0.2, random_state=0)
    printer.note(f"NHANES 2017-2018: {len(y):,} adults, {len(names)} columns in {len(groups)} groups. Learning …")
    table = NamedArray(X, tuple(names))
    with printer.waiting("learning"):
        searched = AnytimeRegressorCV(groups).fit(table, y)
        model = searched.chosen().fit(table, y)  # the folds of the report learn with the settings chosen here
    curve = budget_curve(model, NamedArray(X_test, tuple(names)), y_test, metric="r2")
    printer.note("Comparing it with other ways to order the groups, on 5 folds …")
    title = "What to ask and measure first to predict long-term blood sugar"
    report = make_report(model, table, y, title=title, unit="points", progress=printer.progress)
    files = {name: output / name for name in ("model.budgetline", "report.html", "groups.yaml", "people.csv")}
    people = io.StringIO(newline="")
    rows = ([*row, target] for row, target in zip(X_test.tolist(), y_test.tolist(), strict=True))
    csv.writer(people, lineterminator="\n").writerows([[*names, "HbA1c"], *rows])
    with writing(files["model.budgetline"]):
        save(model, files["model.budgetline"])
    with writing(files["report.html"]):
        report.write(files["report.html"])
    write_text(files["groups.yaml"], groups.to_yaml())
    write_text(files["people.csv"], people.getvalue())
    printer.say("The order in which to ask and measure, to predict long-term blood sugar (HbA1c):\n")
    printer.sequence(searched.model_)
    printer.say(f"\n{how_chosen(searched.model_)}")
    _print_demo(curve, report, len(y_test), files, printer)
    paths = {name: str(path) for name, path in files.items()}
    printer.document({**model_record(model.model_), "held_out_r2": bought_at(curve), "written": paths})


def _print_demo(curve: BudgetCurve, report: Report, held_out: int, files: dict[str, Path], printer: Printer) -> None:
    printer.say(f"\nWhat each budget buys: R² on {held_out:,} people who were held out\n")
    printer.budgets(curve)
    if report.comparison is not None:
        printer.say(f"\nIs the order worth it? Mean {report.measure.label} over all budgets, 5 folds:\n")
        style, methods, tenth = report.measure.style, report.comparison.methods, report.comparison.shares.index(0.1)
        worth = (with_error(method.timeliness, method.timeliness_error, style) for method in methods)
        early = (number(method.values[tenth], style) for method in methods)
        cells = zip((method.name for method in methods), worth, early, strict=True)
        printer.table(["method", "mean over budgets", "at a tenth of the cost"], cells, left={0})
    printer.say(f"\n{report.headline}")
    printer.say(f"\nmodel:  {files['model.budgetline']}\nreport: {files['report.html']}   (open it in a browser)")
    printer.say(f"groups: {files['groups.yaml']}\ndata:   {files['people.csv']}   (the people held out)")
    command, model_file, people = command_name(), *(quote(str(files[n])) for n in ("model.budgetline", "people.csv"))
    printer.say(f"\nnext: {command} show {model_file}")
    printer.say(f"      {command} predict {model_file} {people} --budget 30")
