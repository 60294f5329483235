"""Moments saved, loaded, merged, subtracted; passes that are interrupted and go on; rows that come bit by bit."""

import json
import os
import warnings

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save
from scipy.linalg import LinAlgWarning

from budgetline import AnytimeRegressor, FeatureGroups, GroupLassoPath, Moments, open_data
from budgetline.files import MANIFEST, SCHEMA, decode, encode, write_atomically
from budgetline.moments.passes import ChunkMoments, sum_over
from budgetline.moments.sums import tree_sum

EPS = np.finfo(np.float64).eps


def sample(seed=0, n=60, D=3, far=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) + far
    return X, (X - far) @ np.arange(1.0, D + 1) + rng.normal(size=n), rng.uniform(0.5, 2.0, n)


def assert_identical(a, b):
    assert (a.n_samples, a.weight, a.eps) == (b.n_samples, b.weight, b.eps)
    assert (a.target_shape, a.feature_names) == (b.target_shape, b.feature_names)
    for name in ("mean", "mean_low", "scatter"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)


def assert_close(a, b, digits=1e-11):
    assert a.n_samples == b.n_samples
    assert a.weight == pytest.approx(b.weight, rel=1e-13)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12, atol=1e-12)
    size = np.sqrt(np.outer(np.diag(b.scatter), np.diag(b.scatter)))
    np.testing.assert_allclose(a.scatter / size, b.scatter / size, rtol=0, atol=digits)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("targets", [(), (2,), (1,)])
@pytest.mark.parametrize("names", [None, ["a", "ü", "c\n"]])
def test_a_round_trip_changes_nothing(tmp_path, far, targets, names):
    X, y, w = sample(far=far)
    y = y if not targets else np.column_stack([y, w][: targets[0]])
    moments = Moments.from_data(X if names is None else pd.DataFrame(X, columns=names), y, w)
    moments.save(tmp_path / "m")
    assert_identical(Moments.load(tmp_path / "m"), moments)
    assert_identical(Moments.from_bytes(moments.to_bytes()), moments)
    assert_identical(Moments.load(tmp_path / "m") + moments, moments + moments)
    assert os.listdir(tmp_path) == ["m"]


def test_a_model_of_loaded_moments_is_the_same(tmp_path):
    X, y, w = sample()
    moments = Moments.from_data(X, y, w)
    moments.save(str(tmp_path / "m"))
    a, b = (AnytimeRegressor().fit_moments(m) for m in (moments, Moments.load(str(tmp_path / "m"))))
    np.testing.assert_array_equal(a.coef_path_, b.coef_path_)


def test_files_of_a_newer_schema_or_another_kind_are_refused(tmp_path):
    data = Moments.from_data(*sample()).to_bytes()
    arrays, fields = decode(data, "moments")
    (tmp_path / "other").write_bytes(encode("forecast", arrays, fields))
    with pytest.raises(ValueError, match="other holds 'forecast', not 'moments'"):
        Moments.load(tmp_path / "other")
    newer = data.replace(rf"\"schema\": {SCHEMA}".encode(), rf"\"schema\": {SCHEMA + 1}".encode())
    assert newer != data
    (tmp_path / "newer").write_bytes(newer)
    with pytest.raises(ValueError, match=rf"newer has schema {SCHEMA + 1}.*update"):
        Moments.load(tmp_path / "newer")
    with pytest.raises(FileNotFoundError, match="missing"):
        Moments.load(tmp_path / "missing")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_samples", 0),
        ("n_samples", None),
        ("n_samples", 1e300),
        ("n_samples", True),
        ("n_samples", "60"),
        ("weight", -1.0),
        ("weight", "heavy"),
        ("eps", 0.0),
        ("target_shape", [5]),
        ("target_shape", [-1]),
        ("target_shape", 3),
        ("target_shape", [1e300]),
        ("target_shape", [10**30]),
        ("target_shape", [1, 1]),
        ("target_shape", "1"),
        ("feature_names", ["only one"]),
        ("feature_names", 3),
        ("feature_names", "abc"),
        ("feature_names", [1, 2, 3]),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(field, value):
    arrays, fields = decode(Moments.from_data(*sample()).to_bytes(), "moments")
    with pytest.raises(ValueError, match=r"monday does not hold moments"):
        Moments.from_bytes(encode("moments", arrays, fields | {field: value}), "monday")


