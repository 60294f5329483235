"""Mutated and forged files: refused by a ValueError that names the file, or what they hold is sound.

Bytes that changed must be noticed: the file is refused, or what is loaded is what was saved. A forger knows the
checksum: what a forged file holds may be anything that fits together, but using it must not fail in strange ways, and a
forged certificate that is verified must be true.
"""

from __future__ import annotations

import base64
import copy
import io
import json
import tracemalloc
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from truth import Problem

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    Certificate,
    FeatureGroups,
    GroupLassoPath,
    Moments,
    StagedEstimators,
    certify,
)
from budgetline.files import decode, encode
from fuzz.trials import Case

MOST_MEMORY = 3 * 10**8
MOST_BYTES = 40_000
"""Files up to this size are kept with a case."""
COSTS = np.array([1.0, 2.0, 0.5])
GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4]}


def draw(seed: int) -> Case:
    """Return which file to change, and how."""
    rng = Random(seed)
    subject = rng.choice(list(SUBJECTS))
    forged = rng.random() < 0.6
    return {"seed": seed, "subject": subject, "forged": forged, "changes": rng.choice([1, 1, 1, 2, 4])}


def kept(case: Case) -> Case:
    """Return a case with the bytes of the changed file, if they are few."""
    data = changed_bytes(case)
    return case if len(data) > MOST_BYTES else {**case, "bytes": base64.b64encode(data).decode()}


def check(case: Case) -> None:
    """Load a changed file, and use the loaded object."""
    with TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / "changed"
        path.write_bytes(changed_bytes(case))
        subject = SUBJECTS[case["subject"]]
        found = _loaded(subject.load, path)
    if found is None:
        return
    if not case["forged"]:
        again = subject.encoded(found)
        assert again == subject.data(), "bytes changed, and what was loaded is not what was saved"
    with np.errstate(all="ignore"):
        subject.use(found)


def _loaded(load: Callable[[Path], Any], path: Path) -> Any:
    """Return the loaded object, None if an error names the file; fail if loading uses much memory."""
    tracemalloc.start()
    try:
        found, refusal = load(path), None
    except ValueError as error:
        found, refusal = None, str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MOST_MEMORY, f"loading took {peak / 1e6:.0f} MB"
    if refusal is not None:
        assert str(path) in refusal, f"the error does not name the file: {refusal[:500]}"
        assert len(refusal) < 5_000, f"the error has {len(refusal)} characters"
    return found


# -- subjects --------------------------------------------------------------------------------------------------


class Subject(NamedTuple):
    """A kind of file: how it is loaded, encoded again and used, and the sound one."""

    kind: str
    load: Callable[[Path], Any]
    encoded: Callable[[Any], bytes]
    use: Callable[[Any], None]
    data: Callable[[], bytes]


