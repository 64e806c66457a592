"""Agents can have any id, also that of another agent's array, or a very long one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.runs.agent_files import export_agent, read_agent
from rookery.runs.configure import configure
from rookery.runs.run import Run
from rookery.runs.session import Session
from tests.paths import GAME_FILES

CHOICES = f"{GAME_FILES / 'choices.py'}:Choices"
SMALL: dict[str, Any] = {
    "rounds": 3,
    "turns_per_round": 6,
    "worlds": 2,
    "frames": 1,
    "workers": 0,
    "updates_per_round": 1,
    "batch_size": 4,
    "replay.warmup": 4,
    "replay.capacity": 40,
    "network.width": 16,
}
SCRIPTED = {"agents": {"a": {"player": "random"}}}


def train(path: Path, **settings: Any) -> Run:
    return rookery.train(CHOICES, run=path, **(SMALL | settings))


@pytest.mark.parametrize("more", [{}, SCRIPTED], ids=["both learn", "one is scripted"])
def test_an_agents_id_can_be_that_of_another_with_a_slash(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    run = train(tmp_path / "run", **more)

    players = run.players()
    others = train(tmp_path / "alone", **more, **{"game.names": "a,x"}).players()

    assert list(players) == (["a/b"] if more else ["a", "a/b"])
    for name, like in (("a/b", "x"), ("a", "a"))[: len(players)]:
        assert players[name].named.keys() == others[like].named.keys()
        for key, array in players[name].named.items():
            assert np.array_equal(array, others[like].named[key])
    assert list(run.digest()["agents"]) == ["a", "a/b"]


@pytest.mark.parametrize("weights_only", [True, False], ids=["weights", "whole"])
@pytest.mark.parametrize("agent", ["a", "a/b"])
def test_agents_with_similar_ids_can_be_exported_and_trained_further(
    tmp_path: Path, agent: str, weights_only: bool
) -> None:
    run, file = train(tmp_path / "run"), tmp_path / "agent.safetensors"

    export_agent(run, agent, file, weights_only)
    named = run.players()[agent].named
    further = {"agents": {"a": {"from": str(file)}, "a/b": {"from": f"{run.path}:{agent}"}}}
    session = _session(tmp_path / "further", **further)

    assert read_agent(file).weights.keys() == named.keys()
    for begun in session.training.named_weights(0).values():
        assert all(np.array_equal(begun[name], named[name]) for name in named)
    session.training.close()


def _session(path: Path, **settings: Any) -> Session:
    entry, config = configure(CHOICES, settings=SMALL | settings)
    path.mkdir()
    return Session(entry, config, path)


@pytest.mark.parametrize("length", [125, 140, 5000])
def test_a_long_id_works_with_memory_on_disk(tmp_path: Path, length: int) -> None:
    names = f"{'x' * length},{'x' * (length - 1)}y"
    settings: dict[str, Any] = {"game.names": names, "storage": "disk"}

    session = _session(tmp_path / "run", **settings)

    files = [path.name for path in (tmp_path / "run" / "memory").iterdir()]
    plain = f"rows-{(b'x' * length).hex()}" in files
    assert plain is (length == 125)  # short ids keep their file names
    assert len([name for name in files if name.startswith(("rows-", "state-"))]) == 4
    session.run(lambda one: None)
    in_memory = train(tmp_path / "other", **{"game.names": names})
    run = Run(tmp_path / "run", CHOICES)
    assert run.digest()["run"] == in_memory.digest()["run"]