def test_fields_that_changed_are_noticed():
    arrays, fields = decode(Moments.from_data(*sample()).to_bytes(), "moments")
    for digest in ({}, {"digest": None}, {"digest": "0" * 64}):
        manifest = json.dumps({"schema": SCHEMA, "kind": "moments", "fields": fields, **digest})
        with pytest.raises(ValueError, match=r"monday .*damaged"):
            Moments.from_bytes(save(arrays, {MANIFEST: manifest}), "monday")
    data = Moments.from_data(*sample()).to_bytes()
    assert data.count(rb"\"n_samples\": 60") == 1
    with pytest.raises(ValueError, match="monday is damaged: its fields and arrays are not those that were written"):
        Moments.from_bytes(data.replace(rb"\"n_samples\": 60", rb"\"n_samples\": 61"), "monday")


@pytest.mark.parametrize("change", ["missing", "shape", "dtype", "nan"])
def test_arrays_that_do_not_fit_together_are_refused(change):
    arrays, fields = decode(Moments.from_data(*sample()).to_bytes(), "moments")
    arrays = {name: array.copy() for name, array in arrays.items()}
    if change == "missing":
        del arrays["mean_low"]
    elif change == "shape":
        arrays["scatter"] = arrays["scatter"][:-1]
    elif change == "dtype":
        arrays["mean"] = arrays["mean"].astype(np.float32)
    else:
        arrays["scatter"][0, 1] = np.nan
    with pytest.raises(ValueError, match="monday"):
        Moments.from_bytes(encode("moments", arrays, fields), "monday")


def check_damaged(data):
    """Say whether the bytes are moments; if not, only a ValueError that names the file will do."""
    try:
        found = Moments.from_bytes(data, "damaged.moments")
    except ValueError as error:
        return "damaged.moments" not in str(error)
    assert found.n_samples >= 1
    assert 0 < found.weight < np.inf
    assert np.isfinite(found.scatter).all()
    assert found.scatter.shape == (found.n_features + found.n_targets,) * 2
    return True


def test_truncated_at_any_byte():
    data = Moments.from_data(pd.DataFrame(sample()[0], columns=["a", "b", "c"]), sample()[1]).to_bytes()
    assert len(data) < 2000
    assert not any(check_damaged(data[:k]) for k in range(len(data)))
    assert not check_damaged(data + b"\0")


def test_two_thousand_mutations_of_one_byte():
    X, y, _ = sample(n=12345)
    data = Moments.from_data(pd.DataFrame(X, columns=["a", "b", "c"]), y).to_bytes()
    rng = np.random.default_rng(0)
    accepted = 0
    for position, value in zip(rng.integers(0, len(data), 2000), rng.integers(0, 256, 2000), strict=True):
        mutated = bytearray(data)
        mutated[position] = value
        accepted += check_damaged(bytes(mutated))
    assert 0 < accepted < 2000
    header = 8 + int.from_bytes(data[:8], "little")
    for position in range(8, header):  # and every byte of the text by what text is made of
        for value in b'0e9"{}[]:,-\\':
            mutated = bytearray(data)
            mutated[position] = value
            check_damaged(bytes(mutated))


def test_a_write_that_fails_leaves_nothing_and_spoils_nothing(tmp_path, monkeypatch):
    before, after = Moments.from_data(*sample(0)), Moments.from_data(*sample(1))
    before.save(tmp_path / "m")

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        after.save(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]
    monkeypatch.undo()
    assert_identical(Moments.load(tmp_path / "m"), before)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        write_atomically(tmp_path / "new", b"data")
    assert os.listdir(tmp_path) == ["m"]


# -- subtraction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_was_added_can_be_taken_away(far, weighted):
    a, b = ((X, y, w if weighted else None) for X, y, w in (sample(0, 60, far=far), sample(1, 45, far=far)))
    a, b = Moments.from_data(*a), Moments.from_data(*b)
    left = (a + b) - b
    assert_close(left, a)
    assert EPS <= left.eps < 100 * EPS
    np.testing.assert_allclose(
        AnytimeRegressor().fit_moments(left).coef_, AnytimeRegressor().fit_moments(a).coef_, rtol=1e-10
    )


def test_nothing_may_be_left_over():
    a, b = Moments.from_data(*sample(0, 60)), Moments.from_data(*sample(1, 45))
    with pytest.raises(ValueError, match="cannot remove 60 of 60 samples"):
        a - a
    with pytest.raises(ValueError, match="cannot remove 105 of 60 samples"):
        a - (a + b)
    with pytest.raises(ValueError, match="nothing would be left"):
        Moments.from_data(*sample(0, 60)[:2]) - Moments.from_data(*sample(1, 45)[:2], np.full(45, 2.0))
    with pytest.raises(TypeError):
        a - 1


