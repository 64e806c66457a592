"""Foreign games in several processes: the same bits after a kill; and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import GameError
from rookery.supervisor.supervisor import ProcessFailed
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.paths import GAME_FILES as GAMES
from tests.scenarios.conftest import (
    FILES,
    SMALL,
    events,
    run_through,
    session_of,
    wait_for,
)

pytestmark = pytest.mark.processes

TROUBLED = f"gymnasium:{FILES / 'troubled.py'}:Troubled"
GUESTS = f"pettingzoo:{FILES / 'troubled.py'}:guests"
FORAGING = "gymnasium:lbforaging/Foraging-8x8-2p-2f-coop-v3"

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lists, summed rewards": (FORAGING, {"game.reward": "sum"}),
    "copies of an image": (
        f"gymnasium:{GAMES / 'gym.py'}:Lights",
        {"game.copies": 2, "network.channels": 16},
    ),
    "masks, in changing order": (
        f"pettingzoo:{GAMES / 'zoo.py'}:duel",
        {"discount_per": "step"},
    ),
}


@pytest.mark.shows("A7", "H3")
@pytest.mark.parametrize("case", CASES)
def test_foreign_games_give_the_same_bits_with_a_killed_actor_and_two_workers(
    case: str, tmp_path: Path, alone: Callable[..., str]
) -> None:
    game, more = CASES[case]
    settings = {**SMALL, **more}
    session = session_of(game, tmp_path / "run", **settings, workers=2)

    def kill(one: Round) -> None:
        pool = session.training.executor.now
        assert isinstance(pool, ProcessPool)
        if one.number == 3:
            os.kill(wait_for(lambda: pool.supervisor.processes()["actor"]), signal.SIGKILL)

    run = run_through(session, kill)

    assert [one["role"] for one in events(run.path, "death")] == ["actor"]
    assert run.digest()["run"] == alone(game, **settings)
    assert run.digest()["exact"]


TROUBLES = {
    "raise": (TROUBLED, "raised in step() in world 0: ValueError: no more sand (troubled"),
    "shape": (
        TROUBLED,
        "in world 0 is (1,) float32, but its space says (2,) float32: make",
    ),
    "nan": (TROUBLED, "gave agent '0' nan in part 'vector' of world"),
    "reward": (TROUBLED, "world 0: the reward of agent '1' is 'much': return a number."),
    "agents": (
        TROUBLED,
        "world 0: the game returned 3 rewards for 2 agents: return a list",
    ),
    "guest": (
        GUESTS,
        "world 0: agent 'carl' appeared: `possible_agents` has only ann, bob.",
    ),
}


def trouble_of(trouble: str, folder: Path, workers: int) -> tuple[str, dict[str, Any]]:
    """Return the line that a run in which a game goes wrong ends with, and its record."""
    game, _ = TROUBLES[trouble]
    settings = {**SMALL, "workers": workers}
    if game == TROUBLED:
        settings["game.trouble"] = trouble
    with pytest.raises(GameError) as caught:
        rookery.train(game, run=folder, **settings)
    role = "actor" if workers else "main"
    (record,) = (folder / "failures").glob(f"{role}*")
    return str(caught.value), json.loads(record.read_text())


@pytest.mark.shows("B8", "F6")
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_game_that_goes_wrong_ends_the_run_with_one_line_and_a_traceback(
    trouble: str, tmp_path: Path
) -> None:
    line, record = trouble_of(trouble, tmp_path / "run", workers=0)

    assert TROUBLES[trouble][1] in line
    assert "\n" not in line
    assert "Traceback (most recent call last)" in record["traceback"]
    assert "games/" in record["traceback"]


def test_a_game_that_raises_in_the_actor_says_the_same_and_leaves_its_own_traceback(
    tmp_path: Path,
) -> None:
    here, _ = trouble_of("raise", tmp_path / "here", workers=0)
    there, record = trouble_of("raise", tmp_path / "there", workers=1)

    assert there == here
    assert "_break_down" in record["traceback"]
    assert "ValueError: no more sand" in record["traceback"]


@pytest.mark.shows("F3")
def test_a_game_that_hangs_ends_the_run_with_one_line_and_where_it_hung(
    tmp_path: Path,
) -> None:
    patience = {"restarts.silence": 1.0, "restarts.limit": 1, "workers": 1}
    session = session_of(
        TROUBLED, tmp_path / "run", **SMALL, **patience, **{"game.trouble": "hang"}
    )

    with pytest.raises(ProcessFailed) as failed:
        session.run(lambda one: None)

    assert "the actor died 2 times in a row" in str(failed.value)
    assert "it gave no sign of life for" in str(failed.value)
    silent = events(session.folder, "silent")
    assert "troubled.py" in json.dumps(silent[-1])
