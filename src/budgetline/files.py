"""The one file format: safetensors with a JSON manifest, without code; and how files of any kind are written."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO
from weakref import finalize

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from budgetline.arrays import Array
from budgetline.messages import shown

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PathName = str | os.PathLike[str]
"""A path as users give it."""
SCHEMA = 2
"""Version of the format. Files of other versions are refused: version 1 was never released."""
MANIFEST = "budgetline"
"""Key of the manifest in the metadata of a file."""
UNFINISHED = ".unfinished"
"""Suffix of files that are still being written, or that a killed process has left."""
MOST_OF_A_NAME = 50
"""Characters of a name that its unfinished file begins with: names must not become too long."""
MOST_LINKS = 40
"""Longest chain of symbolic links that is followed, as on Linux."""


def encode(kind: str, arrays: Mapping[str, Array], fields: Mapping[str, object]) -> bytes:
    """Return named arrays and plain JSON fields as the bytes of one file."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    manifest = {"schema": SCHEMA, "kind": kind, "digest": _digest(kind, fields, plain), "fields": dict(fields)}
    return save(plain, {MANIFEST: json.dumps(manifest, allow_nan=False)})


def decode(data: bytes, kind: str, where: str = "data") -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and fields of :func:`encode`; ``where`` names the file in errors."""
    manifest = _manifest(data[8 : 8 + _header_length(data, len(data), where)], where)
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
    return _manifest(data[8 : 8 + _header_length(data, len(data), where)], where).get("kind")


def read(path: PathName) -> bytes:
    """Return the bytes of a file; what cannot be ours is refused before more than its header is read."""
    where = str(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        _manifest(file.read(_header_length(file.read(8), size, where)), where)
        file.seek(0)
        return file.read()


def _header_length(data: bytes, size: int, where: str) -> int:
    """Return the length of the header, which the first eight bytes say, if a file of this size can hold it."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= length <= size - 8:
        raise _not_ours(where, f"{size} bytes without a header")
    return length


