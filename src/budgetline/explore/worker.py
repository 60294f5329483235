"""The worker: threads that compute for the newest state, and drop work on older ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Condition, Thread
from time import perf_counter, thread_time
from traceback import print_exc
from typing import Generic, TypeVar
from warnings import catch_warnings, simplefilter

from budgetline.explore.board import PARTS, Board
from budgetline.explore.fits import Check, Prepared, Setting, Tell, prepare
from budgetline.explore.results import (
    Learned,
    Part,
    budget_part,
    compare_part,
    effects_part,
    learn,
    next_part,
    order_part,
    plan_of,
    preliminary_part,
)
from budgetline.explore.state import State
from budgetline.explore.table import Data
from budgetline.messages import cut, hold_warnings, printable
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality import Plan

J = TypeVar("J")
PLAN_SECONDS = (0.1, 2.0)
"""How long plans are searched for: a short time first, more if that proves nothing."""
KEPT = 2
"""Prepared tables that are kept, so that going back to another target is quick."""


class Cancelled(Exception):
    """There is a newer state: the work on this one is not needed any more."""


class Lane(Generic[J]):
    """A thread that works on the newest job; a job that has a successor is told so when it checks."""

    def __init__(self, name: str, work: Callable[[J, Check], None]) -> None:
        self._work = work
        self._news = Condition()
        self._job: J | None = None
        self._number = 0
        self._closed = False
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, job: J | None) -> None:
        """Take another job, None: none; the one in work is not needed any more."""
        with self._news:
            self._job, self._number = job, self._number + 1
            self._news.notify()

    def close(self) -> None:
        """End the thread, soon."""
        with self._news:
            self._closed, self._number = True, self._number + 1
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                while self._job is None and not self._closed:
                    self._news.wait()
                if self._closed or self._job is None:
                    return
                job, number, self._job = self._job, self._number, None

            def check(mine: int = number) -> None:
                if self._number != mine:
                    raise Cancelled

            with catch_warnings():
                simplefilter("ignore")
                try:
                    self._work(job, check)
                except Cancelled:
                    continue
                except Exception:  # a bug: the next job may still be done
                    print_exc()


class Worker:
    """Computes the results of the newest state and puts them on the board.

    One lane learns the order and what follows from it at once. The other does what may take longer, so that a newer
    state never waits for it: effects, the comparison and plans.
    """

    def __init__(self, data: Data, board: Board) -> None:
        self._data, self._board = data, board
        self._prepared: dict[Setting, Prepared] = {}
        self._order: tuple[str, ...] | None = None
        self._target: str | None = None
        self._keys: dict[str, object] = {}
        self._learned: Learned | None = None
        self._revision = -1
        self._quick = Lane("budgetline-explore-quick", self._work)
        self._slow = Lane("budgetline-explore-slow", self._work_on)

    def work_on(self, state: State, revision: int) -> None:
        """Ask for the results of a state; work on older ones ends soon."""
        if revision > self._revision:
            self._revision = revision
            self._slow.put(None)
            self._quick.put((state, revision))

    def close(self) -> None:
        """End the threads."""
        self._slow.close()
        self._quick.close()

    # -- the quick lane ----------------------------------------------------------------------------------------

    def _work(self, job: tuple[State, int], check: Check) -> None:
        state, revision = job
        keys = keys_of(state)
        self._board.begin(revision, {name: self._keys.get(name) == keys[name] for name in PARTS})
        if state.target is None or not state.groups:
            for name in PARTS:
                self._put(name, revision, keys, {"error": None, "empty": True})
            self._order, self._learned = None, None
            self._board.end(revision)
            return
        try:
            learned = self._learn(state, revision, keys, check)
            self._fill("budget", revision, keys, partial(budget_part, learned, self._plan_of(keys)))
            self._fill("next", revision, keys, partial(next_part, learned))
        except Cancelled:
            raise
        except Exception as error:  # whatever a table does to a fit, the page goes on
            failed: Part = {"error": sentence_of(error)}
            for name in PARTS:
                more = {"preliminary": False, "steps": [], "curve": None, "training": None} if name == "order" else {}
                self._put(name, revision, {}, failed | more)
            self._learned = None
            self._board.end(revision)
            return
        self._slow.put((learned, revision))

    def _learn(self, state: State, revision: int, keys: Mapping[str, object], check: Check) -> Learned:
        """Return what was learned, and put the order on the board; nothing is learned twice in a row."""
        if self._learned is not None and self._keys.get("order") == keys["order"]:
            self._learned = replace(self._learned, state=state)
            return self._learned
        began, busy, tell = perf_counter(), thread_time(), partial(self._board.tell, revision)
        prepared = self._prepare(state, check, tell)
        before = self._order if self._target == state.target else None
        with hold_warnings() as warnings:
            show = partial(self._show, state, revision, before)
            learned = learn(prepared, state, check, tell, show)
        check()
        self._order, self._target, self._learned = learned.model.sequence.groups, state.target, learned
        notes = list(dict.fromkeys(cut(printable(text)) for text, _ in warnings))
        took = {"seconds": perf_counter() - began, "cpu_seconds": thread_time() - busy}
        part = order_part(learned, before) | took | {"warnings": notes}
        self._put("order", revision, keys, part)
        return learned

    def _show(self, state: State, revision: int, before: tuple[str, ...] | None, model: AnytimeModel) -> None:
        """Put an order on the board that is not judged yet."""
        self._board.put("order", revision, preliminary_part(model, state, before))

    def _prepare(self, state: State, check: Check, tell: Tell) -> Prepared:
        """Return what fits need; columns that were used before are kept, as they may come back."""
        setting, used = Setting.of(state), set(state.used)
        known = self._prepared.get(setting)
        if known is not None and used.issubset(known.whole.names):
            return known
        tell("reading the table", 0, 1)
        sample = self._data.read(setting.target) if known is None else known.sample
        columns = used if known is None else used.union(known.whole.names)
        found = prepare(sample, columns, setting, tell, check)
        self._prepared.pop(setting, None)
        while len(self._prepared) >= KEPT:
            del self._prepared[next(iter(self._prepared))]
        self._prepared[setting] = found
        return found

    # -- the slow lane -----------------------------------------------------------------------------------------

    def _work_on(self, job: tuple[Learned, int], check: Check) -> None:
        learned, revision = job
        state, keys, tell = learned.state, keys_of(learned.state), partial(self._board.tell, revision)
        steps: list[tuple[str, Callable[[], Part]]] = [
            ("effects", partial(effects_part, learned)),
            ("compare", partial(compare_part, learned, check, tell)),
        ]
        for name, make in steps:
            check()
            self._guarded(name, revision, keys, make)
        if state.budget is not None and self._plan_of(keys) is None:
            for seconds in PLAN_SECONDS:
                check()
                tell("searching the best set for the budget", 0, 1)
                try:
                    plan = plan_of(learned, seconds)
                    check()
                    self._known_plan = (keys["plan"], plan)
                    self._put("budget", revision, keys, budget_part(learned, plan))
                except Cancelled:
                    raise
                except Exception as error:
                    self._put("budget", revision, {}, budget_part(learned) | {"error": sentence_of(error)})
                    break
                if plan.optimal or plan.bound is None:
                    break
        self._board.end(revision)

    _known_plan: tuple[object, Plan] | None = None

    def _plan_of(self, keys: Mapping[str, object]) -> Plan | None:
        known = self._known_plan
        return known[1] if known is not None and known[0] == keys["plan"] else None

    def _guarded(self, name: str, revision: int, keys: Mapping[str, object], make: Callable[[], Part]) -> None:
        try:
            with hold_warnings():
                self._fill(name, revision, keys, make)
        except Cancelled:
            raise
        except Exception as error:
            self._put(name, revision, {}, {"error": sentence_of(error)})

    def _fill(self, name: str, revision: int, keys: Mapping[str, object], make: Callable[[], Part]) -> None:
        """Put a part on the board, unless the one that is there is right."""
        if self._keys.get(name) != keys[name]:
            self._put(name, revision, keys, make())

    def _put(self, name: str, revision: int, keys: Mapping[str, object], part: Part) -> None:
        if self._board.put(name, revision, part):
            self._keys[name] = keys.get(name, object())


def keys_of(state: State) -> dict[str, object]:
    """Return what each part of the results depends on."""
    order = (
        state.target, state.task, state.loss, state.groups, state.shared, state.start, state.encoding, state.alpha,
        state.rule, state.metric, state.unit,
    )  # fmt: skip
    return {
        "order": order,
        "budget": (order, state.budget),
        "plan": (order, state.budget),
        "next": (order, state.available),
        "effects": (order, state.budget),
        "compare": (order, state.today),
    }


def sentence_of(error: BaseException) -> str:
    """Return the message of an error as one line."""
    return cut(printable(" ".join(str(error).split()))) or type(error).__name__
