"""The format of a delimited text file, found from its first lines; and the line of a value, for errors."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from pathlib import Path

from budgetline.data.tabular import arrow
from budgetline.data.text_streams import compression_of, not_unicode, text_stream
from budgetline.encoding.written import NUMBER
from budgetline.messages import cut, shown, some

DELIMITERS = (",", ";", "\t", "|", " ")
"""Delimiters, in the order in which they are tried."""
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "#N/A")
"""Texts that mean a missing value, unless others are given."""
SAMPLE_BYTES = 1 << 17
"""Size of the text from which the format is found; more is read if this is not two lines."""
LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read."""
MOST_COLUMNS = 200_000
"""Most columns of a file: more than the widest tables have."""
ROW_NAMES = "(row names)"
"""Name of the column of row names."""
LINE_ENDS = (b"\n", b"\r")
ROWS_BELOW = 5
"""Rows that are needed to tell whether the first line is a header."""
QUOTED = re.compile(r'"[^"]*"')
"""A value in quotes; doubled quotes inside make it several."""
COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")
"""A number with a decimal comma."""
WIDTH, VALUE = re.compile(r"Expected (\d+) columns, got (\d+)"), re.compile(r"In CSV column #(\d+): .* '(.*)'$", re.S)
"""Errors of pyarrow for rows of another length, and for values that are not of the type of their column."""


@dataclass(frozen=True)
class TextFormat:
    """How values are written: the delimiter, the texts of missing values, and the decimal mark.

    The empty text always means a missing value. In a target the other texts count only if the user has ``given`` them:
    a class may be called "None".
    """

    delimiter: str
    missing: tuple[str, ...]
    given: bool
    decimal: str = "."

    @property
    def no_labels(self) -> tuple[str, ...]:
        """Texts that mean a missing label of a target."""
        return self.missing if self.given else ("",)

    def is_number(self, text: str) -> bool:
        """Return whether a text is a number, or means a missing value."""
        try:
            float(text.replace(self.decimal, "."))
        except ValueError:
            return text.strip() in self.missing
        return True


@dataclass(frozen=True)
class Header:
    """How a file begins: its compression, the names of all columns, the columns left out, and where rows start.

    Row names are left out, and columns that have neither a name nor values. ``start`` counts bytes of text.
    """

    compression: str | None
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    start: int
    alone: bool
    """Whether the file has no rows."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns that can be read."""
        left_out = set(self.left_out)
        return [name for name in self.names if name not in left_out]

    def repeated(self, fields: list[str]) -> bool:
        """Return whether a row is the header again."""
        return [field.strip() for field in fields] in (self.columns, list(self.names))


