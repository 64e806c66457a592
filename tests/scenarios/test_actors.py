"""Several actor processes: killed at any moment, changed on resume, and the same bits."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import events, run_through, session_of
from tests.small import HUNT, SMALL

pytestmark = pytest.mark.processes

SPREAD = "pettingzoo:mpe2.simple_spread_v3"
CASES: dict[str, tuple[str, dict[str, Any], int, int, dict[int, list[str]]]] = {
    "iqn, 3 actors, 2 workers": (
        "treasurehunt",
        {**HUNT, "worlds": 13, "rounds": 8},
        3,
        2,
        {2: ["actor 0"], 5: ["actor 1", "actor 2"]},
    ),
    "foreign, ppo, sync, 2 actors, 1 worker": (
        SPREAD,
        {**SMALL, "worlds": 8, "algorithm": "ppo", "schedule": "sync"},
        2,
        1,
        {2: ["actor 1"], 4: ["actor 0", "worker 0"]},
    ),
}


@pytest.mark.shows("B2", "A7", "C5")
@pytest.mark.parametrize("case", CASES)
def test_actors_that_are_killed_at_any_moment_do_not_change_a_bit(
    case: str, tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    game, settings, actors, workers, kills = CASES[case]
    session = session_of(game, tmp_path / "run", **settings, actors=actors, workers=workers)
    moments = random.Random(case)
    timers: list[threading.Timer] = []

    def disturb(result: Round) -> None:
        for timer in timers:  # the run does not end before all are killed
            timer.join()
        pool = session.training.executor.now
        assert isinstance(pool, ProcessPool)
        for role in kills.get(result.number, []):
            pid = pool.supervisor.processes()[role]
            moment = moments.uniform(0, 0.03)
            timers.append(threading.Timer(moment, os.kill, [pid, signal.SIGKILL]))
            timers[-1].start()

    run = run_through(session, disturb)

    died = [event["role"] for event in events(run.path, "death")]
    assert sorted(died) == sorted(role for roles in kills.values() for role in roles)
    assert run.digest()["run"] == reference_digest(game, **settings)
    roles = {event["role"] for event in events(run.path, "start")} - {"main"}
    assert roles == {
        *(f"actor {i}" for i in range(actors)),
        *(f"worker {i}" for i in range(workers)),
    }


@pytest.mark.shows("C5")
def test_a_run_resumed_with_another_number_of_actors_has_the_same_bits(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    settings = {**HUNT, "worlds": 12, "rate.schedule": "constant"}
    folder = tmp_path / "run"
    rookery.train(
        "treasurehunt", run=folder, **settings | {"rounds": 2}, actors=3, workers=1
    )
    rookery.resume(folder, rounds=4, actors=2, workers=0)
    run = rookery.resume(folder, rounds=6, actors=1)

    assert run.digest()["run"] == reference_digest("treasurehunt", **settings)
    assert events(folder, "inexact") == []
