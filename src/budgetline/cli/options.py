"""Arguments and options of commands. Names of rules, losses and formats come from the library."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from budgetline.data.opening import SUFFIXES
from budgetline.evaluation.metrics import METRICS
from budgetline.glm.families import LOSSES
from budgetline.inputs import check_number
from budgetline.leastsquares.rules import RULES
from budgetline.messages import shown
from budgetline.sequencing.schedules import SCHEDULES

LOSS_NAMES = {name.removesuffix("_error"): name for name in LOSSES}
"""Names of the losses on the command line, and in the library."""
TaskName = Literal["auto", "regression", "classification"]
By = Literal["prefix", "column"]
EncodingKind = Literal["auto", "none", "linear", "spline"]
if TYPE_CHECKING:
    Rule = str
    Schedule = str
    Loss = str
    Format = str
else:
    Rule, Schedule, Loss = Literal[tuple(RULES)], Literal[tuple(SCHEDULES)], Literal[tuple(LOSS_NAMES)]
    Format = Literal[tuple(dict.fromkeys(SUFFIXES.values()))]

PANELS = {
    "Data": ("target", "groups", "exclude", "keep_ids", "drop_missing_target", "weight", "qid", "stream"),
    "File format": ("file_format", "delimiter", "na", "zero_based"),
    "Model": ("task", "loss", "encoding", "interactions", "alpha", "correction", "rule", "schedule"),
    "Order": ("start", "max_cost", "max_groups", "all_groups"),
    "Cross-validation": ("cv", "no_cv", "fold_by", "shuffle"),
    "Output": ("output", "as_json", "quiet", "help"),
}
"""Groups of options in the help, by parameter; all other options come first."""

DataFiles = Annotated[
    str,
    Argument(
        metavar="DATA", help="CSV (also .tsv, .txt, .gz), Parquet or svmlight: a file, a folder, or a glob in quotes."
    ),
]
ModelFile = Annotated[Path, Argument(metavar="MODEL", help="A model file, written by 'budgetline fit'.")]
TargetName = Annotated[
    str | None, Option("--target", "-t", metavar="NAME", help="Column to predict; not for svmlight.")
]
Groups = Annotated[
    Path | None, Option("--groups", "-g", metavar="FILE", help="Groups and costs, YAML. Default: each column a group.")
]
LearnedTask = Annotated[TaskName, Option("--task", help="What to learn; auto decides by the target.")]
Weight = Annotated[str | None, Option("--weight", metavar="NAME", help="Column of sample weights.")]
Query = Annotated[
    str | None, Option("--qid", metavar="NAME", help="Column of query ids, for ndcg; any name for svmlight.")
]
FileFormat = Annotated[Format | None, Option("--format", help="Format of DATA, if the suffix does not tell.")]
Delimiter = Annotated[
    str | None,
    Option(
        "--delimiter",
        metavar="CHAR",
        help="Delimiter of CSV files, or 'tab'. Default: found from the first lines.",
    ),
]
Missing = Annotated[
    list[str] | None,
    Option(
        "--na",
        metavar="TEXT",
        help="Text that means a missing value in CSV files; repeatable. Default: NA, ?, … and empty.",
    ),
]
ZeroBased = Annotated[bool, Option("--zero-based", help="Indices of svmlight files start at 0.")]
MetricName = Annotated[
    str | None, Option("--metric", "-m", help=f"{', '.join(METRICS)}, ndcg@5, or a scikit-learn scorer.")
]
Folds = Annotated[int, Option("--cv", metavar="K", min=2, help="Number of folds.")]
Shuffle = Annotated[
    bool, Option("--shuffle/--no-shuffle", help="Whether to draw folds at random, or cut the rows in their order.")
]
Positive = Annotated[
    str | None, Option("--positive", metavar="LABEL", help="The class that f1, precision, recall, … are about.")
]


def alpha_of(given: str) -> float | str:
    """Return a ridge constant, or "auto"."""
    try:
        return given if given == "auto" else check_number("alpha", float(given), ge=0, finite=True)
    except ValueError:
        raise BadParameter(f"{shown(given)} is neither a number ≥ 0 nor auto") from None


def names_of(texts: Iterable[str] | None, known: Collection[str]) -> list[str]:
    """Return the names of groups in lists such as "a,b"; a name that is known may itself hold commas."""
    found = list[str]()
    for text in texts or ():
        parts = text.split(",")
        while parts:
            longest = (k for k in range(len(parts), 1, -1) if ",".join(parts[:k]).strip() in known)
            taken = next(longest, 1)
            found.append(",".join(parts[:taken]).strip())
            parts = parts[taken:]
    return [name for name in found if name]


Alpha = Annotated[
    Any,
    Option(
        parser=alpha_of,
        metavar="A|auto",
        help="Ridge constant; auto: from the data. Default: by cross-validation; without it, auto.",
    ),
]
Correction = Annotated[
    float | None,
    Option(metavar="X", min=0, help="Subtract X times what noise alone would explain from every gain. Default: 0."),
]
Start = Annotated[
    list[str] | None, Option(metavar="A,B,…", help="Groups that are always measured: they come first. Repeatable.")
]
Stream = Annotated[
    bool | None, Option("--stream/--in-memory", help="Read in chunks or all at once. Default: all, if they fit.")
]
Encoded = Annotated[
    EncodingKind,
    Option("--encoding", help="How columns are encoded; none: plain numbers; auto: spline, if columns have names."),
]
Interactions = Annotated[
    int, Option("--interactions", metavar="K", min=0, help="Add up to K pairs of columns; they need an encoding.")
]
Exclude = Annotated[list[str] | None, Option("--exclude", metavar="A,B,…", help="Columns to leave out. Repeatable.")]
Output = Annotated[
    Path | None,
    Option("-o", "--output", metavar="MODEL", help="Where to write the model. Default: DATA.budgetline, here."),
]
GivenRule = Annotated[
    Rule | None, Option("--rule", help="How groups are scored. Default: fr, or score where it is slow.")
]
GivenSchedule = Annotated[Schedule, Option("--schedule", help="Which groups may come next.")]
GivenLoss = Annotated[Loss | None, Option("--loss", help="Loss of a regression. Default: squared.")]
Pairs = Annotated[
    int | None,
    Option("--interactions", metavar="K", min=0, help="Add up to K pairs of columns. Default: 20 if they help."),
]
ChoosingFolds = Annotated[
    int | None,
    Option("--cv", metavar="K", min=2, help="Folds to choose alpha, correction and pairs. Default: 5, in memory."),
]
NoFolds = Annotated[bool, Option("--no-cv", help="Choose nothing by cross-validation: alpha from the data.")]
FoldBy = Annotated[
    str | None,
    Option("--fold-by", metavar="NAME", help="Column, such as a patient, whose rows are kept together in folds."),
]
DropMissingTarget = Annotated[bool, Option("--drop-missing-target", help="Leave out the rows without a target.")]
MaxCost = Annotated[float | None, Option("--max-cost", min=0, help="Spend at most this.")]
MaxGroups = Annotated[int | None, Option("--max-groups", metavar="N", min=1, help="Stop after N groups.")]
AllGroups = Annotated[bool, Option("--all-groups", help="Also buy groups that gain nothing on new rows.")]
KeepIds = Annotated[bool, Option("--keep-ids", help="Also learn from identifiers and free text.")]
Json = Annotated[bool, Option("--json", help="Print only one JSON document on stdout.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print no notes and no progress on stderr, only warnings.")]