def test_only_moments_of_the_same_columns_can_be_taken_away():
    X, y, _ = sample()
    with pytest.raises(ValueError, match=r"3 features.*2 features"):
        Moments.from_data(X, y) - Moments.from_data(X[:5, :2], y[:5])
    with pytest.raises(ValueError, match="different columns: 'c' and 'd'"):
        Moments.from_data(pd.DataFrame(X, columns=list("abc")), y) - Moments.from_data(
            pd.DataFrame(X[:5], columns=list("abd")), y[:5]
        )
    with pytest.raises(ValueError, match="different columns"):
        Moments.from_data(pd.DataFrame(X, columns=list("abc")), y) - Moments.from_data(X[:5], y[:5])


@pytest.mark.parametrize("spread", [1e4, 3e6])
def test_digits_that_cancel_are_counted_and_told(spread):
    """Rows of a far larger spread leave little of the digits of the rest: the model says so."""
    X, y, _ = sample(0, 200)
    a, b = Moments.from_data(X, y), Moments.from_data(spread * sample(1, 200)[0], y)
    left = (a + b) - b
    error = np.abs(left.scatter / a.scatter - 1).max()
    assert left.eps > 0.01 * spread**2 * EPS
    assert error < 10 * left.eps
    truth = AnytimeRegressor().fit_moments(a).coef_
    if spread < 1e5:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = AnytimeRegressor().fit_moments(left)
    else:
        with pytest.warns(LinAlgWarning, match="digits of the coefficients can be trusted"):
            found = AnytimeRegressor().fit_moments(left)
    np.testing.assert_allclose(found.coef_, truth, rtol=100 * left.eps)


def test_a_column_of_which_only_noise_is_left_is_constant():
    X, y, _ = sample(0, 200)
    quiet = X.copy()
    quiet[:, 1] = 5.0
    a, b = Moments.from_data(quiet, y), Moments.from_data(1e3 * X, y)
    left = (a + b) - b
    assert left.scatter[1, 1] == 0
    assert AnytimeRegressor().fit_moments(left).coef_[1] == 0


def test_a_sliding_window_of_days():
    """Thirty days, of which the last seven count: a day comes, a day goes."""
    days = [sample(seed, 50, far=seed / 10) for seed in range(30)]
    moments = [Moments.from_data(*day) for day in days]
    window = sum(moments[:7])
    for new in range(7, 30):
        window = window + moments[new] - moments[new - 7]
    X, y, w = (np.concatenate(parts) for parts in zip(*days[-7:], strict=True))
    assert_close(window, Moments.from_data(X, y, w))
    found, wanted = AnytimeRegressor().fit_moments(window), AnytimeRegressor().fit(X, y, w)
    assert found.sequence_.groups == wanted.sequence_.groups
    np.testing.assert_allclose(found.coef_path_, wanted.coef_path_, rtol=1e-9)


@pytest.fixture
def files(tmp_path):
    """Five files of two row groups each."""
    for k in range(5):
        X, y, w = sample(k, 40, far=100)
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, w=w)
        frame.to_parquet(tmp_path / f"{k}.parquet", index=False, row_group_size=20)
    return tmp_path


# -- sums -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 13])
def test_parts_that_are_nothing_do_not_count(count):
    assert tree_sum([None] * count) is None
    assert tree_sum([*[None] * count, 3, None, 4]) == 7


def test_the_sum_depends_on_the_partitions_alone(files):
    """However a partition is cut into chunks of the reader's, the partitions are added as a tree."""
    source = open_data(files, "y", weight="w", chunk_rows=20)
    parts = [
        sum_over(type(source)([p], 3, ("a", "b", "c"), ()), ChunkMoments(("a", "b", "c"), ()), None)
        for p in source.partitions
    ]
    total = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]))
    assert_identical(sum_over(source, ChunkMoments(("a", "b", "c"), ()), None), total + (parts[8] + parts[9]))


# -- partial_fit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [AnytimeRegressor, GroupLassoPath])
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_rows_bit_by_bit_give_the_model_of_all_rows(estimator, far):
    X, y, w = sample(n=200, D=4, far=far)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = estimator([["a", "c"], ["b"], ["d"]])
    for rows in (slice(0, 1), slice(1, 30), slice(30, 170), slice(170, 200)):
        model.partial_fit(frame[rows], y[rows], w[rows])
    whole = estimator([["a", "c"], ["b"], ["d"]]).fit(frame, y, w)
    assert model.sequence_.groups == whole.sequence_.groups
    np.testing.assert_allclose(model.coef_path_, whole.coef_path_, rtol=1e-10)
    assert_close(model.moments_, whole.moments_)
    assert not hasattr(model, "n_passes_")


