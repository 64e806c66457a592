"""PettingZoo and Gymnasium games in several processes: killed, or breaking the contract."""

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
from tests.scenarios.conftest import FILES, events, run_through, session_of, wait_for
from tests.small import SMALL

pytestmark = pytest.mark.processes

FAULTY = f"gymnasium:{FILES / 'foreign.py'}:Faulty"
LATE_AGENT = f"pettingzoo:{FILES / 'foreign.py'}:late_agent"
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
    case: str, tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    game, own_settings = CASES[case]
    settings = {**SMALL, **own_settings}
    session = session_of(game, tmp_path / "run", **settings, workers=2)

    def kill(result: Round) -> None:
        pool = session.training.executor.now
        assert isinstance(pool, ProcessPool)
        if result.number == 3:
            os.kill(wait_for(lambda: pool.supervisor.processes()["actor"]), signal.SIGKILL)

    run = run_through(session, kill)

    assert [event["role"] for event in events(run.path, "death")] == ["actor"]
    assert run.digest()["run"] == reference_digest(game, **settings)
    assert run.digest()["exact"]


FAULTS = {
    "raise": (FAULTY, "raised in step() in world 0: ValueError: no more sand (foreign"),
    "shape": (
        FAULTY,
        "in world 0 is (1,) float32, but its space says (2,) float32: make",
    ),
    "nan": (FAULTY, "gave agent '0' nan in part 'vector' of world"),
    "reward": (FAULTY, "world 0: the reward of agent '1' is 'much': return a number."),
    "agents": (FAULTY, "world 0: the game returned 3 rewards for 2 agents: return a list"),
    "late agent": (
        LATE_AGENT,
        "world 0: agent 'carl' appeared: `possible_agents` has only ann, bob.",
    ),
}


def failure_of(fault: str, folder: Path, workers: int) -> tuple[str, dict[str, Any]]:
    """Return the error of a run whose game has a fault, and the recorded failure."""
    game, _ = FAULTS[fault]
    settings = {**SMALL, "workers": workers}
    if game == FAULTY:
        settings["game.fault"] = fault
    with pytest.raises(GameError) as caught:
        rookery.train(game, run=folder, **settings)
    role = "actor" if workers else "main"
    (record,) = (folder / "failures").glob(f"{role}*")
    return str(caught.value), json.loads(record.read_text())


@pytest.mark.shows("B8", "F6")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_game_ends_the_run_with_one_line_and_a_traceback(
    fault: str, tmp_path: Path
) -> None:
    line, record = failure_of(fault, tmp_path / "run", workers=0)

    assert FAULTS[fault][1] in line
    assert "\n" not in line
    assert "Traceback (most recent call last)" in record["traceback"]
    assert "games/" in record["traceback"]


def test_a_game_that_raises_in_the_actor_gives_the_same_line_and_its_own_traceback(
    tmp_path: Path,
) -> None:
    here, _ = failure_of("raise", tmp_path / "here", workers=0)
    there, record = failure_of("raise", tmp_path / "there", workers=1)

    assert there == here
    assert "_fail" in record["traceback"]
    assert "ValueError: no more sand" in record["traceback"]


@pytest.mark.shows("F3")
def test_a_game_that_hangs_ends_the_run_with_one_line_that_says_where(
    tmp_path: Path,
) -> None:
    patience = {"restarts.silence": 1.0, "restarts.limit": 1, "workers": 1}
    session = session_of(
        FAULTY, tmp_path / "run", **SMALL, **patience, **{"game.fault": "hang"}
    )

    with pytest.raises(ProcessFailed) as failed:
        session.run(lambda _: None)

    assert "the actor died 2 times in a row" in str(failed.value)
    assert "it gave no sign of life for" in str(failed.value)
    silent = events(session.folder, "silent")
    assert "foreign.py" in json.dumps(silent[-1])
