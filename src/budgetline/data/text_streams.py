"""The text of a file, decompressed and converted to UTF-8."""

from __future__ import annotations

import io
import os
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from budgetline.data.tabular import arrow

if TYPE_CHECKING:
    import pyarrow as pa

COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes of compressed files."""
UTF8, WESTERN = "utf-8", "cp1252"
CONTROLS = bytes({*range(32), 127} - {*b"\t\n\f\r\x1a"})
"""Bytes that no text contains."""
NOT_WESTERN = b"\x81\x8d\x8f\x90\x9d"
"""Bytes that have a meaning in Latin-1, but not in Windows-1252."""
DECODED, BLOCK = 1 << 26, 1 << 20
"""Bytes of text from which the encoding is found, and how many are read at a time."""


@contextmanager
def text_stream(path: Path) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
    """Open a file; yield the stream of its bytes, and the stream of its text in UTF-8."""
    encoding = encoding_of(path)
    with _unpacked(path) as (raw, stream):
        yield raw, stream if encoding == UTF8 else arrow().transcoding_input_stream(stream, encoding, UTF8)


@contextmanager
def _unpacked(path: Path) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
    pa, compression = arrow(), compression_of(path)
    with pa.OSFile(os.fsencode(path)) as raw:  # names of files need not be UTF-8
        if compression is None:
            yield raw, raw
        else:
            with pa.CompressedInputStream(raw, compression) as stream:
                yield raw, stream


def compression_of(path: Path) -> str | None:
    """Return the compression of a file, from its first bytes."""
    with path.open("rb") as file:
        head = file.read(4)
    return next((name for start, name in COMPRESSIONS.items() if head.startswith(start)), None)


def encoding_of(path: Path) -> str:
    """Return the encoding of a text: UTF-8, else Windows-1252 or Latin-1. Binary files count as UTF-8."""
    status = path.stat()
    return _encoding_of(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _encoding_of(path: Path, size: int, time: int) -> str:
    """Return the encoding of a file; size and time are part of the key of the cache."""
    decoder, unicode, found, read = getincrementaldecoder(UTF8)(), True, WESTERN, 0
    with _unpacked(path) as (_, stream):
        while read < DECODED and (block := stream.read(BLOCK)):
            if (read == 0 and block.startswith((b"\xff\xfe", b"\xfe\xff"))) or _has(block, CONTROLS):
                return UTF8
            try:
                unicode = unicode and decoder.decode(block) is not None
            except UnicodeDecodeError:
                unicode = False
            found = "latin-1" if _has(block, NOT_WESTERN) else found
            read += len(block)
    return UTF8 if unicode else found


def _has(block: bytes, wanted: bytes) -> bool:
    return len(block.translate(None, wanted)) < len(block)


def not_unicode(path: Path) -> str:
    """Return the error for a file that is not UTF-8, with advice."""
    with text_stream(path) as (_, stream):
        wide = stream.read(2) in (b"\xff\xfe", b"\xfe\xff")
    with text_stream(path) as (_, stream):
        lines = enumerate(io.TextIOWrapper(stream, encoding="latin1", newline=""), start=1)
        line = next((number for number, text in lines if not _is_unicode(text.encode("latin1"))), None)
    given = "utf-16" if wide else "latin1"
    place = str(path) if line is None else f"{path}, line {line}"
    return f"{place}: not UTF-8 text: save the file as UTF-8, or try iconv -f {given} -t utf-8"


def _is_unicode(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
