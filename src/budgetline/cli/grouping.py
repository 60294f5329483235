"""``budgetline groups``: a groups file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from budgetline.cli import options
from budgetline.cli.data import Files, chunks_of
from budgetline.cli.errors import Refused
from budgetline.cli.screens import Screen
from budgetline.cli.writing import check_output, write_text
from budgetline.groups import FeatureGroups
from budgetline.messages import name_of, printable, shown, some

Float = NDArray[np.float64]
SAMPLE_ROWS = 10_000
"""Correlations are those of so many rows."""
MOST_COLUMNS = 2_000
"""More columns are not clustered: the matrix of their correlations would be too large."""


def groups(
    data: options.Data,
    target: options.Target = None,
    by: Annotated[options.By | None, typer.Option(help="How to group. Default: prefix; column for svmlight.")] = None,
    sep: Annotated[str, typer.Option(help="With --by prefix: names are cut at the first of these.")] = "_",
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="With --by correlation: columns of a group correlate this much.")
    ] = 0.9,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Default: stdout.")] = None,
    file_format: options.FileFormat = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a groups file to start from: which columns come together, each group at cost 1. Edit it."""
    screen = Screen(as_json, quiet)
    files = Files(data, file_format, zero_based)
    if output is not None:
        check_output(output, inputs=files.found[0])
    way = by or (options.By.prefix if files.named else options.By.column)
    if not sep:
        raise Refused("--sep must not be empty")
    columns, left_out = _columns(files, target, screen)
    if way is options.By.correlation:
        found, what = _correlated(files, columns, threshold)
    else:
        found, what = _by_name(files, columns, way, sep)
    made = FeatureGroups(found, remainder="drop")
    screen.note(f"{len(columns)} columns in {len(made)} groups, {what}")
    if way is options.By.prefix and len(made) == len(columns) > 1:
        screen.note(f"no two names share a prefix before {shown(sep)}: try another --sep, or --by correlation")
    if left_out:
        screen.warn(f"left out, as they do not hold numbers: {some(left_out, of=name_of)}")
    text = _commented(made, files, target, what, left_out)
    if output is not None:
        write_text(output, text)
        screen.note(f"wrote {output}: set the costs there, then: budgetline fit {data} --groups {output} …")
    elif not as_json:
        print(text, end="")
    entries = {name: list(members) for name, members in zip(made.names, made.columns, strict=True)}
    written = None if output is None else str(output)
    screen.document({"by": way, "groups": entries, "left_out": left_out, "target": target, "written": written})


def _columns(files: Files, target: str | None, screen: Screen) -> tuple[list[Any], list[str]]:
    """Return the columns to group, by name or position, and those that hold no numbers."""
    if not files.named:
        if target is not None:
            raise Refused("--target names a column, and the columns of svmlight files have no names")
        return list(range(files.source().n_features)), []
    files.check_column(target, "--target")
    names = [name for name in files.numeric if name != target]
    if target is None:
        screen.note("no --target: take the column that you want to predict out of the file")
    numeric = [name for name in names if files.numeric[name]]
    if not numeric:
        raise Refused(f"{files.place} has no column of numbers to group")
    return numeric, [name for name in names if not files.numeric[name]]


def _by_name(files: Files, columns: list[Any], way: options.By, sep: str) -> tuple[dict[str, list[Any]], str]:
    if way is options.By.column:
        return {str(column): [column] for column in columns}, "one for each column"
    if not files.named:
        raise Refused("the columns of svmlight files have no names: use --by column or --by correlation")
    made = FeatureGroups.from_prefix(columns, sep)
    found = {name: list(members) for name, members in zip(made.names, made.columns, strict=True)}
    return found, f"by the part of the name before {shown(sep)}"


def _correlated(files: Files, columns: list[Any], threshold: float) -> tuple[dict[str, list[Any]], str]:
    """Return average-linkage clusters of 1 − |correlation|, each named after its first column."""
    if len(columns) > MOST_COLUMNS:
        raise Refused(f"--by correlation is for at most {MOST_COLUMNS:,} columns, there are {len(columns):,}")
    sample = _sample(files, columns)
    labels = np.arange(len(columns))
    if len(columns) > 1:
        tree = linkage(squareform(_distances(sample), checks=False), method="average")
        labels = fcluster(tree, t=1 - threshold + 1e-12, criterion="distance")
    members: dict[int, list[Any]] = {}
    for column, label in zip(columns, labels.tolist(), strict=True):
        members.setdefault(label, []).append(column)
    rows = f"the first {len(sample):,} rows" if len(sample) == SAMPLE_ROWS else f"{len(sample):,} rows"
    what = f"average-linkage clusters of 1 - |correlation| up to {1 - threshold:g}, on {rows}"
    return {str(group[0]): group for group in members.values()}, what


def _distances(sample: Float) -> Float:
    """Return 1 − |correlation|, shape (D, D); missing values are the mean, constant columns correlate with none."""
    known = np.isfinite(sample)
    mean = np.where(known, sample, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, sample - mean, 0)
    length = np.sqrt((centred**2).sum(axis=0))
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-12 * np.abs(mean))
    distance = np.clip(1 - np.abs(unit.T @ unit), 0, 1)
    np.fill_diagonal(distance, 0)
    return np.asarray((distance + distance.T) / 2)


def _sample(files: Files, columns: list[Any]) -> Float:
    """Return the first rows, shape (at most SAMPLE_ROWS, D)."""
    source = files.source([], features=columns) if files.named else files.source()
    parts, rows = [], 0
    for chunk in chunks_of(source):
        part = chunk.X[: SAMPLE_ROWS - rows]
        parts.append(np.asarray(part if files.named else part.toarray(), dtype=np.float64))
        rows += parts[-1].shape[0]
        if rows >= SAMPLE_ROWS:
            break
    if not parts:
        raise Refused(f"{files.place} holds no rows")
    return np.concatenate(parts)


def _commented(made: FeatureGroups, files: Files, target: str | None, what: str, left_out: list[str]) -> str:
    """Return the text of the file, with comments on what to edit."""
    lines = [
        f"Groups of {files.place}, {what}.",
        "Edit: put together what is computed, asked or bought together, and give every group its cost,",
        "all in one unit (seconds, dollars, …). A group of cost 0 is free. Costs that groups share, paid once:",
        "'shared: {draw: {cost: 2.1, groups: [a, b]}}'; what must be bought before a group: 'requires: [a]' in it.",
        "Columns are in one group at most; those in none are left out ('remainder: drop').",
    ]
    if not files.named:
        lines.append("Columns are positions, counted from 0: the first feature of the files is 0.")
    if target is not None:
        lines.append(f"The target {shown(target)} must be in no group.")
    if left_out:
        lines.append(f"Left out, as they do not hold numbers: {', '.join(map(shown, left_out))}.")
    return "".join(f"# {printable(' '.join(line.split()))}\n" for line in lines) + made.to_yaml()