def _manifest(header: bytes, where: str) -> dict[str, Any]:
    """Return the manifest; its schema is checked before anything else."""
    try:
        manifest = json.loads(json.loads(header)["__metadata__"][MANIFEST])
        schema = manifest["schema"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _not_ours(where, error) from error
    if type(schema) is not int or schema < 1:
        raise ValueError(f"{where} is damaged: it has schema {shown(schema)}. Copy or save it again")
    if schema > SCHEMA:
        raise ValueError(
            f"{where} has schema {shown(schema)}, this version of budgetline reads schema {SCHEMA}: update budgetline"
        )
    if schema < SCHEMA:
        raise ValueError(
            f"{where} has schema {schema}, which budgetline wrote before its first release: fit and save again"
        )
    return dict(manifest)


def _not_ours(where: str, problem: object) -> ValueError:
    found = shown(problem, 300)
    return ValueError(f"{where} is not a file of budgetline, or it is damaged: {found}. If it is ours, copy it again")


def _digest(kind: str, fields: Mapping[str, object], arrays: Mapping[str, Array]) -> str:
    """Return a checksum of the fields, and of names, types, shapes and entries of the arrays."""
    total = sha256(json.dumps([SCHEMA, kind, fields], sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype} {array.shape} ".encode())
        total.update(array.data if array.size else b"")
    return total.hexdigest()


def write_atomically(path: PathName, data: bytes) -> None:
    """Write a file in full or not at all, as :func:`replacing` does."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: PathName) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of ``path``; it replaces ``path`` at the end, unless there was an error.

    A link is followed, and stays. An existing file keeps its mode and, where possible, its owner and group. The
    temporary file is not readable by more users than the old one. Pipes and character devices are written to directly.
    """
    target = target_of(path)
    if target is None:  # a pipe, a device, or a file that is already open: nothing is truncated or created
        number = _descriptor(Path(path))
        with os.fdopen(os.open(path, os.O_WRONLY) if number is None else os.dup(number), "wb") as file:
            yield file
        return
    unfinished = target.with_name(f".{target.name[:MOST_OF_A_NAME]}.{token_hex(8)}{UNFINISHED}")
    try:
        old = os.stat(target) if target.exists() else None
        with _created(unfinished, old) as file:
            yield file
            file.flush()
            if old is not None:
                _keep_access(file.fileno(), old)
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        if error.filename == str(unfinished):  # name the file that the caller knows
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        unfinished.unlink(missing_ok=True)  # it exists only if something went wrong
    _sync_folder(target.parent)


class KeptFile:
    """A file that one process keeps up to date: no other process can keep it too, or change it unnoticed.

    The file is locked while it is kept. The lock ends with the process, however that ends. Where files cannot be
    locked, the next write notices a change by others: the content is no longer what was read or written last.

    Parameters
    ----------
    path : path
        A missing file is created, empty. A BlockingIOError says that another process keeps the file.

    Attributes
    ----------
    content : bytes
        What was read or written last; empty if there was nothing.
    """

    def __init__(self, path: PathName) -> None:
        self.path = Path(path)
        self._unlock: Callable[[], object] | None = None
        self._hold(_locked(self.path))
        self.content = self._found()

    def write(self, data: bytes) -> None:
        """Replace the file; a FileExistsError says that another program has changed it."""
        if self._found() not in (b"", self.content):
            raise FileExistsError(errno.EEXIST, "another program has changed it", str(self.path))
        with ExitStack() as undo:
            with replacing(self.path) as file:
                file.write(data)
                if fcntl is not None:  # the new file is already locked; it stays locked while this descriptor is open
                    number = os.dup(file.fileno())
                    undo.callback(os.close, number)
            undo.pop_all()
        self.content = data
        if fcntl is not None:
            self._hold(number)

    def close(self) -> None:
        """Let other processes keep the file."""
        if not self.content and self._unlock is not None and not self._found():
            self.path.unlink(missing_ok=True)
        self._hold(None)

    def _found(self) -> bytes:
        return self.path.read_bytes() if self.path.is_file() else b""

    def _hold(self, number: int | None) -> None:
        """Keep the lock of an open file, and no other one; None: no lock."""
        if self._unlock is not None:
            self._unlock()
        self._unlock = None if number is None else finalize(self, os.close, number)


def _locked(path: Path) -> int | None:
    """Create the file if it does not exist, lock it and return its descriptor; None if files cannot be locked."""
    while fcntl is not None and (path.is_file() or not path.exists()):
        # NFS locks only files that are open for writing
        access = os.O_RDONLY if path.exists() and not os.access(path, os.W_OK) else os.O_RDWR
        try:
            number = os.open(path, access | os.O_CREAT, 0o666)
        except OSError:
            return None
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(number), os.stat(path)):  # else it was replaced in the meantime
                    return number
        except BlockingIOError:
            os.close(number)
            raise
        except OSError:  # a file system without locks
            os.close(number)
            return None
        os.close(number)
    return None


def target_of(path: PathName) -> Path | None:
    """Return the file that a save to ``path`` creates or replaces; None if it is written to directly.

    An OSError says that nothing can be saved there: a folder, a socket or a block device.
    """
    place = Path(path)
    if _descriptor(place) is not None:
        return None
    try:
        mode = os.stat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = stat.S_IFREG
    if stat.S_ISREG(mode):
        return Path(os.path.realpath(place)) if place.is_symlink() else place
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return None
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder", str(path))
    what = "socket" if stat.S_ISSOCK(mode) else "block device"
    raise OSError(errno.EINVAL, f"it is a {what}", str(path))


def _descriptor(path: Path) -> int | None:
    """Return the file descriptor of this process that a path such as /dev/stdout means, if it means one."""
    own = ("/dev/fd", f"/proc/{os.getpid()}/fd")
    for _ in range(MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in own and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            break
        path = Path(folder, os.readlink(path))
    return None


def _created(path: Path, old: os.stat_result | None) -> BinaryIO:
    """Create a file and lock it. It is private until it replaces an old one."""
    mode = 0o666 if old is None else old.st_mode & 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags, mode), "wb")
    _lock(file.fileno())
    return file


def _keep_access(number: int, old: os.stat_result) -> None:
    """Give a file the owner, group and mode of an old one; another group gets the rights of others."""
    if not hasattr(os, "fchown"):  # Windows
        return
    mode = old.st_mode & 0o777
    try:
        os.fchown(number, old.st_uid, old.st_gid)
    except OSError:
        try:
            os.fchown(number, -1, old.st_gid)
        except OSError:
            mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(number, mode)


def _lock(number: int) -> None:
    """Lock an open file until it is closed, where files can be locked."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    """Make a new name survive a power cut, where folders can be synced."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def model_path_for(data: str) -> Path:
    """Return the model file, in this folder, of data that a user has named: heart.budgetline for data/heart.csv.gz."""
    name = Path(data).name
    return Path(f"{name.split('.')[0] if name.strip('.*?') and '*' not in name else 'model'}.budgetline")
