"""The board: parts that are right for a newer state stay, those of an older one are dropped."""

import asyncio
import json

from budgetline.explore.board import PARTS, Board


def keys(**changed):
    return {name: changed.get(name, "a") for name in PARTS}


def news(board, after=0):
    return json.loads(board.news(after))


def test_parts_are_kept_for_states_of_the_same_key():
    board = Board()
    assert news(board)["revision"] == -1
    board.begin(1, keys())
    board.put("order", 1, "a", {"text": "first"})
    board.put("compare", 1, None, {"text": "for this state only"})
    assert {name for name, right in news(board)["current"].items() if right} == {"order", "compare"}
    board.begin(2, keys(next="b"))
    assert {name for name, right in news(board)["current"].items() if right} == {"order"}
    assert board.has("order", "a")
    assert not board.has("compare", "a")
    board.begin(3, keys(order="b"))
    assert not any(news(board)["current"].values())
    board.put("order", 2, "a", {"text": "too late"})
    assert news(board)["parts"]["order"]["text"] == "first"
    assert not news(board)["current"]["order"]


def test_answers_hold_what_is_newer_and_requests_wait_for_it():
    board = Board()
    board.begin(1, keys())
    board.put("order", 1, "a", {})
    serial = news(board)["serial"]
    assert news(board, serial)["parts"] == {}

    async def wait():
        waiting = asyncio.create_task(board.wait(serial, 30))
        await asyncio.sleep(0)
        await asyncio.to_thread(board.put, "next", 1, "a", {})
        return json.loads(await waiting)

    found = asyncio.run(wait())
    assert list(found["parts"]) == ["next"]
    board.end(1)
    assert not json.loads(asyncio.run(board.wait(serial, 30)))["computing"]
