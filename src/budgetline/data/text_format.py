"""How a delimited text file is written, found from its first lines: encoding, delimiter, header, missing values."""

from __future__ import annotations

import csv
import io
import os
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from budgetline.data.sources import Mark
from budgetline.data.tabular import arrow
from budgetline.encoding.written import NUMBER
from budgetline.messages import cut, shown

if TYPE_CHECKING:
    import pyarrow as pa

COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes of compressed files."""
UTF8 = "utf-8"
ENCODINGS = (UTF8, "cp1252", "latin-1")
"""Encodings, in the order in which they are tried. Every text can be read as Latin-1."""
DECODED = 1 << 26
"""Bytes of text from which the encoding is found."""
DELIMITERS = (",", ";", "\t", "|", " ")
"""Delimiters, in the order in which they are tried."""
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "#N/A")
"""Texts that mean a missing value, unless others are given."""
SAMPLE_BYTES = 1 << 17
"""Size of the text from which the format is found; more is read if this is not two lines."""
LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read."""
ROW_NAMES = "(row names)"
"""Name of the column of row names."""


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


@dataclass(frozen=True)
class Header:
    """How a file begins: all names, those left out (row names, empty columns without a name), and where rows start."""

    names: tuple[str, ...]
    left_out: tuple[str, ...]
    start: int

    @property
    def columns(self) -> list[str]:
        """The names of the columns that can be read."""
        left_out = set(self.left_out)
        return [name for name in self.names if name not in left_out]


def find_format(path: Path, delimiter: str | None, na: str | Iterable[str] | None) -> TextFormat:
    """Return the format of a file, without the decimal mark; missing settings are detected from its first lines."""
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ValueError(f"the delimiter must be one character, such as ';' or a tab, got {shown(delimiter)}")
    missing = MISSING if na is None else (na,) if isinstance(na, str) else tuple(na)
    if wrong := [text for text in missing if not isinstance(text, str)]:
        raise TypeError(f"na must be texts that mean missing values, got {shown(wrong[0])}")
    lines = _FirstLines.of(path)
    tabs = any(suffix.lower() in (".tsv", ".tab") for suffix in path.suffixes)
    mark = delimiter or (lines.delimiter("\t") if tabs else None) or lines.delimiter()
    if mark is None:  # a single column, whose text may hold marks
        mark = next((unused for unused in DELIMITERS if unused not in lines.text), ",")
    return TextFormat(mark, tuple(dict.fromkeys(("", *missing))), na is not None)


def find_header(path: Path, delimiter: str) -> Header:
    """Return how a file begins."""
    lines = _FirstLines.of(path)
    records = lines.records(delimiter)
    if not records:
        what = "the first value of its first line is too long" if lines.text.strip("\r\n") else "it is empty"
        raise ValueError(f"{path} cannot be read as CSV: {what}")
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
    before = "".join(islice(io.StringIO(lines.text, newline=""), last))
    return Header(tuple(names), tuple(left_out), lines.bom + len(before.encode()))


def is_number(text: str, decimal: str) -> bool:
    """Return whether a text is a number with this decimal mark."""
    return NUMBER.fullmatch(text.strip().lower().replace(decimal, ".")) is not None


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
    complete: bool

    @classmethod
    def of(cls, path: Path) -> _FirstLines:
        """Read two lines at least."""
        data, ends = b"", 0
        with readable(path), text_stream(path) as (_, stream):
            while ends < 2 and (block := stream.read(SAMPLE_BYTES)):
                data += block
                ends = data.count(b"\n") or data.count(b"\r")
                if ends < 2 and len(data) > LONGEST_LINE:
                    raise ValueError(too_long(f"{path}, line {1 + ends}"))
        complete = len(data) < SAMPLE_BYTES or not block
        data = data if complete or b"\n" not in data else data[: data.rindex(b"\n") + 1]
        bom = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        try:
            return cls(data[bom:].decode(), bom, complete)
        except UnicodeDecodeError as error:
            raise ValueError(not_text(path)) from error

    def records(self, delimiter: str) -> list[tuple[int, list[str]]]:
        """Return the fields of every row that has any, with the number of its last line."""
        reader, found = csv.reader(io.StringIO(self.text, newline=""), delimiter=delimiter), []
        with suppress(csv.Error):  # a field is too long for Python: the rows before are enough
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


# -- text ------------------------------------------------------------------------------------------------------


@contextmanager
def text_stream(path: Path) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
    """Open a file; yield the stream of its bytes, and the stream of its text, decompressed and in UTF-8."""
    encoding = encoding_of(path)
    with _unpacked(path) as (raw, stream):
        yield raw, stream if encoding == UTF8 else arrow().transcoding_input_stream(stream, encoding, UTF8)


@contextmanager
def _unpacked(path: Path) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
    pa = arrow()
    with pa.OSFile(os.fsencode(path)) as raw, pa.input_stream(raw, compression=compression_of(path)) as stream:
        yield raw, stream  # names of files need not be UTF-8


def compression_of(path: Path) -> str | None:
    """Return the compression of a file, from its first bytes."""
    with path.open("rb") as file:
        head = file.read(4)
    return next((name for start, name in COMPRESSIONS.items() if head.startswith(start)), None)


def encoding_of(path: Path) -> str:
    """Return the encoding of a text: UTF-8, else Windows-1252 or Latin-1. Binary files count as UTF-8."""
    return _encoding_of(Mark.of(path))


@lru_cache(maxsize=256)
def _encoding_of(mark: Mark) -> str:
    return next(encoding for encoding in ENCODINGS if _decodes(mark.path, encoding))


def _decodes(path: Path, encoding: str) -> bool:
    """Return whether the bytes of a file are text in an encoding, or no text at all."""
    decoder, read = getincrementaldecoder(encoding)(), 0
    with _unpacked(path) as (_, stream), suppress(UnicodeDecodeError):
        while read < DECODED and (block := stream.read(1 << 20)):
            if b"\0" in block:
                break
            decoder.decode(block)
            read += len(block)
        return True
    return False


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Name the file in errors of reading it."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (OSError, arrow().ArrowException) as error:
        raise ValueError(f"{path} cannot be read as CSV: {cut(str(error))}") from error


def not_text(path: Path) -> str:
    """Return the error for a file that is not text, with advice."""
    return f"{path}: not UTF-8 text: save the file as UTF-8"


def too_long(place: str) -> str:
    """Return the error for a line that is too long."""
    what = f"a line, or a value in quotes, is longer than {LONGEST_LINE / 2**20:.4g} MB"
    return f"{place}: {what}: is it a table, does every line end, is every quote closed?"
