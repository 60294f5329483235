"""Errors: one line each, in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

WORDS = (
    ("give file_format='parquet', 'csv' or 'svmlight'", "give --format parquet, csv or svmlight"),
    ("target='…'", "--target NAME"),
    ("target= names", "--target names"),
    ("weight= names", "--weight names"),
    ("zero_based=True is", "--zero-based is"),
    ("pass remainder='drop' to leave them out", "write 'remainder: drop' into the groups file to leave them out"),
    ("; pass a data frame or give positions", ": give positions in the groups file"),
    ("use rule='score' or 'omp'", "use --rule score or omp"),
    ("rule='fr' refits", "rule fr refits"),
    ("but X has no column names", "but the data have no column names"),
    (" is not in X", " is not in the data"),
    (" of X is in no group", " of the data is in no group"),
    (" of X are in no group", " of the data are in no group"),
    ("Input X contains", "the data contain"),
    ("time_limit must be", "--time-limit must be"),
)
"""Words of the library, and those of the command line."""


class Refused(Exception):
    """The user asked for something that cannot be done; the text says why, in one line."""


EXPECTED = (Refused, OSError, ValueError, ImportError, MemoryError)
"""Errors that files, settings and data can cause. Anything else is a bug."""


def line_of(error: BaseException) -> str:
    """Return one line that says what is wrong.

    Examples
    --------
    >>> from budgetline.cli.errors import line_of
    >>> line_of(FileNotFoundError(2, "No such file or directory", "data.csv"))
    'data.csv: no such file or directory'
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    text = " ".join(str(error).split())
    for own, here in WORDS:
        text = text.replace(own, here)
    return text or type(error).__name__


@contextmanager
def refusing(where: str = "") -> Iterator[None]:
    """Turn errors, wrong types too, into refusals that say where."""
    try:
        yield
    except (*EXPECTED, TypeError) as error:
        text = line_of(error)
        raise Refused(text if not where or where in text else f"{where}: {text}") from error
