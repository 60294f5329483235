"""Write the files beside this one. Run once, with version 0.1 (git tag before-16); kept to show how they were made."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    FeatureGroups,
    GroupLassoPath,
    Moments,
    best_set,
    certify,
    open_source,
)
from budgetline.sequencing import Doubling

FOLDER = Path(__file__).parent
rng = np.random.default_rng(16)
X = rng.normal(size=(40, 5)).round(2)
y = (X @ [1.0, -0.5, 0.3, 0.0, 2.0] + rng.normal(size=40)).round(2)
Y, counts, frame = np.column_stack([y, X[:, 0] - y**2]), np.floor(np.exp(y / 4)), pd.DataFrame(X, columns=list("äbcde"))
three = np.array(["no", "maybe", "yes"], dtype="<U9")[np.digitize(y, [-1, 1])]
GROUPS = FeatureGroups({"a": [4, 0], "b": [1], "c": [3, 2]}, [2.0, 1.0, 0.5])
SHARED = FeatureGroups(
    {"a": ["e", "ä"], "b": ["b"], "c": ["d"]},
    [2.0, 1.0, 0.5],
    remainder="drop",
    shared={"draw": (1.5, ["a", "c"])},
    requires={"c": ["b"]},
)
MODELS = {
    "regressor": AnytimeRegressor(GROUPS, schedule=Doubling(c_min=np.float64(2))).fit(X, y),
    "frame": AnytimeRegressor(SHARED, rule="omp").fit(frame, y),
    "targets": AnytimeRegressor([[0, 1], [2, 3, 4]], costs=np.array([1, 3]), max_cost=np.inf).fit(X, Y),
    "source": AnytimeRegressor(GROUPS).fit_source(open_source((X, y), chunk_rows=20)),
    "singular": AnytimeRegressor(GROUPS, alpha=0.0).fit(X[:, [0, 0, 1, 2, 3]], y),
    "poisson": AnytimeRegressor(GROUPS, loss="poisson", alpha=1e-2).fit(X, counts),
    "search": AnytimeRegressorCV(GROUPS, alphas=[1e-3, 1.0], cv=3).fit(X, y),
    "lasso": GroupLassoPath(GROUPS, n_lambdas=5).fit(X, y),
    "classifier": AnytimeClassifier(GROUPS, alpha=1e-2, class_weight={"no": 2.0, "maybe": 1, "yes": 1}).fit(X, three),
    "classifier_search": AnytimeClassifierCV(GROUPS, alphas=(1e-2, 1.0), cv=2).fit(frame, y > 0),
}
expected = {"X": X[:6].tolist(), "columns": list(frame.columns)}
for name, model in MODELS.items():
    budgetline.save(model, FOLDER / f"{name}.budgetline")
    table = (frame if hasattr(model, "feature_names_in_") else X)[:6]
    names = list(model.sequence_.groups)
    asked = [{}, {"stage": 0}, {"stage": 1}, {"budget": 2.5}, {"available": names[1:]}, {"available": names[:1]}]
    method = "predict_proba" if hasattr(model, "classes_") else "predict"
    answers = [[keywords, getattr(model, method)(table, **keywords).tolist()] for keywords in asked]
    expected[name] = {"class": type(model).__name__, "groups": names, "method": method, "answers": answers}
moments = Moments.of(frame, y, rng.uniform(0.5, 2, 40))
moments.save(FOLDER / "weighted.moments")
certify(moments, SHARED, alpha=1e-2, time_limit=60).save(FOLDER / "shared.certificate")
best_set(moments, SHARED, budget=4, include=["b"], alpha=1e-2).certificate.save(FOLDER / "best_set.certificate")
AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, three).certificate().save(FOLDER / "classifier.certificate")
expected["moments"] = {"weight": moments.weight, "scatter": moments.scatter.tolist(), "mean": moments.mean.tolist()}
(FOLDER / "expected.json").write_text(json.dumps(expected))