def test_partial_fit_goes_on_after_every_kind_of_fit(tmp_path):
    X, y, _ = sample(n=100)
    whole = AnytimeRegressor().fit(X, y)
    half = Moments.from_data(X[:50], y[:50])
    for first in (
        AnytimeRegressor().fit(X[:50], y[:50]),
        AnytimeRegressor().fit_moments(half),
        AnytimeRegressor().fit(open_data((X[:50], y[:50]), chunk_rows=9)),
        AnytimeRegressor().partial_fit(X[:50], y[:50]),
    ):
        np.testing.assert_allclose(first.partial_fit(X[50:], y[50:]).coef_path_, whole.coef_path_, rtol=1e-10)
        assert first.moments_.n_samples == 100
    first.fit(X[:50], y[:50])
    assert first.moments_.n_samples == 50  # fit starts again


def test_moments_of_a_fit_take_part_in_the_next_days(tmp_path):
    """The daily life: the moments of a model are saved; tomorrow they are loaded, added to, and a day is forgotten."""
    days = [sample(seed, 50) for seed in range(3)]
    AnytimeRegressor().fit(days[0][0], days[0][1]).moments_.save(tmp_path / "state")
    state = Moments.load(tmp_path / "state")
    for X, y, _ in days[1:]:
        state = state + Moments.from_data(X, y)
    state = state - Moments.from_data(*days[0][:2])
    X, y = (np.concatenate([days[1][k], days[2][k]]) for k in (0, 1))
    np.testing.assert_allclose(
        AnytimeRegressor().fit_moments(state).coef_path_, AnytimeRegressor().fit(X, y).coef_path_, rtol=1e-10
    )


def bad_rows(X, y):
    frame = pd.DataFrame(X, columns=list("abc"))
    broken = frame.copy()
    broken.loc[3, "b"] = np.nan
    return {
        "other names": (frame.rename(columns={"b": "z"}), y, "feature names"),
        "another order": (frame[["b", "a", "c"]], y, "feature names"),
        "fewer columns": (frame[["a", "b"]], y, r"features|feature names"),
        "two targets": (frame, np.column_stack([y, y]), r"target shape \(2,\)"),
        "NaN": (broken, y, "NaN: column 'b'"),
        "text": (frame.assign(b="text"), y, "not numbers"),
        "lengths": (frame, y[:-1], "inconsistent"),
    }


@pytest.mark.parametrize("kind", bad_rows(*sample()[:2]))
def test_bad_rows_are_refused_and_the_model_goes_on(kind):
    X, y, _ = sample(n=80)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = AnytimeRegressor().partial_fit(frame[:40], y[:40])
    before, coef = model.moments_, model.coef_.copy()
    wrong, target, message = bad_rows(X[40:], y[40:])[kind]
    with pytest.raises(ValueError, match=message):
        model.partial_fit(wrong, target)
    assert model.moments_ is before
    np.testing.assert_array_equal(model.coef_, coef)
    model.partial_fit(frame[40:], y[40:])
    np.testing.assert_allclose(model.coef_, AnytimeRegressor().fit(frame, y).coef_, rtol=1e-10)


def test_groups_of_other_columns_are_not_added():
    """Without names, moments of columns 0 and 1 look like those of columns 0 and 2."""
    X, y, _ = sample()
    model = AnytimeRegressor(FeatureGroups([[0], [1]], remainder="drop")).partial_fit(X, y)
    model.set_params(feature_groups=FeatureGroups([[0], [2]], remainder="drop"))
    with pytest.raises(ValueError, match="other columns"):
        model.partial_fit(X, y)
    assert model.moments_.n_samples == 60
    model.set_params(feature_groups=FeatureGroups([[0, 1]], remainder="drop"))
    assert model.partial_fit(X, y).moments_.n_samples == 120


def test_partial_fit_is_for_squared_error():
    X, y, _ = sample()
    assert not hasattr(AnytimeRegressor(loss="poisson"), "partial_fit")
    assert hasattr(AnytimeRegressor(), "partial_fit")
    model = AnytimeRegressor(loss="poisson", rule="omp").fit(X, np.abs(y).round())
    assert not hasattr(model, "moments_")
    with pytest.raises(ValueError, match="squared error only"):
        AnytimeRegressor(loss="poisson").fit_moments(Moments.from_data(X, y))


def test_files_are_for_whom_the_user_lets_read(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    Moments.from_data([[1.0], [3.0]], [0.0, 1.0]).save(tmp_path / "a.moments")
    assert (tmp_path / "a.moments").stat().st_mode == plain.stat().st_mode


def test_every_changed_byte_is_noticed():
    data = Moments.from_data(np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0)).to_bytes()
    for k in range(len(data) - 8 * 16, len(data)):  # the last entries of the scatter
        damaged = bytearray(data)
        damaged[k] ^= 1
        with pytest.raises(ValueError, match="damaged"):
            Moments.from_bytes(bytes(damaged))
