"""Certificates in files: what is read is what was written, and what was changed in between is refused."""

import os
from dataclasses import fields as fields_of
from dataclasses import replace

import numpy as np
import pytest
from best_sets import best_set
from certifying import certify
from shops import bundled
from truth import make

import budgetline
from budgetline import AnytimeRegressor, Moments
from budgetline.bounds.certificate import Certificate
from budgetline.files import decode, encode, read

KIND = "certificate"
PLAIN = make(21, "correlated", J=4, alpha=1e-2)
SHARED = bundled(5, "required and shared", J=5, alpha=1e-2)
PLAIN_MOMENTS = Moments.from_data(PLAIN.X, PLAIN.Y)
SHARED_MOMENTS = Moments.from_data(SHARED.X, SHARED.Y, SHARED.w)


def additive():
    return PLAIN_MOMENTS, certify(PLAIN_MOMENTS, PLAIN.feature_groups, PLAIN.priced, alpha=1e-2, time_limit=60.0)


def shared():
    return SHARED_MOMENTS, certify(SHARED_MOMENTS, SHARED.bundle, alpha=1e-2, time_limit=60.0)


def of_best_set():
    g = next(iter(SHARED.shop.requires))
    budget = SHARED.shop.cost([g]) * 1.2
    out = [f"g{h}" for h in range(SHARED.J) if h not in SHARED.shop.closed([g])][:1]
    found = best_set(SHARED_MOMENTS, SHARED.bundle, budget=budget, include=[f"g{g}"], exclude=out, alpha=1e-2)
    assert found.certificate.included.sum() > 1
    assert found.certificate.excluded.any()
    return SHARED_MOMENTS, found.certificate


def of_plan():
    """Penalties; a group that explains little must be in, so that values and bounds are negative."""
    model = AnytimeRegressor(SHARED.bundle, alpha=SHARED.alpha).fit_moments(SHARED_MOMENTS)
    lost = np.full(len(SHARED.bundle), float(model.sequence_.null_value))
    model.model_ = replace(model.model_, penalties=lost)
    plan = model.plan(1e6, include=[model.sequence_.groups[0]], time_limit=60)
    assert plan.value < plan.bound < 0
    return SHARED_MOMENTS, plan.certificate


def trivial():
    """Dependent columns and no ridge constant: there is no proof."""
    X = np.column_stack([PLAIN.X, PLAIN.X[:, 0]])
    moments = Moments.from_data(X, PLAIN.Y)
    return moments, certify(moments, alpha=0.0, time_limit=0.0)


def of_targets():
    problem = make(3, "targets", J=3, alpha=1e-3)
    moments = Moments.from_data(problem.X, problem.Y)
    return moments, certify(moments, problem.feature_groups, problem.priced, alpha=1e-3, time_limit=0.0)


def named_columns():
    names = [f"column {d}" for d in range(PLAIN.X.shape[1])]
    pandas = pytest.importorskip("pandas")
    moments = Moments.from_data(pandas.DataFrame(PLAIN.X, columns=names), PLAIN.Y)
    return moments, certify(moments, alpha=1e-2, time_limit=0.0)


MADE = {f.__name__: f for f in (additive, shared, of_best_set, of_plan, trivial, of_targets, named_columns)}


def same(a, b):
    """Whether two certificates are equal to the last bit, and of the same types."""
    for name in (f.name for f in fields_of(Certificate)):
        left, right = getattr(a, name), getattr(b, name)
        if isinstance(left, np.ndarray):
            if left.dtype != right.dtype or left.shape != right.shape or left.tobytes() != right.tobytes():
                return False
        elif type(left) is not type(right) or left != right:
            return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def written(folder):
    """A file of a certificate with shared costs, requirements, blocks of several sizes and many leaves."""
    path = folder / "shared.certificate"
    _, certificate = shared()
    assert len(certificate.leaf_dual) > certificate.budgets.size
    assert len({len(columns) for columns in certificate.feature_groups.columns}) > 1
    assert certificate.feature_groups.requires
    assert certificate.feature_groups.shared
    certificate.save(path)
    return path, certificate


