"""Settings: which values are accepted, for which agents, and how they are described."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.config.resolve import describe_settings, resolve
from rookery.config.run import AgentConfig, Config
from rookery.errors import ConfigError
from tests.config.mazes import Beam, Colour, Maze, resolve_overrides

# Valid settings


def test_defaults_are_filled_in() -> None:
    config = resolve_overrides()

    assert (config.seed, config.worlds, config.evaluate.episodes) == (0, 16, 100)
    assert config.game.name == "maze"
    assert config.game.settings == Maze()
    assert config.agents == {}


def test_the_settings_of_a_game_are_written_beside_its_name() -> None:
    config = resolve_overrides("game.agents=4", "game.beam.length=7", "game.size=[3, 4]")

    assert config.game.settings == Maze(agents=4, beam=Beam(length=7), size=(3, 4))


@pytest.mark.parametrize(
    ("override", "name", "value"),
    [
        ("game.regrowth=0.5", "regrowth", 0.5),
        ("game.gems=[1, 2.5]", "gems", (1.0, 2.5)),
        ("game.colour=blue", "colour", Colour.BLUE),
        ("game.folder=/tmp", "folder", Path("/tmp")),
        ("game.start=2024-02-29", "start", datetime.date(2024, 2, 29)),
        ("game.sight=3", "sight", 3),
        ("game.prices={gem = 1}", "prices", {"gem": 1.0}),
        ("game.from=home", "source", "home"),
    ],
)
def test_values_take_the_type_of_their_setting(
    override: str, name: str, value: object
) -> None:
    assert getattr(resolve_overrides(override).game.settings, name) == value


def test_from_python_ids_can_be_numbers_and_none_is_the_default() -> None:
    raw = {
        "seed": np.int64(3),
        "worlds": None,
        "game": {"name": "maze", "size": (3, 4), "colour": Colour.BLUE},
        "agents": {0: {"player": "random"}, 1: AgentConfig(player="forager")},
    }

    config = resolve(raw, Maze)

    assert (config.seed, config.worlds) == (3, 16)
    assert config.game.settings == Maze(size=(3, 4), colour=Colour.BLUE)
    assert config.agent(0) == config.agent("0") == AgentConfig(player="random")
    assert config.agent("1").player == "forager"


def test_patterns_apply_in_order_and_an_agents_own_id_last() -> None:
    config = resolve_overrides(
        "agents.hunter1.player=own",
        'agents."*".player=all',
        'agents."hunter*".player=hunters',
        "agents.hunter3={}",
    )

    assert config.agent("hunter1").player == "own"
    assert config.agent("hunter2").player == "hunters"
    assert config.agent("hunter3").player == "hunters"
    assert config.agent("prey").player == "all"


def test_an_id_that_looks_like_a_pattern_is_still_an_id() -> None:
    config = resolve_overrides('agents."a[0]".player=own', 'agents."a*".player=all')

    config.check_agents(["a[0]"])

    assert config.agent("a[0]").player == "own"


def test_agents_without_settings_have_the_defaults() -> None:
    assert resolve_overrides().agent("0") == AgentConfig()


def test_settings_that_match_no_agent_are_named() -> None:
    config = resolve_overrides("agents.hunter.player=x", 'agents."wolf*".player=x')

    with pytest.raises(ConfigError) as caught:
        config.check_agents(["hunter1", "prey"])

    assert caught.value.problems == (
        "'agents.hunter' matches no agent of 'maze': did you mean 'hunter1'?",
        "'agents.\"wolf*\"' matches no agent of 'maze': known are hunter1, prey.",
    )


def test_settings_that_match_agents_are_accepted() -> None:
    config = resolve_overrides("agents.0.player=x", 'agents."*".player=x')

    config.check_agents(["0", "1"])


# Descriptions


@pytest.mark.parametrize("row", describe_settings(Config), ids=lambda row: row.key)
def test_every_setting_is_documented(row: Any) -> None:
    assert row.description.endswith(".")


def test_settings_are_described_by_dotted_key_type_and_default() -> None:
    rows = {row.key: row for row in describe_settings(Maze, "game")}

    assert rows["game.agents"] == (
        "game.agents",
        "whole number, at least 1, at most 50",
        "3",
        "Who plays.",
    )
    assert {key: row.type for key, row in rows.items() if key != "game.agents"} == {
        "game.acting": "'simultaneous' or 'in_turn'",
        "game.regrowth": "number, above 0, below 1",
        "game.walls": "true or false",
        "game.size": "[whole number, whole number]",
        "game.gems": "[number, …], at most 9 long",
        "game.tags": "[text]",
        "game.plan": "text",
        "game.colour": "'red' or 'blue'",
        "game.start": "date",
        "game.folder": "path",
        "game.sight": "'all' or whole number, at least 0",
        "game.prices": "group of settings",
        "game.beam.length": "whole number, at least 1",
        "game.kinds.<id>.length": "whole number, at least 1",
        "game.from": "text",
    }
    assert rows["game.plan"].default == "unset"
    assert rows["game.plan"].description == "The map. A line per row."
    assert rows["game.acting"].default == '"simultaneous"'


def test_a_setting_without_default_is_described_as_required() -> None:
    rows = {row.key: row.default for row in describe_settings(Config)}

    assert rows["game.name"] == "required"
    assert rows["agents.<id>.player"] == "unset"
