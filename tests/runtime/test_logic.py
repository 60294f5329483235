"""The logic of a run against a simulation that shares no code with it, over random scenarios; and its bad arguments."""

import asyncio
import threading

import numpy as np
import pandas as pd
import pytest
from runtime_extractors import (
    COLUMNS,
    data,
    extractors,
    raw_of,
    regression,
)
from runtime_simulator import last_answers, scenario
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import AnytimeClassifier, AnytimeRegressor, AnytimeRunner, Extractor
from budgetline.runtime import EarlyExit

X0, Y0, X = data()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("cooperative", [False, True], ids=["beside", "cooperative"])
@pytest.mark.parametrize("block", range(4))
def test_runs_agree_with_the_simulation(block, cooperative):
    answers = last_answers(scenario, range(100 * block, 100 * (block + 1)), cooperative)
    assert {answer.reason for answer in answers} == {"complete", "deadline", "budget"}


# -- bad arguments ---------------------------------------------------------------------------------------------


def good():
    return extractors("cooperative")


def build(**changed):
    settings = {"model": regression(), "extractors": good(), **changed}
    return AnytimeRunner(settings.pop("model"), settings.pop("extractors"), **settings)


async def coroutine(raw):
    return raw


BAD = {
    "unknown group": (lambda: build(extractors={**good(), "zz": len}), ValueError, "unknown group 'zz' in extractors"),
    "missing extractor": (lambda: build(extractors={"a": len}), ValueError, "no extractor for group 'c'"),
    "no mapping": (lambda: build(extractors=[len]), TypeError, "mapping.*list"),
    "no function": (lambda: build(extractors={**good(), "a": 3}), TypeError, "group 'a'.*got 3"),
    "mode": (lambda: build(mode="fibre"), ValueError, "mode must be one of.*'fibre'"),
    "mode of one": (lambda: Extractor(len, mode="fibre"), ValueError, "'fibre'"),
    "async elsewhere": (lambda: Extractor(coroutine, mode="thread"), ValueError, "async.*'thread'"),
    "timeout": (lambda: Extractor(len, timeout=0), ValueError, "timeout.*0"),
    "timeout nan": (lambda: Extractor(len, timeout=np.nan), ValueError, "timeout.*nan"),
    "cooperative timeout": (
        lambda: build(extractors={**good(), "b": Extractor(len, timeout=1.0)}),
        ValueError,
        "group 'b'.*timeout",
    ),
    "unsendable": (
        lambda: build(extractors={**good(), "b": Extractor(lambda raw: 1, mode="process")}),
        ValueError,
        "group 'b' cannot run in another process",
    ),
    "unknown seconds": (lambda: build(seconds={"zz": 1.0}), ValueError, "unknown group 'zz' in seconds"),
    "negative seconds": (lambda: build(seconds={"a": -1.0}), ValueError, "seconds of group 'a'.*-1"),
    "seconds nan": (lambda: build(seconds={"a": np.nan}), ValueError, "seconds of group 'a'.*nan"),
    "workers": (lambda: build(workers=0), ValueError, "workers.*0"),
    "workers of a wrong type": (lambda: build(workers=True), ValueError, "workers.*True"),
    "processes": (lambda: build(processes=0), ValueError, "processes.*0"),
    "max_abandoned": (lambda: build(max_abandoned=0), ValueError, "max_abandoned.*0"),
    "unfitted": (lambda: build(model=AnytimeRegressor(COLUMNS)), NotFittedError, "AnytimeRegressor"),
    "pipeline": (
        lambda: build(model=make_pipeline(StandardScaler(), regression())),
        TypeError,
        "Pipeline.*without a pipeline",
    ),
    "search": (
        lambda: build(model=GridSearchCV(AnytimeRegressor(COLUMNS), {"alpha": [0.1, 1.0]}, cv=2).fit(X0, Y0)),
        TypeError,
        "GridSearchCV.*without a pipeline",
    ),
    "deadline nan": (lambda: build().predict(raw_of(X[0]), deadline=np.nan), ValueError, "deadline.*nan"),
    "deadline text": (lambda: build().predict(raw_of(X[0]), deadline="1"), ValueError, "deadline.*'1'"),
    "deadline bool": (lambda: build().predict(raw_of(X[0]), deadline=True), ValueError, "deadline.*True"),
    "budget": (lambda: build().predict(raw_of(X[0]), budget=-1), ValueError, "budget.*-1"),
    "budget nan": (lambda: build().predict(raw_of(X[0]), budget=np.nan), ValueError, "budget.*nan"),
    "known": (lambda: build().predict(raw_of(X[0]), known={"zz": 1}), ValueError, "unknown group 'zz' in known"),
    "known no mapping": (lambda: build().predict(raw_of(X[0]), known=["a"]), TypeError, "known.*list"),
    "known shape": (lambda: build().predict(raw_of(X[0]), known={"a": [1.0]}), ValueError, "group 'a'.*2 values"),
    "known nan": (lambda: build().predict(raw_of(X[0]), known={"b": np.nan}), ValueError, "group 'b'.*not finite"),
    "known text": (lambda: build().predict(raw_of(X[0]), known={"b": "x"}), ValueError, "group 'b'.*'x'"),
    "known rows": (
        lambda: build().predict_many([raw_of(x) for x in X[:3]], known={"b": [1.0, 2.0]}),
        ValueError,
        "group 'b'.*shape",
    ),
    "no inputs": (lambda: build().predict_many([]), ValueError, "empty"),
    "a frame of inputs": (lambda: build().predict_many(pd.DataFrame(X)), TypeError, "DataFrame"),
    "a mapping of inputs": (lambda: build().predict_many({"a": 1}), TypeError, "dict"),
    "endless inputs": (lambda: build().predict_many(iter([1])), TypeError, "iterator"),
    "stream": (lambda: build().stream(raw_of(X[0]), deadline=np.nan), ValueError, "deadline.*nan"),
    "astream": (lambda: build().astream(raw_of(X[0]), budget=-2), ValueError, "budget.*-2"),
    "apredict": (lambda: asyncio.run(build().apredict(raw_of(X[0]), budget=-2)), ValueError, "budget.*-2"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_arguments_are_refused_by_name(what):
    call, error, text = BAD[what]
    before = threading.enumerate()
    with pytest.raises(error, match=text):
        call()
    assert set(threading.enumerate()) <= set(before), "nothing was started"


def test_early_exit_of_another_model():
    labels = np.where(np.median(Y0) < Y0, "yes", "no")
    classifier = AnytimeClassifier(COLUMNS).fit(X0, labels)
    exits = EarlyExit.fit(classifier, X0)
    with pytest.raises(ValueError, match="another model"):
        build(early_exit=exits)
    fewer = AnytimeClassifier(COLUMNS, max_groups=2).fit(X0, labels)
    with pytest.raises(ValueError, match="another model"):
        AnytimeRunner(fewer, good(), early_exit=exits)


def test_a_closed_runner_refuses():
    runner = build()
    runner.close()
    runner.close()
    for call in (runner.predict, runner.stream, runner.astream, lambda raw: runner.predict_many([raw])):
        with pytest.raises(RuntimeError, match="closed"):
            call(raw_of(X[0]))
    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(runner.apredict(raw_of(X[0])))
    with pytest.raises(RuntimeError, match="closed"):
        runner.start()
    with pytest.raises(RuntimeError, match="closed"), runner:
        pass
