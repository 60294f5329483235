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
    manifest = {"schema": SCHEMA, "kind": kind, "digest": _digest(plain), "fields": dict(fields)}
    return save(plain, {MANIFEST: json.dumps(manifest, allow_nan=False)})


def decode(data: bytes, kind: str, where: str = "data") -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and fields of :func:`encode`; ``where`` names the file in errors."""
    try:
        arrays = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        manifest = json.loads(header["__metadata__"][MANIFEST])
        schema, found, fields = manifest["schema"], manifest["kind"], manifest["fields"]
        intact = schema != SCHEMA or manifest["digest"] == _digest(arrays)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{where} is not a file of budgetline, or it is damaged: {error!r}") from error
    if not isinstance(schema, int) or schema > SCHEMA:
        raise ValueError(f"{where} has schema {schema!r}, this version of budgetline reads up to {SCHEMA}: update it")
    if found != kind or not isinstance(fields, dict):
        raise ValueError(f"{where} holds {found!r}, not {kind!r}")
    if not intact:
        raise ValueError(f"{where} is damaged: its arrays are not those that were written")
    return arrays, fields


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a checksum of names, types, shapes and entries."""
    total = sha256()
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