# -- what is written is read -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the moments are ill conditioned")
@pytest.mark.parametrize("name", MADE)
def test_there_and_back(name, tmp_path):
    moments, certificate = MADE[name]()
    path = tmp_path / "a.certificate"
    certificate.save(path)
    found = Certificate.load(path)
    assert type(found) is Certificate
    assert same(found, certificate)
    assert found.notes == certificate.notes
    assert str(found) == str(certificate)
    assert found.condition == certificate.condition
    if not certificate.included.any():
        assert found.timeliness() == certificate.timeliness()
    assert found.at(1.0) == certificate.at(1.0)
    found.save(str(tmp_path / "b.certificate"))
    assert path.read_bytes() == (tmp_path / "b.certificate").read_bytes()
    if name == "trivial":
        with pytest.raises(ValueError, match="dependent"):
            found.verify(moments)
    else:
        found.verify(moments)


def test_the_comparison_sees_a_changed_bit(written):
    _, certificate = written
    other = Certificate(**{f.name: getattr(certificate, f.name) for f in fields_of(Certificate)})
    assert same(other, certificate)
    for name in ("bounds", "order", "included"):
        array = getattr(certificate, name).copy()
        array.view(np.uint8)[0] ^= 1
        changed = {f.name: getattr(certificate, f.name) for f in fields_of(Certificate)} | {name: array}
        assert not same(Certificate(**changed), certificate)


def test_a_file_of_other_data_is_read_but_not_believed(written):
    path, _ = written
    found = Certificate.load(path)
    found.verify(SHARED_MOMENTS)
    with pytest.raises(ValueError, match="null_value"):
        found.verify(Moments.from_data(SHARED.X, 2 * SHARED.Y, SHARED.w))


# -- damage ----------------------------------------------------------------------------------------------------


def test_a_flipped_byte_is_refused(written, tmp_path):
    path, certificate = written
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(data[:8], "little")
    # the header is a small part of the file, and there it matters most
    positions = [*range(8), *rng.integers(8, header, size=142), *rng.integers(header, len(data), size=150)]
    refused = 0
    for position in map(int, positions):
        damaged = bytearray(data)
        damaged[position] ^= int(rng.integers(1, 256))
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            found = Certificate.load(tmp_path / "damaged")
        except ValueError as error:
            assert "damaged" in str(error)  # noqa: PT017
            refused += 1
            continue
        assert same(found, certificate), position
    assert len(positions) == 300
    assert refused >= 290


def test_a_file_that_ends_early_or_late_is_refused(written, tmp_path):
    data = written[0].read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    for length in (0, 1, 7, 8, 9, header - 1, header, header + 1, len(data) // 2, len(data) - 8, len(data) - 1):
        (tmp_path / "short").write_bytes(data[:length])
        with pytest.raises(ValueError, match="short"):
            Certificate.load(tmp_path / "short")
    (tmp_path / "long").write_bytes(data + b"\0" * 8)
    with pytest.raises(ValueError, match="damaged"):
        Certificate.load(tmp_path / "long")


def test_other_files_are_refused(written, tmp_path):
    with pytest.raises(FileNotFoundError):
        Certificate.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("budget,bound\n1,2\n" * 100)
    with pytest.raises(ValueError, match="text is not a file of budgetline"):
        Certificate.load(tmp_path / "text")
    model = AnytimeRegressor(alpha=1e-2).fit(PLAIN.X, PLAIN.Y[:, 0])
    budgetline.save(model, tmp_path / "model")
    with pytest.raises(ValueError, match=r"model holds .*, not 'certificate'"):
        Certificate.load(tmp_path / "model")
    with pytest.raises(ValueError, match="holds 'certificate'"):
        budgetline.load(written[0])


# -- half-written files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_what_was_there(call, written, tmp_path, monkeypatch):
    """The new file is written next to the old one, and moved when all of it is on the disk."""
    _, certificate = written
    path = tmp_path / "kept"
    path.write_bytes(b"what was there")

    def full(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OSError, match="no space left"):
            certificate.save(path)
        with pytest.raises(OSError, match="no space left"):
            certificate.save(tmp_path / "new")
    assert path.read_bytes() == b"what was there"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]
    certificate.save(path)
    assert same(Certificate.load(path), certificate)


