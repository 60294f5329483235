"""``budgetline curve``, ``compare`` and ``report``: the quality of a model at every budget, on data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from budgetline.cli import options
from budgetline.cli.data import Files, check_classes, check_output, features_of, with_numbers, writing
from budgetline.cli.inspecting import encoded_columns
from budgetline.cli.learning import task_of
from budgetline.cli.printing import Printer, Refused, refusing
from budgetline.data.sources import Chunk, Source
from budgetline.estimators.cross_validation import unsearched
from budgetline.estimators.unattended import Estimator, estimator_for
from budgetline.evaluation import BudgetCurve, Comparison, budget_curve, cross_val_budget_curve
from budgetline.evaluation import compare as compare_methods
from budgetline.evaluation.metrics import label_of, with_positive
from budgetline.evaluation.resampling import folds_in_words, make_folds
from budgetline.groups import FeatureGroups
from budgetline.leastsquares.rules import RULES
from budgetline.messages import printable, shown
from budgetline.model.anytime import AnytimeModel
from budgetline.persistence.model_file import load_linear
from budgetline.report import Report, make_report
from budgetline.report.formatting import amount, count, number, with_error
from budgetline.sequencing.schedules import SCHEDULES

ReportFile = Annotated[
    Path | None, Option("-o", "--output", metavar="FILE", help=".html, .md or .json. Default: report.html.")
]
METHODS: dict[str, dict[str, Any]] = {
    **{rule: {"rule": rule} for rule in RULES},
    **{schedule: {"schedule": schedule} for schedule in SCHEDULES if schedule != "greedy"},
    "costs-ignored": {"cost_sensitive": False},
}
"""Ways to order the groups that can be compared, with the settings that make them."""


def curve(
    model: options.ModelFile,
    data: options.DataFiles,
    target: options.TargetName = None,
    metric: options.MetricName = None,
    cv: Annotated[int | None, Option("--cv", metavar="K", min=2, help="Number of folds.")] = None,
    shuffle: options.Shuffle = True,
    fold_by: options.FoldBy = None,
    positive: options.Positive = None,
    weight: options.Weight = None,
    qid: options.Query = None,
    drop_missing_target: options.DropMissingTarget = False,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what each budget buys on new data. With --cv, cross-validate on K folds of DATA instead.

    For example:
    budgetline curve heart.budgetline new.csv -t ill --metric roc_auc
    budgetline curve heart.budgetline visits.csv -t ill --cv 5 --fold-by patient
    """
    printer = Printer(as_json, quiet)
    files = Files(data, file_format, zero_based, delimiter, na, drop_missing_target)
    found, key = load_linear(model), _key(files, qid, fold_by)
    source = source_for(found.model_, files, target, printer, weight, key)
    measure = _metric(metric, positive)
    if cv is None:
        if fold_by is not None:
            raise Refused("--fold-by needs folds: add --cv K")
        printer.note("evaluating the model on these rows, which should not be its training rows")
        with refusing(), printer.waiting("evaluating"):
            judged = budget_curve(found, source, metric=measure)
    else:
        table = files.read_all(source, printer, "cross-validation", found.model_.source.read)
        table = _rows_for(found.model_, table, printer)
        queries, together = (table.qid, None) if fold_by is None else (None, table.qid)
        folds = _folds(cv, shuffle, found.model_.classes is not None, (qid, fold_by), printer)
        with refusing():
            judged = cross_val_budget_curve(
                unsearched(found), table.X, table.y, metric=measure, cv=folds, sample_weight=table.weight,
                qid=queries, groups=together, progress=printer.progress,
            )  # fmt: skip
    _print_curve(judged, printer)
    columns = {"value" if name == judged.metric else name: entries for name, entries in judged.to_dict().items()}
    printer.document({"model": str(model), "metric": judged.metric, "folds": len(judged.folds), **columns})


