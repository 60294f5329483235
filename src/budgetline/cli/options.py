"""Options of commands. Themes that several commands share are records, whose fields are options: see ``flattened``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from typer import Argument, BadParameter, Option

from budgetline.cli.printing import Refused
from budgetline.evaluation.metrics import METRICS
from budgetline.glm.families import LOSSES
from budgetline.groups.parsing import places_of, positions_of
from budgetline.inputs import check_number
from budgetline.leastsquares.rules import RULES
from budgetline.messages import shown
from budgetline.sequencing.schedules import SCHEDULES

LOSS_NAMES = {name.removesuffix("_error"): name for name in LOSSES}
"""Names of the losses on the command line and in the library."""
FileFormat = Literal["csv", "parquet", "excel"]
TaskName = Literal["auto", "regression", "classification", "ranking", "survival"]
EncodingKind = Literal["none", "linear", "spline"]
if TYPE_CHECKING:
    Rule = str
    Schedule = str
    Loss = str
else:
    Rule, Schedule, Loss = Literal[tuple(RULES)], Literal[tuple(SCHEDULES)], Literal[tuple(LOSS_NAMES)]

PANELS = {
    "Data": (
        "target",
        "qid",
        "event",
        "time",
        "groups",
        "exclude",
        "keep_ids",
        "drop_missing_target",
        "weight",
        "stream",
    ),
    "File format": ("file_format", "delimiter", "na"),
    "Model": ("task", "loss", "encoding", "interactions", "alpha", "correction", "rule", "schedule"),
    "Order": ("start", "max_cost", "max_groups", "all_groups"),
    "Cross-validation": ("cv", "no_cv", "fold_by", "calibration"),
    "Output": ("output", "as_json", "quiet", "help"),
}
"""Panels of options in the help, by parameter name; all other options come first."""


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer: a parameter that is a record becomes one option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    parameters = []
    for name, parameter in signature(command).parameters.items():
        if is_dataclass(kind := hints[name]):
            options = get_type_hints(kind, include_extras=True)
            parameters += [
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=options[field.name])
                for field in fields(kind)
            ]
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def flat(**given: Any) -> None:
        records = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
        for name, kind in records.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})  # type: ignore[operator]
        command(**given)

    flat.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return flat


def names_of(texts: Iterable[str] | None, known: Collection[str]) -> list[str]:
    """Return the names in lists such as "a,b"; a name with commas is a list of its own."""
    lists = ([text] if text in known else text.split(",") for text in texts or ())
    return [name for each in lists for name in map(str.strip, each) if name]


def group_names(option: str, texts: Iterable[str] | None, known: Collection[str]) -> list[str]:
    """Return the names of groups in the lists of an option; an unknown name is an error that names the known ones."""
    found = names_of(texts, known)
    positions_of(option, found, places_of(tuple(known)))
    return found


def alpha_of(given: str) -> float | str:
    """Return a ridge constant, or "auto"."""
    try:
        return given if given == "auto" else check_number("alpha", float(given), ge=0, finite=True)
    except ValueError:
        raise BadParameter(f"{shown(given)} is neither a number ≥ 0 nor auto") from None


DataFiles = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="A CSV (also .tsv, .txt, .gz), Parquet or Excel file, a folder of such files, or a glob in quotes.",
    ),
]
ModelFile = Annotated[Path, Argument(metavar="MODEL", help="A model file, written by 'budgetline fit'.")]
TargetName = Annotated[str | None, Option("--target", "-t", metavar="NAME", help="Column to predict.")]
Groups = Annotated[
    Path | None,
    Option("--groups", "-g", metavar="FILE", help="YAML file of groups and costs. Default: each column is a group."),
]
Exclude = Annotated[list[str] | None, Option("--exclude", metavar="A,B,…", help="Columns to leave out; repeatable.")]
KeepIds = Annotated[bool, Option("--keep-ids", help="Also keep identifiers and free text.")]
Streams = Annotated[
    bool | None,
    Option(
        "--stream/--in-memory", help="Read the rows in chunks, or load all into memory. Default: in memory if they fit."
    ),
]
Delimiter = Annotated[
    str | None,
    Option(
        "--delimiter", metavar="CHAR", help="Delimiter of CSV files, or 'tab'. Default: detected from the first lines."
    ),
]
Missing = Annotated[
    list[str] | None,
    Option(
        "--na",
        metavar="TEXT",
        help="Text that stands for a missing value in CSV files, besides empty fields; repeatable. Default: NA, ?, …",
    ),
]
Correction = Annotated[
    float | None,
    Option(
        metavar="X",
        min=0,
        help="Subtract X times what noise alone explains from each gain. Default: cross-validated, or 0 without folds.",
    ),
]
AllGroups = Annotated[
    bool,
    Option(
        "--all-groups",
        help="Also buy groups that do not help. Default: leave out groups that gain nothing in training, and the end "
        "of the order if held-out quality clearly falls there.",
    ),
]
NumberOfFolds = Annotated[
    int | None,
    Option(
        metavar="K",
        min=2,
        help="Number of folds for choosing alpha, correction and pairs. Default: 5 if the rows are in memory.",
    ),
]
AvailableGroups = Annotated[
    list[str] | None,
    Option(metavar="A,B,…", help="Use exactly these groups; repeatable. With auto, use all groups present in a row."),
]
Calibrates = Annotated[
    Literal["auto", "none"] | None, Option(help="Whether to calibrate probabilities on the folds. Default: auto.")
]
FoldBy = Annotated[
    str | None,
    Option(
        "--fold-by",
        metavar="NAME",
        help="Keep rows with the same value in this column, such as a patient number, in the same fold.",
    ),
]
TimeLimitSeconds = Annotated[
    float, Option("--time-limit", metavar="SECONDS", min=0, help="Time limit for the whole search.")
]
Budget = Annotated[float | None, Option("--budget", "-b", min=0, help="Spend at most this much.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only warnings on stderr, no notes or progress.")]


@dataclass(frozen=True)
class FileOptions:
    """How to read DATA."""

    file_format: Annotated[
        FileFormat | None, Option("--format", help="Format of DATA. Needed if the file suffix does not determine it.")
    ] = None
    delimiter: Delimiter = None
    na: Missing = None


@dataclass(frozen=True)
class TargetOptions:
    """The columns of the target, of weights, and of queries or events."""

    target: TargetName = None
    weight: Annotated[str | None, Option("--sample-weight", metavar="NAME", help="Column of sample weights.")] = None
    drop_missing_target: Annotated[bool, Option("--drop-missing-target", help="Leave out rows without a target.")] = (
        False
    )
    qid: Annotated[str | None, Option("--qid", metavar="NAME", help="Column of query IDs, for rankings.")] = None
    event: Annotated[
        str | None,
        Option(
            "--event",
            metavar="NAME",
            help="Column that marks whether the event happened at --time, for survival models.",
        ),
    ] = None
    time: Annotated[
        str | None, Option("--time", metavar="NAME", help="Column of survival times to predict; requires --event.")
    ] = None

    def __post_init__(self) -> None:
        if self.time is not None:
            object.__setattr__(self, "target", self.time)

    @property
    def columns(self) -> str | list[str] | None:
        """The target as a source expects it: one column, or the columns of time and event."""
        return self.target if self.event is None or self.target is None else [self.target, self.event]

    @property
    def roles(self) -> dict[str, str | None]:
        """Columns that are not features, by option."""
        found = {"--target": self.target, "--sample-weight": self.weight, "--qid": self.qid, "--event": self.event}
        return {option: name for option, name in found.items() if name is not None}


@dataclass(frozen=True)
class LearningOptions:
    """What to learn from, and how columns are encoded."""

    groups: Groups = None
    exclude: Exclude = None
    keep_ids: KeepIds = False
    task: Annotated[TaskName, Option("--task", help="What to learn; auto infers it from the target.")] = "auto"
    encoding: Annotated[
        EncodingKind | None,
        Option(
            "--encoding", help="How to encode columns; none uses plain numbers. Default: spline, or none for rankings."
        ),
    ] = None
    interactions: Annotated[
        int | None,
        Option("--interactions", metavar="K", min=0, help="Add up to K pairs of columns. Default: fit tries up to 20."),
    ] = None
    alpha: Annotated[
        Any,
        Option(
            parser=alpha_of,
            metavar="A|auto",
            help="Ridge constant; auto chooses it from the data. Default: cross-validated, or auto without folds.",
        ),
    ] = None


@dataclass(frozen=True)
class MetricOptions:
    """What is measured."""

    metric: Annotated[
        str | None, Option("--metric", "-m", help=f"One of {', '.join(METRICS)}, or a scikit-learn scorer.")
    ] = None
    pos_label: Annotated[
        str | None, Option("--pos-label", metavar="LABEL", help="The positive class for f1, precision, recall, …")
    ] = None

    def __post_init__(self) -> None:
        if self.pos_label is not None and self.metric is None:
            raise Refused("--pos-label is for metrics of one class: add a --metric such as f1, precision or recall")