def test_the_file_appears_only_when_it_is_whole(written, tmp_path, monkeypatch):
    _, certificate = written
    path, seen = tmp_path / "whole", []
    move = os.replace

    def watched(source, target):
        seen.append((path.exists(), os.path.getsize(source)))
        move(source, target)

    monkeypatch.setattr(os, "replace", watched)
    certificate.save(path)
    assert seen == [(False, path.stat().st_size)]


# -- forged files ----------------------------------------------------------------------------------------------


def changed(array, index, value):
    copy = np.array(array)
    copy[index] = value
    return copy


def forge(path, change):
    """Write a whole file, with a good checksum, of changed parts; ``change`` gets both dictionaries."""
    arrays, fields = decode(read(path), KIND)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(arrays, fields)
    forged = path.with_name("forged")
    forged.write_bytes(encode(KIND, arrays, fields))
    return forged


def array(name, how):
    return name, lambda arrays, fields: arrays.__setitem__(name, how(arrays[name]))


def field(name, value):
    return name, lambda arrays, fields: fields.__setitem__(name, value)


def grouped(name, value):
    """Change one entry of the groups; the error must name it, or speak of the groups."""
    return f"{name}|feature_groups", lambda arrays, fields: fields["feature_groups"].__setitem__(name, value)


FLOATS = ("values", "budgets", "achieved", "bounds", "blocks", "duals")
WHOLE = ("order", "leaf_budget", "leaf_dual")
MASKS = ("included", "excluded", "leaf_included", "leaf_excluded")
FITTING = (*MASKS, "leaf_dual")
BROKEN = np.array(sorted(range(SHARED.J), key=lambda g: g not in SHARED.shop.requires))
FORGED = {
    **{f"{name} float32": array(name, lambda a: a.astype(np.float32)) for name in FLOATS},
    **{f"{name} whole": array(name, lambda a: a.astype(np.int64)) for name in FLOATS},
    **{f"{name} NaN": array(name, lambda a: changed(a, (0,) * a.ndim, np.nan)) for name in FLOATS},
    **{f"{name} inf": array(name, lambda a: changed(a, (0,) * a.ndim, np.inf)) for name in FLOATS},
    **{f"{name} int32": array(name, lambda a: a.astype(np.int32)) for name in WHOLE},
    **{f"{name} float": array(name, lambda a: a.astype(np.float64)) for name in WHOLE},
    **{f"{name} whole": array(name, lambda a: a.astype(np.int64)) for name in MASKS},
    **{f"{name} bytes": array(name, lambda a: a.astype(np.uint8)) for name in MASKS},
    **{f"{name} deeper": array(name, lambda a: a[None]) for name in (*FLOATS, *WHOLE, *MASKS)},
    **{f"{name} flat": array(name, lambda a: a.ravel()) for name in ("duals", "leaf_included", "leaf_excluded")},
    **{f"{name} short": array(name, lambda a: a[:-1]) for name in ("values", "achieved", "bounds", "blocks", *FITTING)},
    **{f"{name} long": array(name, lambda a: np.concatenate([a, a[-1:]])) for name in
       ("values", "achieved", "bounds", "blocks", *FITTING)},
    **{f"{name} narrow": array(name, lambda a: a[:, 1:]) for name in ("leaf_included", "leaf_excluded", "duals")},
    **{f"{name} negative": array(name, lambda a: changed(a, 0, -1)) for name in
       ("order", "values", "budgets", "achieved", "bounds", "leaf_budget", "leaf_dual")},
    "order repeated": array("order", lambda a: changed(a, 0, a[1])),
    "order out of range": array("order", lambda a: changed(a, 0, SHARED.J)),
    "order breaks a requirement": array("order", lambda a: BROKEN),
    "order drops a requirement": ("order", lambda arrays, fields: arrays.update(
        order=np.array(sorted(SHARED.shop.requires)), values=arrays["values"][: len(SHARED.shop.requires)])),
    "budgets equal": array("budgets", lambda a: changed(a, 1, a[0])),
    "budgets falling": array("budgets", lambda a: a[::-1]),
    "budgets none": ("budgets|achieved|bounds|leaf_budget", lambda arrays, fields: arrays.update(
        budgets=np.empty(0), achieved=np.empty(0), bounds=np.empty(0))),
    "leaf_budget unknown": array("leaf_budget", lambda a: changed(a, 0, 10_000)),
    "leaf_dual unknown": array("leaf_dual", lambda a: changed(a, 0, 10_000)),
    "blocks of one size": array("blocks", lambda a: np.ones(SHARED.J)),
    "blocks none": array("blocks", lambda a: a[:0]),
    **{f"{name} negative field": field(name, -1.0) for name in ("alpha", "everything", "null_value", "gamma")},
    **{f"{name} text": field(name, "1") for name in ("alpha", "everything", "null_value", "gamma")},
    **{f"{name} none": field(name, None) for name in ("alpha", "everything", "null_value", "gamma")},
    **{f"{name} list": field(name, [1.0]) for name in ("alpha", "everything", "null_value", "gamma")},
    "alpha true": field("alpha", True),
    "feature_groups text": ("feature.groups", field("feature_groups", "1")[1]),
    "feature_groups list": ("feature.groups", field("feature_groups", [])[1]),
    "feature_groups empty": ("feature.groups", field("feature_groups", {})[1]),
    "names repeated": grouped("names", ["g0"] * SHARED.J),
    "names numbers": grouped("names", list(range(SHARED.J))),
    "names fewer": grouped("names", ["g0"]),
    "columns twice": ("column", grouped("columns", [[0]] * SHARED.J)[1]),
    "columns fewer": grouped("columns", [[0]]),
    "columns empty": ("columns", grouped("columns", [[] for _ in range(SHARED.J)])[1]),
    "costs negative": ("cost", grouped("costs", [-1.0] * SHARED.J)[1]),
    "costs text": grouped("costs", ["1"] * SHARED.J),
    "remainder": grouped("remainder", "keep"),
    "shared negative": ("shared", grouped("shared", [["s0", -1.0, ["g0"]]])[1]),
    "shared unknown": ("shared", grouped("shared", [["s0", 1.0, ["q"]]])[1]),
    "shared nobody": ("shared", grouped("shared", [["s0", 1.0, []]])[1]),
    "shared twice": grouped("shared", [["s0", 1.0, ["g0"]], ["s0", 1.0, ["g0"]]]),
    "shared text": grouped("shared", "draw"),
    "requires itself": ("requires", grouped("requires", [["g0", ["g0"]]])[1]),
    "requires in a circle": ("require", grouped("requires", [["g0", ["g1"]], ["g1", ["g0"]]])[1]),
    "requires unknown": ("require", grouped("requires", [["g0", ["q"]]])[1]),
    "requires text": grouped("requires", {"g0": ["g1"]}),
    "groups extra": ("feature_groups", grouped("colour", "red")[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_are_refused_by_the_name_of_the_part(name, written):
    pattern, change = FORGED[name]
    forged = forge(written[0], change)
    with pytest.raises(ValueError, match=rf"forged does not hold a certificate, it is damaged: .*({pattern})"):
        Certificate.load(forged)


PARTS = ("alpha", "everything", "null_value", "gamma", "feature_groups", *FLOATS, *WHOLE, *MASKS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_missing_is_named(part, written):
    forged = forge(written[0], lambda arrays, fields: (arrays.pop(part, None), fields.pop(part, None)))
    with pytest.raises(ValueError, match=f"forged does not hold a certificate, it is damaged: .*{part}"):
        Certificate.load(forged)


@pytest.mark.parametrize("where", ["arrays", "fields"])
def test_a_part_that_is_too_much_is_named(where, written):
    def change(arrays, fields):
        arrays.update(colour=np.zeros(3)) if where == "arrays" else fields.update(colour=3)

    with pytest.raises(ValueError, match=r"forged does not hold a certificate, it is damaged: .*colour"):
        Certificate.load(forge(written[0], change))


def test_a_forger_who_changes_nothing_is_believed(written):
    """What is refused above is refused for what was changed."""
    path, certificate = written
    assert same(Certificate.load(forge(path, lambda arrays, fields: None)), certificate)


def test_every_array_of_a_file_is_forged(written):
    arrays, fields = decode(read(written[0]), KIND)
    assert {*arrays, *(name for name, value in fields.items() if value is not None)} == set(PARTS)
