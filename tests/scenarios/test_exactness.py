"""The same seed gives the same bits; agents are independent of each other's algorithms."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import rookery
from tests.paths import GAME_FILES
from tests.small import SMALL

CASES = {
    "treasurehunt": ("treasurehunt", {}),
    "sync": ("treasurehunt", {"schedule": "sync"}),
    "odd widths, noisy, prioritised": (
        "treasurehunt",
        {
            "network.width": 13,
            "network.quantiles": 5,
            "iqn.noisy": True,
            "replay.kind": "prioritised",
        },
    ),
    "mixed agents": (
        "treasurehunt",
        {"agents": {1: {"algorithm": "ppo"}, 2: {"player": "forager"}}},
    ),
    "in turn": ("treasurehunt", {"game.acting": "in_turn"}),
    "agents that are out": ("gathering", {}),
    "different histories": (
        "iterated_chicken",
        {"game.history": (1, 3), "game.stop": 0.1},
    ),
    "different shapes": ("pettingzoo:mpe2.simple_tag_v3", {}),
    "masks": ("pettingzoo:pettingzoo.classic.tictactoe_v3", {"discount_per": "step"}),
}


def digests(folder: Path, game: str, /, **settings: object) -> dict[str, str]:
    """Return the digest of each agent of a run."""
    return rookery.train(game, run=folder, **{**SMALL, **settings}).digest()["agents"]


@pytest.mark.shows("D8")
@pytest.mark.parametrize(("game", "settings"), CASES.values(), ids=CASES.keys())
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(
    game: str, settings: dict, tmp_path: Path
) -> None:
    first = digests(tmp_path / "a", game, **settings)
    second = digests(tmp_path / "b", game, **settings)
    other = digests(tmp_path / "c", game, **settings, seed=1)

    assert first == second
    assert all(first[agent] != other[agent] for agent in first)


def test_agents_make_updates(tmp_path: Path) -> None:
    run = rookery.train("treasurehunt", run=tmp_path / "run", **SMALL)

    updates = run.metrics().groupby("agent")["updates"].sum()

    assert (updates == 15).all()  # three in each round but the first, which has no data yet


def test_earlier_computations_with_torch_change_nothing(tmp_path: Path) -> None:
    first = digests(tmp_path / "a", "treasurehunt")
    torch.manual_seed(7)
    np.random.seed(7)
    torch.randn(300, 300) @ torch.randn(300, 300)

    assert digests(tmp_path / "b", "treasurehunt") == first


@pytest.mark.processes
def test_load_from_another_process_changes_nothing(tmp_path: Path) -> None:
    first = digests(tmp_path / "a", "treasurehunt")
    busy = "import numpy as np\nwhile True: np.ones((400, 400)) @ np.ones((400, 400))"
    loads = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2)]
    try:
        assert digests(tmp_path / "b", "treasurehunt") == first
    finally:
        for load in loads:
            load.kill()
            load.wait()


@pytest.mark.shows("A1", "A2")
def test_another_agents_algorithm_does_not_change_an_agent_with_the_same_experience(
    tmp_path: Path,
) -> None:
    """Agents in separate rooms cannot meet, so experience is equal."""
    rooms = f"{GAME_FILES / 'rooms.py'}:Rooms"
    two_agents = {"game.agents": 2}
    changes = {"algorithm": "ppo", "learning_rate": 0.01, "discount": 0.5, "n_step": 1}

    plain = digests(tmp_path / "a", rooms, **two_agents)
    changed = digests(tmp_path / "b", rooms, **two_agents, agents={1: changes})

    assert plain["0"] == changed["0"]
    assert plain["1"] != changed["1"]


@pytest.mark.shows("E5")
def test_agents_can_be_given_more_or_less_training(tmp_path: Path) -> None:
    settings = {**SMALL, "agents": {0: {"updates_per_round": 2}, 1: {"learning": False}}}
    run = rookery.train("treasurehunt", run=tmp_path / "run", **settings)

    updates = run.metrics().groupby("agent")["updates"].sum()

    assert updates["0"] == 10
    assert updates["1"] == 0
    assert updates["2"] == 15


def test_a_frozen_agent_keeps_its_weights(tmp_path: Path) -> None:
    settings = {**SMALL, "agents": {1: {"learning": False}}}
    settings |= {"checkpoints.weights_every_rounds": 1}
    run = rookery.train("treasurehunt", run=tmp_path / "run", **settings)

    first, last = run.players(1), run.players(6)

    assert (first[1].weights == last[1].weights).all()
    assert (first[0].weights != last[0].weights).any()


def test_an_agent_can_start_from_another_run(tmp_path: Path) -> None:
    first = rookery.train("treasurehunt", run=tmp_path / "first", **SMALL)
    origin = {0: {"from": f"{tmp_path / 'first'}:2@6", "learning": False}}

    second = rookery.train("treasurehunt", run=tmp_path / "second", **SMALL, agents=origin)

    assert (second.players()[0].weights == first.players()[2].weights).all()
