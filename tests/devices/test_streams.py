"""Sources that are multiplied on a device, by its name."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from budgetline import AnytimeClassifier, AnytimeRegressor, devices, open_data

torch = pytest.importorskip("torch")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
D = 12


@pytest.fixture(autouse=True)
def _on_the_device(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(devices, "SMALL_BYTES", 0)


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, D)) + np.linspace(0, 3, D)
    score = (X - X.mean(0)) @ np.linspace(1, -1, D)
    return X, score + rng.normal(size=900), (rng.uniform(size=900) < 1 / (1 + np.exp(-score))).astype(int)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", [{}, {"alpha": "auto"}, {"encoding": "spline"}])
def test_files_are_streamed_through_the_device(device, settings, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y, labels = data()
    names = [f"x{d}" for d in range(D)]
    table = pa.table(dict(zip(names, X.T, strict=True)) | {"y": y, "label": labels})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=250)
    for make, target in ((AnytimeRegressor, "y"), (lambda **s: AnytimeClassifier(rule="score", **s), "label")):
        found, wanted = (
            make(**settings).fit(open_data(tmp_path / "a.parquet", target, features=names, device=where))
            for where in (device, None)
        )
        assert found.sequence_.groups == wanted.sequence_.groups
        assert_allclose(found.coef_path_, wanted.coef_path_, rtol=1e-9, atol=1e-9)


def test_arrays_sparse_chunks_and_weights():
    sparse = pytest.importorskip("scipy.sparse")
    X, y, _ = data()
    X[np.abs(X) < 1] = 0
    wanted = AnytimeRegressor().fit(X, y)
    for table in (X, sparse.csr_array(X), np.asfortranarray(X)):
        found = AnytimeRegressor().fit(open_data((table, y), chunk_rows=200, device="cpu"))
        assert_allclose(found.coef_, wanted.coef_, rtol=1e-9)


def test_dask_workers_use_their_device():
    dd, distributed = pytest.importorskip("dask.dataframe"), pytest.importorskip("distributed")
    X, y, _ = data()
    frame = pd.DataFrame(X).rename(columns=str).assign(y=y)
    source = open_data(dd.from_pandas(frame, npartitions=3), "y", device="cpu")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        found = AnytimeRegressor().fit(source, client=client)
    assert_allclose(found.coef_, AnytimeRegressor().fit(X, y).coef_, rtol=1e-9)


def test_devices_that_are_not_there():
    X, y, _ = data()
    with pytest.raises(TypeError, match="device must be the name of a device, such as 'cuda', got 3"):
        open_data((X, y), device=3)
    with pytest.raises(ValueError, match="device='gpu' is not a device of PyTorch"):
        AnytimeRegressor().fit(open_data((X, y), device="gpu"))
    with pytest.raises(ValueError, match=r"device='cuda:99': PyTorch finds \d+ GPUs on this machine"):
        AnytimeRegressor().fit(open_data((X, y), device="cuda:99"))