def compare(
    data: options.DataFiles,
    target: options.TargetName = None,
    groups: options.Groups = None,
    exclude: options.Exclude = None,
    keep_ids: options.KeepIds = False,
    rules: Annotated[str | None, Option(metavar="A,B,…", help=f"Some of {', '.join(METHODS)}.")] = None,
    cv: options.Folds = 5,
    shuffle: options.Shuffle = True,
    fold_by: options.FoldBy = None,
    metric: options.MetricName = None,
    positive: options.Positive = None,
    alpha: options.Alpha = None,
    encoding: options.Encoded = "auto",
    interactions: options.Interactions = 0,
    task: options.LearnedTask = "auto",
    weight: options.Weight = None,
    qid: options.Query = None,
    drop_missing_target: options.DropMissingTarget = False,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare ways to order the groups on the same folds, to see whether the learned order is worth it.

    For example:
    budgetline compare heart.csv -t ill -g groups.yaml
    budgetline compare heart.csv -t ill --rules fr,cheapest --metric roc_auc
    """
    printer = Printer(as_json, quiet)
    files = Files(data, file_format, zero_based, delimiter, na, drop_missing_target)
    key = _key(files, qid, fold_by)
    taken = {"--target": target, "--weight": weight, "--qid": qid, "--fold-by": fold_by}
    features = features_of(files, groups, taken, exclude)
    columns, settings = encoded_columns(files, features, target, (encoding, interactions), printer, keep_ids)
    files.note_dropped(target, printer)
    source = files.source(target, columns, weight=weight, qid=key, raw=settings is not None)
    table = files.read_all(source, printer, "a comparison")
    table = with_numbers(table, target, printer) if task != "classification" else table
    chosen = task_of(task, [table], target, printer)
    if task == "auto" and chosen == "classification":
        check_classes([table], target)
    methods = _methods(rules, chosen, features[1], alpha=alpha, encoding=settings)
    measure = _metric(metric, positive)
    queries, together = (table.qid, None) if fold_by is None else (None, table.qid)
    folds = _folds(cv, shuffle, chosen == "classification", (qid, fold_by), printer)
    with refusing():
        found = compare_methods(
            methods, table.X, table.y, metric=measure, cv=folds, sample_weight=table.weight,
            qid=queries, groups=together, progress=printer.progress,
        )  # fmt: skip
    _print_comparison(found, cv, printer)
    summary = {name: {k: v for k, v in row.items() if k != "stop_cost"} for name, row in found.summary().items()}
    printer.document({"metric": found.metric, "folds": cv, "methods": summary})


def report(
    model: options.ModelFile,
    data: Annotated[str | None, Argument(metavar="[DATA]", help="The data that the model learned from.")] = None,
    target: options.TargetName = None,
    output: ReportFile = None,
    unit: Annotated[str, Option(help="Unit of the costs: dollars, seconds, …")] = "cost units",
    title: Annotated[str | None, Option(help="Heading of the report.")] = None,
    metric: options.MetricName = None,
    positive: options.Positive = None,
    cv: options.Folds = 5,
    shuffle: options.Shuffle = True,
    fold_by: options.FoldBy = None,
    baselines: Annotated[bool, Option(help="Whether to compare with other ways to order the groups.")] = True,
    certify: Annotated[
        float | None,
        Option(metavar="SECONDS", min=0, help="Prove how close the order is to optimal, in this time."),
    ] = None,
    plan_seconds: Annotated[
        float,
        Option(metavar="SECONDS", min=0, help="How long to search for groups for known budgets; 0: no search."),
    ] = 5.0,
    weight: options.Weight = None,
    drop_missing_target: options.DropMissingTarget = False,
    file_format: options.FileFormat = None,
    delimiter: options.Delimiter = None,
    na: options.Missing = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a report of a model: what each budget buys, the order, and whether the order is worth it.

    For example:
    budgetline report heart.budgetline heart.csv -t ill --unit dollars
    budgetline report heart.budgetline -o heart.md
    """
    printer = Printer(as_json, quiet)
    place = Path("report.html") if output is None and not as_json else output
    files = None if data is None else Files(data, file_format, zero_based, delimiter, na, drop_missing_target)
    check_output(place, ".html", ".md", ".json", inputs=[model, *(files.paths if files else ())])
    found, given = load_linear(model), dict[str, Any]()
    if files is not None:
        others = weight, _key(files, None, fold_by)
        target = target_of(found.model_, files, target, printer, *others)
        source = source_for(found.model_, files, target, printer, *others)
        table = _rows_for(found.model_, files.read_all(source, printer, "a report", found.model_.source.read), printer)
        given = {"X": table.X, "y": table.y, "sample_weight": table.weight, "groups": table.qid}
    elif target is not None or weight is not None or fold_by is not None:
        raise Refused("--target, --weight and --fold-by are columns of DATA: add DATA")
    with refusing():
        proven = None if certify is None else found.certificate(time_limit=certify, progress=printer.progress)
        folds = make_folds(cv, found.model_.classes is not None, shuffle=shuffle, grouped=fold_by is not None)
        measure = metric if positive is None else _metric(metric, positive)
        named = title or (f"{target} in " if target else "") + Path(data or model).name
        given |= {"metric": measure, "cv": folds, "baselines": baselines, "unit": unit, "title": named}
        given |= {"plan_seconds": plan_seconds, "certificate": proven}
        summary = make_report(found, **given, progress=printer.progress)
    _write_report(summary, place, printer)
    printer.document(summary.to_dict())


def _rows_for(model: AnytimeModel, table: Chunk, printer: Printer) -> Chunk:
    """Return rows whose targets are numbers, if the model predicts numbers."""
    return with_numbers(table, None, printer) if model.classes is None else table


def _write_report(summary: Report, place: Path | None, printer: Printer) -> None:
    """Write a report, and print its headline."""
    if place is not None:
        with writing(place):
            summary.write(place)
        printer.note(f"wrote {place}")
    printer.say(printable(summary.headline))
    if summary.warning:
        printer.warn(printable(summary.warning))
    if not summary.measure.folds:
        printer.note("without DATA the report has the training curve only; with DATA, held-out values")


def source_for(
    model: AnytimeModel, files: Files, target: str | None, printer: Printer, weight: str | None, qid: str | None = None
) -> Source:
    """Open data with the columns of a model, and find the target."""
    target = target_of(model, files, target, printer, weight, qid)
    files.note_dropped(target, printer)
    return files.source_for(model, target, weight=weight, qid=qid)


def target_of(
    model: AnytimeModel, files: Files, target: str | None, printer: Printer, weight: str | None, qid: str | None = None
) -> str | None:
    """Return the target, by default the only column that a model does not know; None where columns have no names."""
    if target is None and model.source.names is not None and files.named:
        taken = {*model.source.names, weight, qid}
        others = [name for name in files.numeric if name not in taken]
        if len(others) != 1:
            raise Refused(f"say which column of {files.place} is the target: --target NAME")
        target = others[0]
        printer.note(f"the target is {shown(target)}, the only column that the model does not know")
    return target


def _metric(name: str | None, positive: str | None) -> object:
    """Return the metric, about the positive class if one is given."""
    if positive is None:
        return name or "explained"
    if name is None:
        raise Refused("--positive is for metrics about one class: add --metric, such as f1, precision or recall")
    with refusing():
        return with_positive(name, positive)


def _key(files: Files, qid: str | None, fold_by: str | None) -> str | None:
    """Return the column whose rows folds keep together: that of queries, another one, or None."""
    if qid is not None and fold_by is not None:
        raise Refused("give one of --qid and --fold-by: folds keep the rows of a query together")
    if fold_by is not None and not files.named:
        raise Refused(f"--fold-by names a column, and those of {files.place} have no names")
    files.check_columns({"--fold-by": fold_by})
    return qid if fold_by is None else fold_by


def _folds(cv: int, shuffle: bool, classes: bool, keys: tuple[str | None, str | None], printer: Printer) -> object:
    """Return folds, and say how they are made; the library keeps queries, or rows of one key, together."""
    qid, fold_by = keys
    folds = cv if qid is not None else make_folds(cv, classes, shuffle=shuffle, grouped=fold_by is not None)
    made = "queries kept together" if qid is not None else folds_in_words(folds)
    by = "" if fold_by is None else f", by {shown(fold_by)}"
    printer.note(f"{count(cv, 'fold')}{by}: {made}")
    return folds


def _methods(
    rules: str | None, task: options.TaskName, groups: FeatureGroups | None, **settings: Any
) -> dict[str, Estimator]:
    """Return the estimators to compare, by name."""
    default = f"fr,{'score' if task == 'classification' else 'omp'},costs-ignored,cheapest,random"
    names = [name.strip() for name in (rules or default).split(",")]
    if unknown := [name for name in names if name not in METHODS]:
        raise Refused(f"--rules: {shown(unknown[0])} is not one of {', '.join(METHODS)}")
    return {
        name: estimator_for(groups, classes=task == "classification", **settings, **METHODS[name]) for name in names
    }


def _print_comparison(found: Comparison, cv: int, printer: Printer) -> None:
    style = label_of(found.metric).style
    cells = []
    for name, row in found.summary().items():
        worth = with_error(row["timeliness"], row["error"], style)
        cells.append([name, worth, number(row["final"], style), f"{row['fit_seconds']:.3g}"])
    printer.table(["method", "mean over budgets", f"final {found.metric}", "fit seconds"], cells, left={0})
    about = f"{found.metric} on held-out rows, {count(cv, 'fold')}: the mean over all budgets (± standard error)"
    printer.say(f"\n{about},\nand the value when everything is bought.")


def _print_curve(judged: BudgetCurve, printer: Printer) -> None:
    style, costs, values = label_of(judged.metric).style, map(amount, judged.costs), judged.values.tolist()
    if judged.groups:
        names = (group or "(before any group)" for group in judged.groups)
        cells = zip(names, costs, (number(value, style) for value in values), strict=True)
        printer.table(["group", "cost", f"{judged.metric}, these rows"], cells, left={0})
    else:
        errors = [None] * len(judged) if judged.errors is None else judged.errors.tolist()
        means = (with_error(value, error, style) for value, error in zip(values, errors, strict=True))
        header = ["cost", f"held-out {judged.metric}, mean of {len(judged.folds)} folds"]
        printer.table(header, zip(costs, means, strict=True))
