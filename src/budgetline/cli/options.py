"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """What files hold."""

    parquet = "parquet"
    csv = "csv"
    svmlight = "svmlight"


class Rule(StrEnum):
    """How a group's merit is measured."""

    fr = "fr"
    omp = "omp"
    score = "score"
    static = "static"
    no_whiten = "no-whiten"
    single = "single"


class Schedule(StrEnum):
    """Which groups may come next."""

    greedy = "greedy"
    doubling = "doubling"
    cheapest = "cheapest"
    random = "random"


class Task(StrEnum):
    """What is predicted."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Loss(StrEnum):
    """What a regression minimises."""

    squared = "squared"
    poisson = "poisson"


class By(StrEnum):
    """How columns are grouped."""

    prefix = "prefix"
    correlation = "correlation"
    column = "column"


Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help="Parquet, CSV or svmlight: a file, a folder, or a glob in quotes."),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, written by 'budgetline fit'.")]
Target = Annotated[
    str | None,
    typer.Option("--target", "-t", metavar="NAME", help="The column to predict. svmlight files need none."),
]
Groups = Annotated[
    Path | None,
    typer.Option(
        "--groups", "-g", metavar="FILE", help="YAML file of groups and costs. Default: each column is a group."
    ),
]
Weight = Annotated[str | None, typer.Option("--weight", metavar="NAME", help="The column of sample weights.")]
Query = Annotated[
    str | None,
    typer.Option("--qid", metavar="NAME", help="The column of queries, for ndcg; any name for svmlight."),
]
FileFormat = Annotated[Format | None, typer.Option("--format", help="What DATA holds, where suffixes do not tell.")]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="Indices of svmlight files start at 0.")]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric", "-m", help="explained, mse, r2, accuracy, log_loss, roc_auc, ndcg@5, or a scorer of scikit-learn."
    ),
]
Folds = Annotated[int | None, typer.Option("--cv", metavar="K", min=2, help="Number of folds of cross-validation.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress on stderr, only warnings.")]
