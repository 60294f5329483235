"""The one file format: safetensors with a JSON manifest, without code; and how files of any kind are written."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from budgetline.arrays import Array
from budgetline.messages import shown

PathName = str | os.PathLike[str]
"""A path as users give it."""
SCHEMA = 4
"""Version of the format. Files of other versions are refused: earlier ones were never released."""
MANIFEST = "budgetline"
"""Key of the manifest in the metadata of a file."""
UNFINISHED = ".unfinished"
"""Suffix of files that are still being written, or that a killed process has left."""
MOST_OF_A_NAME = 50
"""Characters of a name that its unfinished file begins with: names must not become too long."""
MODEL_SUFFIX = ".budgetline"
"""Usual suffix of model files."""
OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")
"""Paths that begin like this mean files that are already open, such as /dev/stdout."""


class ForeignFile(ValueError):
    """A file that this library has not written, or a damaged one; ``where`` names it."""

    def __init__(self, text: str, where: str = "") -> None:
        super().__init__(text)
        self.where = where


def encode(kind: str, arrays: Mapping[str, Array], fields: Mapping[str, object]) -> bytes:
    """Return named arrays and plain JSON fields as the bytes of one file."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    manifest = {"schema": SCHEMA, "kind": kind, "digest": _digest(kind, fields, plain), "fields": dict(fields)}
    return save(plain, {MANIFEST: json.dumps(manifest, allow_nan=False)})


def decode(data: bytes, kind: str, where: str = "data") -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and fields of `encode`; ``where`` names the file in errors."""
    manifest = _manifest(data, where)
    found, fields = manifest.get("kind"), manifest.get("fields")
    if found != kind or not isinstance(fields, dict):
        raise ValueError(f"{where} holds {shown(found)}, not {shown(kind)}")
    try:
        arrays = load(data)
        intact = manifest["digest"] == _digest(kind, fields, arrays)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _not_ours(where, error) from error
    if not intact:
        raise ValueError(
            f"{where} is damaged: its fields and arrays are not those that were written. Copy or save it again"
        )
    return arrays, fields


def kind_of(data: bytes, where: str = "data") -> object:
    """Return what the bytes of a file say that they hold."""
    return _manifest(data, where).get("kind")


def read(path: PathName) -> bytes:
    """Return the bytes of a file; a file of another kind is refused once its header is read."""
    with open(path, "rb") as file:
        start = file.read(8)
        length = _header_length(start, os.fstat(file.fileno()).st_size, str(path))
        _manifest(start + file.read(length), str(path))
        file.seek(0)
        return file.read()


def _header_length(start: bytes, size: int, where: str) -> int:
    """Return the length of the header, which the first eight bytes say, if a file of this size can hold it."""
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= size - 8:
        raise _not_ours(where, f"{size} bytes without a header")
    return length


def _manifest(data: bytes, where: str) -> dict[str, Any]:
    """Return the manifest; its schema is checked before anything else."""
    end = 8 + _header_length(data[:8], len(data), where)
    try:
        manifest = dict(json.loads(json.loads(data[8:end])["__metadata__"][MANIFEST]))
        schema = manifest["schema"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _not_ours(where, error) from error
    if type(schema) is not int or schema != SCHEMA:
        raise ValueError(
            f"{where} has schema {shown(schema)}, but this version of budgetline reads schema {SCHEMA}: update "
            "budgetline, or fit and save again"
        )
    return manifest


def _not_ours(where: str, problem: object) -> ForeignFile:
    text = f"{where} is not a file of budgetline, or it is damaged: {shown(problem, 300)}. If it was one, copy it again"
    return ForeignFile(text, where)


def _digest(kind: str, fields: Mapping[str, object], arrays: Mapping[str, Array]) -> str:
    """Return a checksum of the fields, and of names, types, shapes and entries of the arrays."""
    total = sha256(json.dumps([SCHEMA, kind, fields], sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype} {array.shape} ".encode())
        total.update(array.data if array.size else b"")
    return total.hexdigest()


def write_atomically(path: PathName, data: bytes) -> None:
    """Write a file in full or not at all, as `replacing` does."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: PathName) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of ``path``; it replaces ``path`` at the end, unless there was an error.

    A link is followed, and stays. An existing file keeps its mode and, where possible, its owner and group. The
    temporary file is not readable by more users than the old one. Pipes and character devices are written to directly.
    """
    target = target_of(path)
    if target is None:  # nothing of it is cut off
        with open(path, "ab") as raw:
            yield raw
        return
    unfinished = target.with_name(f".{target.name[:MOST_OF_A_NAME]}.{token_hex(8)}{UNFINISHED}")
    try:
        old = os.stat(target) if target.exists() else None
        mode = 0o666 if old is None else old.st_mode & 0o600
        with open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            if old is not None and hasattr(os, "fchown"):
                _keep_access(file.fileno(), old)
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        if error.filename == str(unfinished):  # name the file that the caller knows
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        with suppress(OSError):  # it exists only if something went wrong, and that error is the one to tell
            unfinished.unlink()
    with suppress(OSError):  # make the new name survive a power cut, where folders can be synced
        number = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def target_of(path: PathName) -> Path | None:
    """Return the file that a save to ``path`` replaces; None for pipes and devices. An OSError says what it is else."""
    if str(path).startswith(OPEN_FILES):
        return None
    mode = stat.S_IFREG
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return None
    kind = "a folder" if stat.S_ISDIR(mode) else "a socket" if stat.S_ISSOCK(mode) else "a block device"
    raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, f"it is {kind}", str(path))


def _keep_access(number: int, old: os.stat_result) -> None:
    """Give a file the owner, group and mode of an old one; another group gets the rights of others."""
    mode = old.st_mode & 0o777
    try:
        os.fchown(number, old.st_uid if os.geteuid() == 0 else -1, old.st_gid)
    except OSError:
        mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(number, mode)


class KeptFile:
    """A file that is kept up to date, and never written over what another program has written there.

    ``content`` is what was read or written last; it is empty if there was nothing.
    """

    def __init__(self, path: PathName) -> None:
        self.path = Path(path)
        self.content = self._found()

    def write(self, data: bytes) -> None:
        """Replace the file; a FileExistsError says that another program has changed it."""
        if self._found() not in (b"", self.content):
            raise FileExistsError(errno.EEXIST, "another program has changed it", str(self.path))
        write_atomically(self.path, data)
        self.content = data

    def _found(self) -> bytes:
        return self.path.read_bytes() if self.path.is_file() else b""


def model_path_for(data: str) -> Path:
    """Return the model file, in this folder, of data that a user has named: heart.budgetline for data/heart.csv.gz."""
    name = Path(data).name
    return Path(f"{name.split('.')[0] if name.strip('.*?') and '*' not in name else 'model'}{MODEL_SUFFIX}")
