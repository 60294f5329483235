"""The one file format: safetensors with a JSON manifest. No pickle, nothing that runs code, written atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from budgetline.messages import shown

SCHEMA = 1
"""Version of the format; files of a newer one are refused."""
MANIFEST = "budgetline"
"""Key of the manifest in the metadata of a file."""


def encode(kind: str, arrays: Mapping[str, NDArray[Any]], fields: Mapping[str, Any]) -> bytes:
    """Return named arrays and plain JSON fields as the bytes of one file.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.files import decode, encode
    >>> arrays, fields = decode(encode("example", {"a": np.eye(2)}, {"n": 3}), "example")
    >>> arrays["a"].shape, fields
    ((2, 2), {'n': 3})
    """
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    manifest = {"schema": SCHEMA, "kind": kind, "digest": _digest(kind, fields, plain), "fields": dict(fields)}
    return save(plain, {MANIFEST: json.dumps(manifest, allow_nan=False)})


def decode(data: bytes, kind: str, where: str = "data") -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and fields of :func:`encode`; ``where`` names the file in errors."""
    manifest = _manifest(data[8 : 8 + _header_length(data, len(data), where)], where)
    found, fields = manifest.get("kind"), manifest.get("fields")
    if found != kind or not isinstance(fields, dict):
        raise ValueError(f"{where} holds {shown(found)}, not {shown(kind)}")
    try:
        arrays = load(data)
        intact = manifest["digest"] == _digest(kind, fields, arrays)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{where} is not a file of budgetline, or it is damaged: {shown(error, 300)}") from error
    if not intact:
        raise ValueError(f"{where} is damaged: its fields and arrays are not those that were written")
    return arrays, fields


def read(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file, once; what cannot be ours is refused before more than its header is read."""
    where = str(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(8)
        header = file.read(_header_length(first, size, where))
        _manifest(header, where)
        return b"".join([first, header, file.read(max(0, size - len(first) - len(header)))])


def _header_length(data: bytes, size: int, where: str) -> int:
    """Return the length of the header, which the first eight bytes say, if a file of this size can hold it."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= length <= size - 8:
        raise ValueError(f"{where} is not a file of budgetline, or it is damaged: its {size} bytes hold no header")
    return length


def _manifest(header: bytes, where: str) -> dict[str, Any]:
    """Return the manifest, of a schema that we read; nothing else is looked at before that is known."""
    try:
        manifest = json.loads(json.loads(header)["__metadata__"][MANIFEST])
        schema = manifest["schema"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{where} is not a file of budgetline, or it is damaged: {shown(error, 300)}") from error
    if type(schema) is not int or schema < 1:
        raise ValueError(f"{where} is damaged: it has schema {shown(schema)}")
    if schema > SCHEMA:
        raise ValueError(
            f"{where} has schema {shown(schema)}, this version of budgetline reads up to {SCHEMA}: update it"
        )
    return dict(manifest)


def _digest(kind: str, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a checksum of the fields, and of names, types, shapes and entries of the arrays."""
    total = sha256(json.dumps([SCHEMA, kind, fields], sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype} {array.shape} ".encode())
        total.update(array.data if array.size else b"")
    return total.hexdigest()


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in full or not at all: beside its place first, then moved there."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)  # only there if something went wrong
