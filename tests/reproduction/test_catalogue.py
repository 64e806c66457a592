"""The named results: each can be planned, and its expected value would pass."""

from __future__ import annotations

from collections import Counter

import pytest

from rookery.errors import ConfigError
from rookery.reproduction.catalogue import CATALOGUE, find_result
from rookery.reproduction.reproduce import plan_of
from tests.paths import ROOT

BY_NAME = {result.name: result for result in CATALOGUE}


def test_at_least_ten_results_take_no_longer_than_a_quarter_of_an_hour():
    assert sum(not result.is_long for result in CATALOGUE) >= 10


def test_every_name_is_used_once():
    assert Counter(result.name for result in CATALOGUE).most_common(1)[0][1] == 1


@pytest.mark.parametrize("result", CATALOGUE, ids=BY_NAME)
def test_every_result_can_be_planned(result, tmp_path):
    plan = plan_of(result, tmp_path / "sweep")

    assert len(plan.cells) == result.seeds
    assert plan.cells[0].config.game.name == result.game


@pytest.mark.parametrize("result", CATALOGUE, ids=BY_NAME)
def test_the_expected_value_is_within_the_tolerance(result):
    low, high = result.accepts

    assert low <= result.expected <= high
    assert low < high


@pytest.mark.parametrize("result", CATALOGUE, ids=BY_NAME)
def test_the_page_names_every_result(result):
    assert f"`{result.name}`" in (ROOT / "docs" / "reproduce.md").read_text()


def test_a_result_is_found_by_name():
    assert find_result("penalty-0").settings["game.penalty"] == 0.0


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown result 'penalty0': .*penalty-0"):
        find_result("penalty0")
