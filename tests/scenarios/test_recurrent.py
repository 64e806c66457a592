"""Recurrent agents in several processes: no hidden state is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.training.training import Round
from tests.runs.test_resume import resume, train
from tests.scenarios.conftest import (
    FAULTY_GAME,
    events,
    run_through,
    session_of,
    updates_of,
)
from tests.small import HUNT

pytestmark = pytest.mark.processes

# Episodes of 15 turns and rounds of 10: boundaries are in the middle of episodes.
SETTINGS = {
    **HUNT,
    "frames": 1,
    "n_step": 2,
    "recurrent.width": 32,
    "recurrent.sequence": 6,
    "recurrent.burn_in": 2,
    "algorithm": "recurrent_dqn",
    "agents": {"1": {"algorithm": "recurrent_ppo"}},
}
ROOMS = {**SETTINGS, "game.agents": 2}


@pytest.mark.shows("B2", "A7")
def test_an_actor_killed_in_the_middle_of_an_episode_changes_no_bit(
    reference_digest: Callable[..., str], faults: Path, tmp_path: Path
) -> None:
    session = session_of(FAULTY_GAME, tmp_path / "run", **ROOMS, workers=2)

    def request_fault(result: Round) -> None:
        if result.number in (2, 4):
            (faults / "game-kill").touch()

    run = run_through(session, request_fault)

    assert [event["role"] for event in events(run.path, "death")] == ["actor", "actor"]
    assert all(count > 0 for count in updates_of(run).values())
    assert run.digest()["run"] == reference_digest(FAULTY_GAME, **ROOMS)


@pytest.mark.shows("F4", "A7")
def test_a_run_resumed_in_other_processes_ends_with_the_same_bits(
    reference_digest: Callable[..., str], tmp_path: Path
) -> None:
    settings = {**SETTINGS, "replay.kind": "prioritised"}
    run = train(tmp_path / "run", "treasurehunt", {**settings, "workers": 0}, until=3)

    resume(run, overrides=("workers=2",))

    assert run.digest()["run"] == reference_digest("treasurehunt", **settings)
