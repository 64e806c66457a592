"""What a process is told: plain data, from which everything is rebuilt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rookery.algorithms.agents import build_agents
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.protocol.process_spec import ProcessSpec, check_sums, file_sums, game_name
from rookery.runs.configure import configure
from tests.paths import GAME_FILES

SPEAKER = "pettingzoo:mpe2.simple_speaker_listener_v4"
AGENTS = {"1": {"algorithm": "ppo", "network": {"width": 17}}, "2": {"player": "random"}}


def brief_of(game: str, **settings: object) -> tuple[ProcessSpec, type]:
    entry, config = configure(game, settings=settings)
    agents = agents_of(entry, config)
    made = ProcessSpec(config, agents, [[0], [1]], "runs/x", [1], "worker 0", 3, True)
    return made, entry.settings


@pytest.mark.shows("A4")
@pytest.mark.parametrize(
    ("game", "settings"),
    [
        ("treasurehunt", {"agents": AGENTS, "reward.clip": 1.5, "game.turns": 17}),
        ("gathering", {"workers": 3, "rate.schedule": "cosine"}),
        (SPEAKER, {"schedule": "async", "max_lag": 5}),
    ],
    ids=["mixed", "gathering", "pettingzoo"],
)
def test_a_brief_goes_through_json_and_comes_back_the_same(
    game: str, settings: dict
) -> None:
    process_spec, known = brief_of(game, **settings)

    told = json.loads(json.dumps(process_spec.to_json()))
    found = ProcessSpec.from_json(told, known)

    assert found == replace(process_spec, agents=list(process_spec.agents))
    assert game_name(told) == game


@pytest.mark.shows("A4")
def test_a_process_rebuilds_the_same_company_from_its_brief() -> None:
    process_spec, known = brief_of("treasurehunt", agents=AGENTS)

    told = ProcessSpec.from_json(json.loads(json.dumps(process_spec.to_json())), known)
    there, here = (build_agents(one.config, one.agents) for one in (told, process_spec))

    assert there == here
    assert [m.learns for m in there] == [True, True, False]
    assert there[1].algorithm is here[1].algorithm


def test_a_worker_needs_no_games_settings() -> None:
    process_spec, _ = brief_of("treasurehunt", **{"game.turns": 17})

    found = ProcessSpec.from_json(json.loads(json.dumps(process_spec.to_json())))

    assert found.config.game.name == "treasurehunt"
    assert found.agents == list(process_spec.agents)


def test_the_files_a_run_names_are_summed_however_they_are_named(
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
def test_a_file_that_is_not_what_it_was_is_refused(
    change: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "game.py"
    path.write_text("text")
    _, config = configure("treasurehunt")
    named = config.model_copy(update={"algorithm": f"{path}:Mine"})
    sums = file_sums(named)
    check_sums(sums)

    path.unlink()
    if change:
        path.write_text(change)

    with pytest.raises(ConfigError, match=r"game\.py has changed since the run started"):
        check_sums(sums)
