"""Certificates in files: everything is checked when it is read, and nothing is believed before it is verified."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.files import decode, encode, read, write_atomically
from budgetline.groups import FeatureGroups
from budgetline.groups.plain import groups_of, plain_groups
from budgetline.messages import cut
from budgetline.optimality.proof import Proof

KIND = "certificate"
NUMBERS = ("alpha", "everything", "null_value", "gamma")
ARRAYS: dict[str, tuple[str, int]] = {
    "order": ("<i8", 1),
    "values": ("<f8", 1),
    "budgets": ("<f8", 1),
    "achieved": ("<f8", 1),
    "bounds": ("<f8", 1),
    "included": ("|b1", 1),
    "excluded": ("|b1", 1),
    "blocks": ("<f8", 1),
    "duals": ("<f8", 3),
    "leaf_budget": ("<i8", 1),
    "leaf_dual": ("<i8", 1),
    "leaf_included": ("|b1", 2),
    "leaf_excluded": ("|b1", 2),
}
"""Type and dimensions of every array in a file."""


def write_certificate(certificate: Any, path: str | os.PathLike[str]) -> None:
    """Write a certificate to a file, in full or not at all."""
    proof = certificate.proof
    blocks = [block.ravel() for block in proof.blocks]
    arrays = {
        name: getattr(proof if hasattr(proof, name) else certificate, name) for name in ARRAYS if name != "blocks"
    }
    arrays["blocks"] = np.concatenate(blocks) if blocks else np.empty(0)
    plain = {name: np.asarray(array).astype(ARRAYS[name][0]) for name, array in arrays.items()}
    fields: dict[str, Any] = {name: float(getattr(certificate, name)) for name in NUMBERS}
    fields |= {"loss": certificate.loss, "feature_groups": plain_groups(certificate.feature_groups)}
    write_atomically(path, encode(KIND, plain, fields))


def read_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the fields of a certificate from a file, all of them checked; nothing is run."""
    where = str(path)
    arrays, fields = decode(read(path), KIND, where)
    try:
        return _checked(arrays, fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where} does not hold a certificate: {cut(str(error))}") from error


def _checked(arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> dict[str, Any]:
    known, found = {*NUMBERS, "loss", "feature_groups", *ARRAYS}, {*fields, *arrays}
    if missing := sorted(known - found):
        raise ValueError(f"{missing[0]} is missing")
    if unknown := sorted(found - known):
        raise ValueError(f"{unknown[0]} is no part of a certificate")
    for name in NUMBERS:
        if type(fields[name]) is not float or not 0 <= fields[name] < np.inf:
            raise ValueError(f"{name} must be a finite number ≥ 0")
    for name, (kind, dimensions) in ARRAYS.items():
        array = arrays[name]
        if array.dtype != np.dtype(kind) or array.ndim != dimensions or not np.isfinite(array).all():
            raise ValueError(f"{name} is not an array of {dimensions} dimensions of finite {kind}")
    if not isinstance(fields["loss"], str):
        raise ValueError("loss must be a text")
    groups = groups_of(fields["feature_groups"])
    _check_shapes(arrays, groups)
    own = {name: arrays[name] for name in ("values", "budgets", "achieved", "bounds", "included", "excluded")}
    return {
        "feature_groups": groups,
        "order": arrays["order"].astype(np.intp),
        "loss": fields["loss"],
        **{name: fields[name] for name in NUMBERS},
        **own,
        "proof": _proof(arrays, [len(columns) for columns in groups.columns]),
    }


def _check_shapes(arrays: dict[str, NDArray[Any]], groups: FeatureGroups) -> None:
    """Raise an error unless the arrays fit together and the order is one of the groups."""
    J, B, L = len(groups), arrays["budgets"].size, arrays["leaf_budget"].size
    shapes: dict[str, tuple[int, ...]] = {
        "achieved": (B,),
        "bounds": (B,),
        "included": (J,),
        "excluded": (J,),
        "leaf_dual": (L,),
    }
    shapes |= {"values": arrays["order"].shape, "leaf_included": (L, J), "leaf_excluded": (L, J)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} must have the shape {shape}, got {arrays[name].shape}")
    order = arrays["order"]
    if np.unique(order).size < order.size or np.any((order < 0) | (order >= J)):
        raise ValueError("order is not an order of the groups")
    if groups.prices.out_of_order(order.tolist()) is not None:
        raise ValueError("order has a group before one that it requires")
    for name in ("values", "achieved", "bounds"):
        if np.any(arrays[name] < 0):
            raise ValueError(f"{name} must not be negative")
    for name, count in (("leaf_budget", B), ("leaf_dual", len(arrays["duals"]))):
        if np.any((arrays[name] < 0) | (arrays[name] >= count)):
            raise ValueError(f"{name} has an entry out of range")
    if L and not arrays["blocks"].size:
        raise ValueError("blocks are missing, but there are leaves")
    if L and arrays["duals"].shape[1] != sum(map(len, groups.columns)):
        raise ValueError("duals must have one row per column of the groups")
    if not B or np.any(np.diff(arrays["budgets"]) <= 0) or arrays["budgets"][0] < 0:
        raise ValueError("budgets must increase from 0 on")


def _proof(arrays: dict[str, NDArray[Any]], sizes: list[int]) -> Proof:
    flat, blocks, at = arrays["blocks"], [], 0
    for size in sizes if flat.size else []:
        blocks.append(flat[at : at + size * size])
        at += size * size
    if at != flat.size:
        raise ValueError("blocks do not belong to the groups")
    square = tuple(block.reshape(size, size) for block, size in zip(blocks, sizes, strict=False))
    budget, dual = (arrays[name].astype(np.intp) for name in ("leaf_budget", "leaf_dual"))
    return Proof(square, arrays["duals"], budget, dual, arrays["leaf_included"], arrays["leaf_excluded"])
