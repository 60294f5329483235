"""The proof of the bounds of a certificate, and the record in which a file holds both.

Everything in a file is checked when it is read; only ``verify`` checks the bounds themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.codec import AtLeast, Shape, from_bytes, to_bytes
from budgetline.files import PathName, read, write_atomically
from budgetline.groups.record import StoredGroups, check_order

KIND = "certificate"
Number = Annotated[float, AtLeast(0)]
Position = Annotated[int, AtLeast(0)]


@dataclass(frozen=True, eq=False)
class Claims:
    """What a certificate states; :class:`Certificate` says what the fields are."""

    feature_groups: StoredGroups
    order: Annotated[Positions, Shape("stages")]
    values: Annotated[Float, Shape("stages")]
    alpha: Number
    loss: str
    budgets: Annotated[Float, Shape("budgets"), AtLeast(0)]
    achieved: Annotated[Float, Shape("budgets")]
    bounds: Annotated[Float, Shape("budgets")]
    everything: float
    null_value: Number
    gamma: Number
    included: Annotated[Mask, Shape("groups")]
    excluded: Annotated[Mask, Shape("groups")]
    weights: Annotated[Float | None, Shape("columns")] = field(default=None, kw_only=True)
    penalties: Annotated[Float | None, Shape("groups"), AtLeast(0)] = field(default=None, kw_only=True)
    rivals: tuple[tuple[Position, ...], ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, eq=False)
class Proof:
    """The blocks, duals and leaves that prove the bounds; see ``docs/developers/mathematics.md``."""

    blocks: tuple[Float, ...]
    """J arrays (s, s): Δ_g, with C − blockdiag(Δ_g) ⪰ 0. Empty: the only bound is F of all groups."""
    duals: Annotated[Float, Shape("duals columns targets")]
    """u, in standardised columns, group after group."""
    leaf_budget: Annotated[Positions, Shape("leaves"), AtLeast(0)]
    leaf_dual: Annotated[Positions, Shape("leaves"), AtLeast(0)]
    leaf_included: Annotated[Mask, Shape("leaves groups")]
    """A leaf is about the sets that contain all of these groups and none of the excluded ones."""
    leaf_excluded: Annotated[Mask, Shape("leaves groups")]

    @classmethod
    def trivial(cls, J: int) -> Proof:
        """Return a proof that says nothing about J groups."""
        none, nothing = np.empty(0, dtype=np.intp), np.empty((0, J), dtype=bool)
        return cls((), np.empty((0, 0, 0)), none, none, nothing, nothing)


@dataclass(frozen=True, eq=False)
class CertificateRecord(Proof, Claims):
    """Claims and their proof, as a file holds them."""

    blocks: Annotated[Float, Shape("*")]  # type: ignore[assignment]
    """The entries of all blocks, one after another."""

    def __post_init__(self) -> None:
        groups, leaves = self.feature_groups, self.leaf_budget.size
        check_order(self.order, groups)
        if self.included.size != len(groups):
            raise ValueError(f"included and excluded have {self.included.size} entries for {len(groups)} groups")
        if self.penalties is None and min(self.everything, *(part.min(initial=0.0) for part in self._of_sets)) < 0:
            raise ValueError("values, achieved, bounds and everything must not be negative without penalties")
        if any(len(set(each)) < len(each) or max(each, default=0) >= len(groups) for each in self.rivals):
            raise ValueError("rivals must be different positions of groups")
        if not self.budgets.size or np.any(np.diff(self.budgets) <= 0):
            raise ValueError("budgets must increase from 0 on")
        for name, count in (("leaf_budget", self.budgets.size), ("leaf_dual", len(self.duals))):
            if np.any(getattr(self, name) >= count):
                raise ValueError(f"{name} has an entry out of range")
        if self.weights is not None and (self.weights.size != sum(map(len, groups.columns)) or min(self.weights) <= 0):
            raise ValueError("weights must be positive, one per column of the groups")
        if leaves and self.duals.shape[1] != sum(map(len, groups.columns)):
            raise ValueError("duals must have one row per column of the groups")
        if self.blocks.size != sum(len(columns) ** 2 for columns in groups.columns) and (leaves or self.blocks.size):
            raise ValueError("blocks do not belong to the groups, or are missing though there are leaves")

    @property
    def _of_sets(self) -> tuple[Float, Float, Float]:
        return self.values, self.achieved, self.bounds


OF_PROOF, OF_CERTIFICATE = ([part.name for part in fields(record)] for record in (Proof, Claims))


def write_certificate(certificate: Any, path: PathName) -> None:
    """Write a certificate to a file, in full or not at all."""
    parts = {name: getattr(certificate, name) for name in OF_CERTIFICATE}
    parts |= {name: getattr(certificate.proof, name) for name in OF_PROOF}
    blocks = np.concatenate([np.empty(0), *map(np.ravel, certificate.proof.blocks)])
    write_atomically(path, to_bytes(KIND, CertificateRecord(**parts | {"blocks": blocks})))


def read_certificate(path: PathName) -> dict[str, Any]:
    """Return the fields of a certificate from a file, all of them checked; nothing is run."""
    return from_bytes(KIND, CertificateRecord, read(path), str(path), _parts)


def _parts(record: CertificateRecord) -> dict[str, Any]:
    sizes = [len(columns) for columns in record.feature_groups.columns] if record.blocks.size else []
    flat = np.split(record.blocks, np.cumsum([size**2 for size in sizes], dtype=int))
    blocks = tuple(block.reshape(size, size) for block, size in zip(flat, sizes, strict=False))
    proof = Proof(**{name: getattr(record, name) for name in OF_PROOF} | {"blocks": blocks})
    return {name: getattr(record, name) for name in OF_CERTIFICATE} | {"proof": proof}