def missing_texts(na: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the texts that mean missing values, always with the empty text; None: the usual ones."""
    given = MISSING if na is None else (na,) if isinstance(na, str) else tuple(na)
    if wrong := [text for text in given if not isinstance(text, str)]:
        raise TypeError(f"na must be texts that mean missing values, got {shown(wrong[0])}")
    return tuple(dict.fromkeys(("", *given)))


def find_format(path: Path, delimiter: str | None, na: str | Iterable[str] | None) -> TextFormat:
    """Return the format of a file, without the decimal mark; what is not given is found from its first lines."""
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ValueError(f"the delimiter must be one character, such as ';' or a tab, got {shown(delimiter)}")
    sample = _FirstLines.of(path)
    tabs = any(suffix.lower() in (".tsv", ".tab") for suffix in path.suffixes)
    mark = delimiter or (sample.delimiter("\t") if tabs else None) or sample.delimiter()
    if mark is None:
        for tried in DELIMITERS:
            sample.check_width(path, tried)
        mark = sample.unused()
    return TextFormat(mark, missing_texts(na), na is not None)


def find_header(path: Path, delimiter: str) -> Header:
    """Return how a file begins."""
    sample = _FirstLines.of(path)
    sample.check_width(path, delimiter)
    records = sample.records(delimiter)
    if not records:
        if sample.text.strip("\r\n"):
            most = f"its first line holds a value of more than {csv.field_size_limit():,} characters"
            raise ValueError(f"{path} cannot be read as CSV: {most}: is it a table?")
        raise ValueError(f"{path} cannot be read as CSV: it is empty")
    (last, header), rows = records[0], [fields for _, fields in records[1:]]
    bare = [name.strip() for name in header]
    if 2 * sum(len(fields) == len(bare) + 1 for fields in rows) > len(rows):
        # R gives row names no name; other programs end every row with a delimiter, but not the header
        bare = ["", *bare] if any(fields[-1].strip() for fields in rows) else [*bare, ""]
    names = [name or (ROW_NAMES if k == 0 else f"column {k + 1}") for k, name in enumerate(bare)]
    filled = {k for fields in rows for k, field in enumerate(fields) if field.strip()}
    left_out = [names[k] for k, name in enumerate(bare) if not name and (k == 0 or k not in filled)]
    if len(left_out) == len(names):
        raise ValueError(f"{path} cannot be read as CSV: it holds no columns")
    before = "".join(islice(io.StringIO(sample.text, newline=""), last))
    alone = sample.complete and not sample.text[len(before) :].strip("\r\n")
    return Header(sample.compression, tuple(names), tuple(left_out), sample.bom + len(before.encode()), alone)


def check_header(path: Path, written: TextFormat) -> None:
    """Raise an error if the first line seems to be data rather than names.

    A first line with numbers is data if the columns below them, and no others, hold numbers. Numbers that ascend or
    descend may be names, such as years or wavelengths. A first line without numbers is data if most of its texts come
    again below.
    """
    [(_, first), *rest] = _FirstLines.of(path).records(written.delimiter) or [(0, [])]
    rows = [fields for _, fields in rest if len(fields) == len(first)]
    if len(rows) < ROWS_BELOW:
        return
    fields, numbers, again = [field.strip() for field in first], list[float](), 0
    for k, field in enumerate(fields):
        below = [value for row in rows if (value := row[k].strip()) not in written.missing]
        numeric = bool(below) and all(map(_is_number, below))
        if field in written.missing or not below:
            continue
        if _is_number(field) != numeric or not (numeric or field in below or len(below) <= 20 * len(set(below))):
            return  # a name above numbers or above a few words, or a number above words
        numbers += [float(field.replace(",", "."))] if numeric else []
        again += field in below
    words = len(fields) - len(numbers)
    repeated = any([value.strip() for value in row] == fields for row in rows)
    if not _are_names(numbers, again) if numbers else not repeated and again > 1 and words <= 2 * again:
        names = written.delimiter.join(f"x{k + 1}" for k in range(min(3, len(fields)))) + written.delimiter + "…"
        what = f"{path} has no header: its first line holds {some(fields, 5)}"
        raise ValueError(f"{what}, like the lines below. Put a line of names before it: {names}")


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text.lower().replace(",", ".")) is not None


def _are_names(numbers: list[float], again: int) -> bool:
    """Return whether numbers may be names: years; 0, 1, 2, …; or at least five that ascend or descend.

    At least five different whole numbers may be names, too, if none of them comes ``again`` below.
    """
    steps, whole = {b - a for a, b in pairwise(numbers)}, all(number.is_integer() for number in numbers)
    monotone = all(step > 0 for step in steps) or all(step < 0 for step in steps)
    few = monotone and (all(1900 <= number <= 2100 for number in numbers) or (steps == {1.0} and numbers[0] in (0, 1)))
    many = len(numbers) >= 5 and (monotone or (not again and len(set(numbers)) == len(numbers)))
    return (whole and few) or (many and (whole or monotone))


def text_rows_about(path: Path) -> int | None:
    """Estimate how many lines a file has, compressed or not, from its first bytes; None if it cannot be estimated."""
    if not path.exists():
        return None  # reading it raises the error
    lines = first = read = 0
    with readable(path), text_stream(path) as (raw, stream):
        while read < LONGEST_LINE and (block := stream.read(SAMPLE_BYTES)):
            if 0 < first < raw.tell():
                break  # until now all text came from the first bytes
            first, read, lines = raw.tell(), read + len(block), lines + (block.count(b"\n") or block.count(b"\r"))
    return max(1, round(path.stat().st_size * lines / first)) if lines else None


@dataclass(frozen=True)
class _FirstLines:
    """The first lines of a file, the size of a byte order mark before them, and whether they are all."""

    text: str
    bom: int
    compression: str | None
    complete: bool

    @classmethod
    def of(cls, path: Path) -> _FirstLines:
        """Read the first lines of a file."""
        data, more, ends = bytearray(), True, Counter[bytes]()
        with readable(path), text_stream(path) as (_, stream):
            while more and (len(data) < SAMPLE_BYTES or max(ends.values()) < 2):
                block = stream.read(SAMPLE_BYTES)
                data, more = data + block, bool(block)
                ends.update({end: block.count(end) for end in LINE_ENDS})
                if len(data) - max(map(data.rfind, LINE_ENDS)) > LONGEST_LINE:
                    raise ValueError(too_long(path, 1 + max(ends.values())))
        if more and b"\n" in data:
            data = data[: data.rindex(b"\n") + 1]
        bom = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        try:
            return cls(data[bom:].decode(), bom, compression_of(path), not more)
        except UnicodeDecodeError as error:
            raise ValueError(not_unicode(path)) from error

    def records(self, delimiter: str) -> list[tuple[int, list[str]]]:
        """Return the fields of every row that has any, with the number of its last line."""
        lines = takewhile(lambda line: _width(line, delimiter) <= MOST_COLUMNS, io.StringIO(self.text, newline=""))
        reader, found = csv.reader(lines, delimiter=delimiter), []
        with suppress(csv.Error):  # a field is too long for Python: the rows before are enough, as with a wide line
            for fields in reader:
                found += [(reader.line_num, fields)] if fields else []
        return found if self.complete or len(found) < 3 else found[:-1]  # the last one may be cut

    def delimiter(self, tried: Iterable[str] = DELIMITERS) -> str | None:
        """Return the delimiter that splits header and most rows into equally many fields; None: no delimiter does."""
        best, found = (False, 0.0, 0), None
        for mark in tried:
            widths = [len(fields) for _, fields in self.records(mark)] or [0]
            header, rows = widths[0], Counter(widths[1:] or widths)
            usual, count = rows.most_common(1)[0]
            alike = count / rows.total()
            if min(header, usual) < 2 or (mark == " " and (found or alike < 1 or usual - header not in (0, 1))):
                continue
            score = (header == usual, alike, usual)
            if score > best:
                best, found = score, mark
        return found

    def check_width(self, path: Path, delimiter: str) -> None:
        """Raise an error if the header has too many columns, without splitting it."""
        lines = io.StringIO(self.text, newline="")
        width = next((_width(line, delimiter) for line in lines if line.strip("\r\n")), 0)
        if width > MOST_COLUMNS:
            what = f"the header has {width:,} columns with {shown(delimiter)} between them, at most {MOST_COLUMNS:,}"
            raise ValueError(f"{path}: {what} can be read: pass another delimiter, or fewer columns")

    def unused(self) -> str:
        """Return a delimiter that does not occur, for a file of a single column."""
        return next((mark for mark in DELIMITERS if mark not in self.text), ",")


def _width(line: str, delimiter: str) -> int:
    """Return the number of values of a long line; for a short line an upper bound, which is enough."""
    return len(line) if len(line) <= MOST_COLUMNS else 1 + QUOTED.sub("", line).count(delimiter)


def too_long(path: Path, line: int | None) -> str:
    """Return the error for a line that is too long."""
    what = f"a line, or a value in quotes, is longer than {LONGEST_LINE / 2**20:.4g} MB"
    return f"{_place(path, line)}: {what}: is it a table, does every line end, is every quote closed?"


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Name the file in errors of reading it."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (OSError, KeyError, csv.Error, arrow().ArrowException) as error:
        raise ValueError(f"{path} cannot be read as CSV: {cut(str(error))}") from error


# -- lines -----------------------------------------------------------------------------------------------------


def line_of(path: Path, delimiter: str, wanted: Callable[[int, list[str]], bool]) -> tuple[int, list[str]] | None:
    """Return the line, from 1, and the fields of the first row whose number and fields are ``wanted``.

    The header is row −1. Rows may span several lines; empty lines are no rows. None: there is no such row, or it comes
    after a field that is too long for Python.
    """
    with readable(path), suppress(csv.Error), text_stream(path) as (_, stream):
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        reader, row, line = csv.reader(text, delimiter=delimiter), -1, 1
        for fields in reader:
            if fields:
                if wanted(row, fields):
                    return line, fields
                row += 1
            line = reader.line_num + 1
    return None


def line_of_row(path: Path, delimiter: str, row: int) -> str:
    """Return "line 85" for row 83, or "row 83" if its line cannot be found."""
    found = line_of(path, delimiter, lambda number, _: number == row)
    return f"row {row}" if found is None else f"line {found[0]}"


def check_closed(path: Path, delimiter: str) -> None:
    """Raise an error that names the line of a quote that is never closed."""
    with text_stream(path) as (_, stream):
        text, line = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline=""), 1
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for _fields in reader:
                line = reader.line_num + 1
        except csv.Error as error:
            if "end of data" in str(error):
                raise ValueError(f"{_place(path, line)}: a quote is never closed") from error


def explained(error: Exception, path: Path, header: Header, delimiter: str) -> str:
    """Return an error of pyarrow in plain words, with the line."""
    text = str(error)
    if "UTF8" in text:
        return not_unicode(path)
    if "straddl" in text:
        return too_long(path, None)
    if width := WIDTH.search(text):
        expected = int(width[1])
        found = line_of(path, delimiter, lambda row, fields: row >= 0 and len(fields) != expected)
        line, number = (None, int(width[2])) if found is None else (found[0], len(found[1]))
        return f"{_place(path, line)}: {number} field{'' if number == 1 else 's'} instead of {expected}"
    if value := VALUE.search(text):
        k, given = int(value[1]), value[2]
        found = line_of(path, delimiter, lambda row, fields: row >= 0 and fields[k : k + 1] == [given])
        line, fields = (None, []) if found is None else found
        again = ": the header is repeated" if header.repeated(fields) else ""
        again = again or (": no row before has a decimal comma" if COMMA.fullmatch(given) else "")
        kind = text[: value.start(2)].rpartition(" to ")[2].partition(":")[0]
        return f"{_place(path, line)}: column {shown(header.names[k])} holds {shown(given)}, not {_kind(kind)}{again}"
    return f"{path} cannot be read as CSV: {cut(text)}"


def _kind(arrow_type: str) -> str:
    known = {"double": "a number", "int64": "a whole number", "bool": "true or false"}
    return known.get(arrow_type, f"{arrow_type} as in the rows before")


def _place(path: Path, line: int | None) -> str:
    return str(path) if line is None else f"{path}, line {line}"
