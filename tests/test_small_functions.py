"""Small functions that everything else relies on: budgets, checks of numbers, text of numbers and tables."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from budgetline.budgets import affordable, rates_of, share_of_budgets
from budgetline.devices import Device
from budgetline.files import decode, encode
from budgetline.groups.prices import Prices, SharedCost
from budgetline.inputs import check_integer, check_number, number_of
from budgetline.messages import printable, shown, some
from budgetline.persistence.plain_settings import from_plain, to_plain
from budgetline.report.formatting import amount, at_least, number
from budgetline.report.report import escape
from budgetline.sequencing.candidates import nested_candidates
from budgetline.tables import rounded_down, text_table


def test_costs_that_differ_by_rounding_are_affordable():
    assert affordable(np.array([0.1, 0.1 + 0.2]), [0.0, 0.2, 0.3]).tolist() == [0, 1, 2]


def test_rates_are_compared_whatever_their_size():
    rates = rates_of(np.array([1e-50, 3e-50, 1e-50, 0.0]), np.array([2e300, 2e300, 0.0, 0.0]))
    assert np.argsort(-rates).tolist() == [2, 1, 0, 3]


def test_numbers_are_checked_by_name():
    assert check_number("fraction", 1, gt=0, le=1) == 1.0
    with pytest.raises(ValueError, match=r"^stop must be a finite cost ≥ 0, got 'all'$"):
        check_number("stop", "all", "cost", ge=0, finite=True)
    with pytest.raises(ValueError, match=r"^fraction must be a number > 0 and ≤ 1, got 2$"):
        check_number("fraction", 2, gt=0, le=1)
    with pytest.raises(ValueError, match=r"^size must be an integer ≥ 1, got True$"):
        check_integer("size", True, ge=1)
    assert number_of(2) == 2.0
    assert np.isnan([number_of(value) for value in (True, "2", 10**400)]).all()


def test_shares_of_budgets_that_pay_for_steps():
    assert share_of_budgets([0, 1], [1, 3], 4.0, "step").tolist() == [0.75, 0.25]
    assert share_of_budgets([0, 1], [1, 3], 4.0, "linear").tolist() == [0.875, 0.5]


def test_prices_of_sets_with_a_shared_cost_and_a_requirement():
    prices = Prices(np.array([3.0, 4.0, 0.0]), (SharedCost("draw", 2.0, (0, 1)),), ((), (), (0, 1)))
    assert prices.marginal(np.array([False, False, False])).tolist() == [5.0, 6.0, 9.0]
    assert prices.marginal(np.array([True, False, False])).tolist() == [0.0, 4.0, 4.0]
    assert (prices.steps([1, 0, 2]).tolist(), prices.total) == ([6.0, 3.0, 0.0], 9.0)


def test_singles_along_a_chain_are_nested():
    assert nested_candidates([3, 5, 8, 9], {8: [3, 5, 8], 9: [3, 5, 8, 9]}) == ([8, 9], [[3, 5, 8], [9]])


def test_values_in_messages():
    assert [shown("chol"), shown(1.5), shown({"a": (1,)})] == ["'chol'", "1.5", "{'a': (1,)}"]
    assert shown(list(range(10**6)), most=10) == "[0, 1, 2,…"
    assert some(["chol", "fbs", "age"], most=2) == "'chol', 'fbs', …"
    assert printable("blood\x1b[2J") == r"blood\x1b[2J"


def test_numbers_as_text():
    assert [amount(323.97), amount(4.0), amount(1234567.0)] == ["323.97", "4", "1234570"]
    styles = [(-0.1234, "percent"), (-1e-9, "fixed"), (1234567.0, "general"), (None, "fixed")]
    assert [number(*given) for given in styles] == ["−12.3 %", "0.000", "1235000", "–"]
    assert [rounded_down(0.97799), rounded_down(0.99999999)] == [0.977, 1.0]
    assert [at_least(0.97799), at_least(0.978), at_least(1.0)] == ["97.7 %", "97.8 %", "100.0 %"]
    assert escape("blood_fbs | <b>") == r"blood\_fbs \| \<b\>"


def test_a_table_as_text():
    table = text_table(["group", "cost"], [["blood", "10.37"], ["age", "1"]], left={0})
    assert table == "group   cost\nblood  10.37\nage        1"


def test_plain_forms():
    assert to_plain({1: (0.5, float("inf"))}) == {"dict": [[1, {"tuple": [0.5, {"float": "inf"}]}]]}
    assert from_plain(to_plain({1: (0.5, float("inf"))}), "value") == {1: (0.5, float("inf"))}
    arrays, fields = decode(encode("example", {"a": np.eye(2)}, {"n": 3}), "example")
    assert (arrays["a"].shape, fields) == ((2, 2), {"n": 3})


@pytest.mark.parametrize("enabled", [False, True])
def test_jax_has_doubles_only_if_it_is_told_to(enabled, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=SimpleNamespace(jax_enable_x64=enabled)))
    assert Device(ModuleType("jax.numpy"), "cpu:0").double is enabled
