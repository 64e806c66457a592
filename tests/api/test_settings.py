"""`rookery.settings`: every setting can be found before a run."""

from __future__ import annotations

import pytest

import rookery
from rookery.config.resolve import describe_settings
from rookery.config.run import Config
from rookery.errors import ConfigError


def keys(section: str | None = None) -> list[str]:
    return [row.key for group in rookery.settings(section) for row in group.rows]


def test_every_setting_is_listed_once() -> None:
    repeated = "agents.<id>."
    expected = [
        row.key
        for row in describe_settings(Config)
        if not row.key.startswith(repeated) or row.key.removeprefix(repeated) in OWN
    ]

    assert sorted(keys()) == sorted(expected)


OWN = ("player", "learning", "from")
"""Settings that only single agents have."""


def test_a_section_has_only_its_settings() -> None:
    assert keys("target") == ["target.every", "target.rate"]
    assert rookery.settings("target")[0].summary == "Target network."


def test_part_of_a_games_name_is_answered_with_the_game() -> None:
    with pytest.raises(ConfigError, match=r"Or the game 'iterated_prisoners_dilemma'\?$"):
        rookery.settings("prisoner")


def test_a_setting_an_algorithm_or_a_game_can_be_named_too() -> None:
    assert keys("discount") == ["discount"]
    assert keys("capacity") == ["replay.capacity"]
    assert keys("gamma") == ["discount"]
    assert {"dqn.double", "recurrent.width"} <= set(keys("recurrent_dqn"))
    assert "game.spawn" in keys("treasurehunt")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("replya", "did you mean 'replay'?"),
        ("qqqqqq", "(`rookery settings` lists all)."),
        ("device", "no setting is named 'device': Rookery computes on the CPU only"),
        ("n_agents", "no setting is named 'n_agents': here it is called 'game.agents'."),
    ],
)
def test_an_unknown_section_is_answered_by_the_nearest(name: str, answer: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rookery.settings(name)

    assert answer in str(caught.value)


def test_the_list_shows_itself_as_a_table() -> None:
    first, *rows = repr(rookery.settings("target")).splitlines()

    assert first == "target: Target network."
    assert rows[0].split()[:2] == ["target.every", "1"]
