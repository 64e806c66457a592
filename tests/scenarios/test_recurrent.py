"""Recurrent agents in several processes: nothing they carry along is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.training.training import Round
from tests.runs.test_resume import go_on, train
from tests.scenarios.conftest import (
    HAUNTED,
    HUNT,
    events,
    run_through,
    session_of,
    updates_of,
)

pytestmark = pytest.mark.processes

# Episodes of 15 turns and rounds of 10: borders lie in the middle of episodes.
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
    alone: Callable[..., str], traps: Path, tmp_path: Path
) -> None:
    session = session_of(HAUNTED, tmp_path / "run", **ROOMS, workers=2)

    def lay(one: Round) -> None:
        if one.number in (2, 4):
            (traps / "game-kill").touch()

    run = run_through(session, lay)

    assert [one["role"] for one in events(run.path, "death")] == ["actor", "actor"]
    assert all(count > 0 for count in updates_of(run).values())
    assert run.digest()["run"] == alone(HAUNTED, **ROOMS)


@pytest.mark.shows("F4", "A7")
def test_a_run_resumed_in_other_processes_ends_with_the_same_bits(
    alone: Callable[..., str], tmp_path: Path
) -> None:
    settings = {**SETTINGS, "replay.kind": "prioritised"}
    run = train(tmp_path / "run", "treasurehunt", {**settings, "workers": 0}, until=3)

    go_on(run, overrides=("workers=2",))

    assert run.digest()["run"] == alone("treasurehunt", **settings)
