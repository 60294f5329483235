"""The worker: one thread that computes for the newest state, and drops work on older ones."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread

from budgetline.explore.board import Board
from budgetline.explore.state import State
from budgetline.explore.table import Data


class Cancelled(Exception):
    """There is a newer state: the work on this one is not needed any more."""


class Worker:
    """Computes the results of the newest state, in a thread of its own, and puts them on the board."""

    def __init__(self, data: Data, board: Board) -> None:
        self._data, self._board = data, board
        self._news = Condition()
        self._wanted: tuple[State, int] | None = None
        self._newest = -1
        self._closed = False
        self._thread = Thread(target=self._run, name="budgetline-explore", daemon=True)
        self._thread.start()

    def work_on(self, state: State, revision: int) -> None:
        """Ask for the results of a state; work on older ones ends soon."""
        with self._news:
            if revision <= self._newest:
                return
            self._wanted, self._newest = (state, revision), revision
            self._news.notify()

    def close(self) -> None:
        """End the thread."""
        with self._news:
            self._closed = True
            self._newest += 1
            self._news.notify()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while True:
            with self._news:
                while self._wanted is None and not self._closed:
                    self._news.wait()
                if self._closed or self._wanted is None:
                    return
                (state, revision), self._wanted = self._wanted, None
            self._board.begin(revision, {})
            self._board.end(revision)

    def _check(self, revision: int) -> Callable[[], None]:
        def check() -> None:
            if self._newest > revision:
                raise Cancelled

        return check
