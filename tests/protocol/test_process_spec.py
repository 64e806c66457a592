"""What a process is started with: plain data, from which everything is rebuilt."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ConfigDict, Field

from rookery.algorithms.agents import build_agents
from rookery.config.base import Settings
from rookery.config.resolve import resolve
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.protocol.process_spec import ProcessSpec, SharedAgent, game_name
from rookery.protocol.user_files import check_sums, file_sums
from rookery.runs.configure import configure
from tests.paths import GAME_FILES

SPEAKER = "pettingzoo:mpe2.simple_speaker_listener_v4"
AGENTS = {"1": {"algorithm": "ppo", "network": {"width": 17}}, "2": {"player": "random"}}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NUMBERS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
TIMES = (st.datetimes() | st.times()).map(lambda time: time.replace(fold=0))
VALUES = st.recursive(
    NUMBERS | TEXT | st.dates() | TIMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


class Undeclared(Settings):
    """A game's settings, with any others besides."""

    model_config = ConfigDict(extra="allow")


class Colour(Enum):
    RED = "red"


class Corner(Settings):
    distance: float = 0.1
    colour: Colour = Colour.RED


class Typed(Settings):
    start: datetime.date = datetime.date(2024, 2, 29)
    pair: tuple[int, float] = (1, 0.1)
    numbers: frozenset[int] = frozenset({3, 1})
    colour: Colour = Colour.RED
    corner: Corner = Corner()
    corners: dict[str, Corner] = {}
    step: float = Field(default=1e-3, alias="from")
    nothing: int | None = None


def spec_of(game: str, **overrides: object) -> tuple[ProcessSpec, type[Settings]]:
    entry, config = configure(game, settings=overrides)
    agents = agents_of(entry, config)
    spec = ProcessSpec(config, agents, [[0], [1]], "runs/x", [1], "worker 0", 3, True)
    return replace(spec, shared=[SharedAgent(0, 2, 1)]), entry.settings


def through_json(
    spec: ProcessSpec, game_settings: type[Settings] | None = None
) -> ProcessSpec:
    """Return a process spec as another process receives it."""
    return ProcessSpec.from_json(json.loads(json.dumps(spec.to_json())), game_settings)


def settings_through_json(declared: type[Settings], values: dict[str, Any]) -> Settings:
    """Check that a game's settings arrive unchanged, and return them."""
    config = resolve({"game": {"name": "x", **values}}, declared)

    received = through_json(ProcessSpec(config, [], [], "")).config
    with_settings = through_json(ProcessSpec(config, [], [], ""), declared).config

    assert received.game.name == "x"
    assert with_settings == config
    return with_settings.game.settings


@pytest.mark.shows("A4")
@pytest.mark.parametrize(
    ("game", "overrides"),
    [
        ("treasurehunt", {"agents": AGENTS, "reward.clip": 1.5, "game.turns": 17}),
        ("gathering", {"workers": 3, "rate.schedule": "cosine"}),
        (SPEAKER, {"schedule": "async", "max_lag": 5}),
    ],
    ids=["mixed", "gathering", "pettingzoo"],
)
def test_a_process_spec_goes_through_json_unchanged(game: str, overrides: dict) -> None:
    spec, game_settings = spec_of(game, **overrides)

    received = through_json(spec, game_settings)

    assert received == replace(spec, agents=list(spec.agents))
    assert game_name(spec.to_json()) == game


@pytest.mark.shows("A4")
def test_a_process_rebuilds_the_same_agents_from_its_spec() -> None:
    spec, game_settings = spec_of("treasurehunt", agents=AGENTS)

    received = through_json(spec, game_settings)
    rebuilt, agents = (build_agents(one.config, one.agents) for one in (received, spec))

    assert rebuilt == agents
    assert [agent.learns for agent in rebuilt] == [True, True, False]
    assert rebuilt[1].algorithm is agents[1].algorithm


def test_an_agents_defaults_do_not_override_patterns() -> None:
    agents = {"*": {"discount": 0.5, "network": {"width": 33}}, "1": {"n_step": 2}}
    spec, game_settings = spec_of("treasurehunt", agents=agents)

    received = through_json(spec, game_settings).config

    assert received.agent("1") == spec.config.agent("1")
    assert (received.agent("1").discount, received.agent("1").network.width) == (0.5, 33)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.0, 1.0), st.floats(1e-300, 1e300))
def test_floats_arrive_with_every_bit(discount: float, scale: float) -> None:
    tree = {"game": {"name": "x"}, "discount": discount, "reward": {"scale": scale}}
    config = resolve(tree, Settings)

    received = through_json(ProcessSpec(config, [], [], "")).config

    assert received.discount.hex() == discount.hex()
    assert received.reward.scale.hex() == scale.hex()


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(TEXT.filter(lambda key: key != "name"), VALUES, max_size=4))
def test_settings_that_a_game_did_not_declare_arrive_with_value_and_type(
    options: dict[str, Any],
) -> None:
    received = settings_through_json(Undeclared, options)

    assert repr(received.model_extra) == repr(options)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"start": datetime.date(1, 1, 1), "pair": [2, 1e-320], "numbers": [5, 2]},
        {"colour": "red", "corner": {"distance": 2.5}, "nothing": 7, "from": -0.0},
        {"corners": {"a.b": {"distance": 1e22}, "": {}}},
    ],
    ids=["defaults", "dates and lists", "groups", "groups by name"],
)
def test_settings_that_a_game_declares_arrive_unchanged(values: dict[str, Any]) -> None:
    received = settings_through_json(Typed, values)

    assert repr(received) == repr(Typed.model_validate(values))


def test_a_default_that_main_has_computed_arrives_as_main_computed_it() -> None:
    calls: list[int] = []

    class Counted(Settings):
        number: int = Field(default_factory=lambda: calls.append(1) or len(calls))

    config = resolve({"game": {"name": "x"}}, Counted)
    number = config.game.settings.number

    received = through_json(ProcessSpec(config, [], [], ""), Counted)

    assert received.config.game.settings.number == number


def test_a_worker_does_not_need_the_games_settings() -> None:
    spec, _ = spec_of("treasurehunt", **{"game.turns": 17})

    received = through_json(spec)

    assert received.config.game.name == "treasurehunt"
    assert received.agents == list(spec.agents)


def test_the_files_of_a_run_are_summed_however_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = GAME_FILES / "rooms.py"
    (tmp_path / "rooms.py").write_text(rooms.read_text())
    monkeypatch.chdir(tmp_path)

    for name in ("rooms.py:Rooms", "./rooms.py:Rooms"):
        _, config = configure(name, settings={"game.agents": 2})
        assert list(file_sums(config)) == [str(tmp_path / "rooms.py")]
    _, config = configure("treasurehunt")
    assert file_sums(config) == {}


@pytest.mark.parametrize("change", ["other text", None], ids=["changed", "gone"])
def test_a_file_that_has_changed_is_refused(change: str | None, tmp_path: Path) -> None:
    path = tmp_path / "game.py"
    path.write_text("text")
    spec, game_settings = spec_of("treasurehunt")
    config = spec.config.model_copy(update={"algorithm": f"{path}:Mine"})
    sums = file_sums(config)
    check_sums(sums)
    data = replace(spec, sums=sums).to_json()
    ProcessSpec.from_json(data, game_settings)

    path.unlink()
    if change:
        path.write_text(change)

    with pytest.raises(ConfigError, match=r"game\.py has changed since the run started"):
        check_sums(sums)
    with pytest.raises(ConfigError, match=r"game\.py has changed since the run started"):
        ProcessSpec.from_json(data, game_settings)