@cache
def data() -> tuple[np.ndarray, np.ndarray]:
    """Return X (40, 5) and y."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 5)) @ (np.eye(5) + 0.3 * rng.standard_normal((5, 5)))
    return X, X @ np.array([1.0, -0.5, 0.3, 0.0, 2.0]) + rng.standard_normal(40)


def _models() -> dict[str, Callable[[], Any]]:
    X, y = data()
    shared = FeatureGroups(GROUPS, COSTS, shared={"s": (2.0, ["a", "b"])}, requires={"c": ["a"]})
    labels = np.array(["u", "v", "w"])[np.digitize(y, [-1, 1])]
    return {
        "regressor": lambda: AnytimeRegressor(GROUPS, COSTS).fit(X, y),
        "shared": lambda: AnytimeRegressor(shared, rule="omp").fit(X, y),
        "singular": lambda: AnytimeRegressor(GROUPS, COSTS, alpha=0.0).fit(X[:, [0, 0, 1, 2, 3]], y),
        "poisson": lambda: AnytimeRegressor(GROUPS, loss="poisson", alpha=1e-2).fit(X, np.floor(np.exp(y / 4))),
        "lasso": lambda: GroupLassoPath(GROUPS, n_lambdas=10).fit(X, np.column_stack([y, X[:, 0]])),
        "classifier": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, labels),
        "search": lambda: AnytimeClassifierCV(GROUPS, alphas=[1e-2, 1.0], cv=2).fit(X, y > 0),
        "folds": lambda: AnytimeRegressorCV(GROUPS, COSTS, alphas=[1e-2, 1.0], cv=2).fit(X, y),
    }


def _of(save: Callable[[Any, Path], None], thing: Any) -> bytes:
    with TemporaryDirectory(prefix="fuzz-") as folder:
        save(thing, Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def _use_model(model: Any) -> None:
    """Predict in every way; numbers may be any, but nothing may fail but by a ValueError."""
    X, _ = data()
    repr(model.sequence_)
    clone(model)
    for keywords in ({}, {"stage": 0}, {"budget": 1.0}, {"available": model.sequence_.groups[1:]}):
        try:
            found = model.predict(X, **keywords)
        except ValueError:
            continue  # the columns are other ones, or a quadratic model is not convex
        assert len(found) == len(X)


@cache
def _staged() -> StagedEstimators:
    estimator = make_pipeline(StandardScaler(), Ridge())
    return StagedEstimators(estimator, ["a", "b", "c"], feature_groups=GROUPS, costs=COSTS).fit(*data())


@cache
def _trees() -> StagedEstimators:
    X, y = data()
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    return StagedEstimators(tree, ["b", "a", "c"], feature_groups=GROUPS, costs=COSTS).fit(X, y)


def _load_staged(path: Path) -> StagedEstimators:
    try:
        return budgetline.load(path)
    except TypeError as error:  # types that may run code are named
        if "may run code" not in str(error):
            raise
        raise ValueError(str(error)) from error


def _use_staged(model: StagedEstimators) -> None:
    """Inspect the object without predicting: forged estimators of scikit-learn may do anything then."""
    repr(model.sequence_)


def _use_moments(moments: Moments) -> None:
    repr(moments)
    try:
        AnytimeRegressor().fit_moments(moments + moments)
    except ValueError:
        return


def _truth() -> Problem:
    X, y = data()
    return Problem(X, y[:, None], np.ones(40), tuple(map(tuple, GROUPS.values())), COSTS, 1e-3)


@cache
def _certificate() -> Certificate:
    moments = Moments.from_data(*data())
    return certify(AnytimeRegressor(GROUPS, COSTS, alpha=1e-3).fit_moments(moments), time_limit=0.0)


@cache
def _chosen() -> Certificate:
    model = AnytimeRegressor(GROUPS, COSTS, alpha=1e-3).fit_moments(Moments.from_data(*data()))
    found = model.plan(2.5, time_limit=0.5).certificate
    assert found is not None
    return found


def _use_certificate(certificate: Certificate) -> None:
    """Verify the certificate; if it is accepted for these groups, its claims must be true."""
    str(certificate)
    try:
        certificate.verify(Moments.from_data(*data()))
    except ValueError:
        return
    groups, problem = certificate.feature_groups, _truth()
    same = [list(c) for c in groups.columns] == list(GROUPS.values()) and np.array_equal(groups.costs, COSTS)
    if not same or certificate.alpha != problem.alpha or groups.shared or groups.requires:
        return  # true of another problem
    inside = problem.between(tuple(np.flatnonzero(certificate.included)), tuple(np.flatnonzero(certificate.excluded)))
    for budget, bound in zip(certificate.budgets, certificate.bounds, strict=True):
        within = inside & (problem.set_costs <= budget * (1 + 1e-12))
        best = problem.values[within].max(initial=0.0)
        assert bound >= best - 1e-11 * problem.null_value, f"verified, but at {budget} a set explains {best} > {bound}"


def _same_or_nothing(make: Callable[[], StagedEstimators], found: StagedEstimators) -> bytes:
    """Return the sound file if predictions are the same: skops writes the time into its parts."""
    X, _ = data()
    same = all(np.array_equal(found.predict(X, stage=k), make().predict(X, stage=k)) for k in range(4))
    subject = next(each for name, each in SUBJECTS.items() if name == ("staged" if make is _staged else "trees"))
    return subject.data() if same else b""


def _subjects() -> dict[str, Subject]:
    models = {
        name: Subject(
            "model", budgetline.load, lambda model: _of(budgetline.save, model), _use_model,
            cache(lambda make=make: _of(budgetline.save, make())),
        )
        for name, make in _models().items()
    }  # fmt: skip
    moments = Subject(
        "moments", Moments.load, Moments.to_bytes, _use_moments, cache(lambda: Moments.from_data(*data()).to_bytes())
    )
    proofs = {
        name: Subject(
            "certificate", Certificate.load, lambda c: _of(Certificate.save, c), _use_certificate,
            cache(lambda make=make: _of(Certificate.save, make())),
        )
        for name, make in {"certificate": _certificate, "best set": _chosen}.items()
    }  # fmt: skip
    staged = {
        name: Subject(
            "staged estimators", _load_staged, partial(_same_or_nothing, make), _use_staged,
            cache(lambda make=make: _of(budgetline.save, make())),
        )
        for name, make in {"staged": _staged, "trees": _trees}.items()
    }  # fmt: skip
    return models | {"moments": moments} | proofs | staged


SUBJECTS = _subjects()


# -- changes ---------------------------------------------------------------------------------------------------


def changed_bytes(case: Case) -> bytes:
    """Return the bytes of the changed file: kept with the case, or made again."""
    if "bytes" in case:
        return base64.b64decode(case["bytes"])
    subject = SUBJECTS[case["subject"]]
    return _forged(subject, case) if case["forged"] else _flipped(subject.data(), case)


def _flipped(sound: bytes, case: Case) -> bytes:
    """Return bytes with some changed, put in, taken out, repeated or cut off; half of the time in the header."""
    rng, found = Random(case["seed"]), bytearray(sound)
    header = 8 + int.from_bytes(sound[:8], "little")
    for _ in range(case["changes"]):
        at = rng.randrange(max(1, min(header if rng.random() < 0.5 else len(found), len(found))))
        size = rng.choice([1, 1, 4, 8, 100])
        what = rng.randrange(7)
        if what == 0:
            found[at : at + 1] = bytes([found[at] ^ 1 << rng.randrange(8)]) if at < len(found) else b"x"
        elif what == 1:
            found[at : at + size] = rng.randbytes(size)
        elif what == 2:
            found[at:at] = rng.randbytes(size)
        elif what == 3:
            del found[at : at + size]
        elif what == 4:
            found[at : at + 1] = bytes([rng.choice(b'0123456789"[]{},:.-eE \\ntf')])
        elif what == 5:
            found[at:at] = found[at : at + size]
        else:
            del found[at:]
    return bytes(found)


JUNK = [
    None, True, False, 0, 1, 2, -1, 7, 10**30, 10**400, 0.5, -1.5, 1e300, 5e-324, "", "x", "\x1b[2J", "x" * 10**5,
    "AnytimeRegressor", [], {}, [[]], [None], ["a", 1], {"a": 1}, {"tuple": [1]}, {"float": "nan"}, {"array": {}},
    {"schedule": ["Doubling", {"c_min": -1}]}, {"dict": [[[], 1]]},
    {"scalar": {"dtype": "int8", "width": 0, "shape": [], "values": [300]}},
]  # fmt: skip
ENTRIES = (np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -1.0, 3.0, 1e-320, 2.0**40)


def _forged(subject: Subject, case: Case) -> bytes:
    """Return a file with a valid checksum and invalid contents."""
    rng = Random(case["seed"])
    arrays, fields = decode(subject.data(), subject.kind)
    for _ in range(case["changes"]):
        if subject.kind == "staged estimators" and rng.random() < 0.8:
            part = _changed_part(arrays.get("estimators", np.zeros(0, np.uint8)).tobytes(), rng)
            arrays["estimators"] = np.frombuffer(part, np.uint8)
        else:
            _change(arrays, fields, rng)
    return encode(subject.kind, arrays, fields)


def _changed_part(part: bytes, rng: Random) -> bytes:
    """Return a part that skops wrote, with other bytes, or with another schema or other bytes in one of its files."""
    if rng.random() < 0.2:
        return _flipped(part, {"seed": rng.randrange(1 << 30), "changes": 1})
    try:
        with ZipFile(io.BytesIO(part)) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # changed before
        return part
    name = "schema.json" if rng.random() < 0.7 else rng.choice(sorted(entries))
    if name == "schema.json":
        tree = json.loads(entries[name])
        _change_field(tree, rng)
        entries[name] = json.dumps(tree).encode()
    else:
        entries[name] = _flipped(entries[name], {"seed": rng.randrange(1 << 30), "changes": 1})
    with ZipFile(changed := io.BytesIO(), "w", ZIP_DEFLATED) as archive:
        for each, content in entries.items():
            archive.writestr(each, content)
    return changed.getvalue()


def _change(arrays: dict[str, np.ndarray], fields: dict[str, Any], rng: Random) -> None:
    with np.errstate(all="ignore"):
        _change_array(arrays, rng) if arrays and rng.random() < 0.5 else _change_field(fields, rng)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every node of a JSON tree."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, entry in entries for place in _places(entry, (*path, key)))]


def _change_field(fields: dict[str, Any], rng: Random) -> None:
    places = [place for place in _places(fields) if place]
    if not places:
        return
    *above, key = rng.choice(places)
    owner: Any = fields
    for step in above:
        owner = owner[step]
    junk, what = copy.deepcopy(rng.choice(JUNK)), rng.randrange(5)
    if what == 0:
        del owner[key]
    elif what == 1 and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(rng.choice([owner[key], junk])))
    elif what == 1:
        owner[rng.choice(["extra", "names", "stages", "0"])] = junk
    elif what == 2 and isinstance(owner[key], list):
        rng.shuffle(owner[key])
    elif what == 3 and type(owner[key]) in (int, float):
        value = owner[key]
        owner[key] = rng.choice([value + 1, -value, str(value), 2**40, value // 2])
    else:
        owner[key] = junk


def _change_array(arrays: dict[str, np.ndarray], rng: Random) -> None:
    name = rng.choice(sorted(arrays))
    array, what = arrays[name], rng.randrange(10)
    if what == 0:
        del arrays[name]
    elif what == 1:
        others = ["extra", "H9", "moments", "least_squares.U", "path.lambdas", "search.cv_scores"]
        arrays[rng.choice(others)] = array
    elif what == 2:
        arrays[name] = array.astype(rng.choice(["<f4", "<i8", "<i4", "<u8", "|u1", "|b1", "<f8", "<f2"]))
    elif what == 3:
        arrays[name] = array.reshape(rng.choice([(-1,), (1, *array.shape), (*array.shape, 1)]))
    elif what == 4:
        arrays[name] = np.concatenate([array, array[:1]]) if array.ndim and rng.random() < 0.5 else array[..., :-1]
    elif what == 5:
        arrays[name] = array.T if array.ndim > 1 else array[::-1]
    elif what == 6:
        arrays[name] = rng.choice([np.zeros((0, *array.shape[1:]), array.dtype), array.ravel()[:1]])
    elif what == 7:
        arrays[name] = arrays[rng.choice(sorted(arrays))]
    elif array.size:
        arrays[name] = array.copy()
        at = rng.randrange(array.size)
        near = array.flat[at] * rng.choice([0.5, 0.99, 1.01, 2.0]) if array.dtype.kind == "f" else 1
        arrays[name].flat[at] = np.array(rng.choice([*ENTRIES, near, near, near])).astype(array.dtype)
