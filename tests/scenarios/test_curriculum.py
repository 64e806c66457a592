"""A curriculum depends only on the number of the round."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import rookery
from rookery.stop import StopFlag, Stopped
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import FILES, events, run_through, session_of
from tests.small import SMALL

CURRICULUM = f"{FILES / 'curriculum.py'}:Curriculum"
SETTINGS = {**SMALL, "game.agents": 2, "game.turns": 15}


def test_each_round_is_played_by_its_own_rules(tmp_path: Path) -> None:
    run = rookery.train(CURRICULUM, run=tmp_path / "run", **SETTINGS, workers=0)

    wages = run.metrics().query("agent == '0'")["reward"].tolist()
    # One of the 16 turns of an episode only closes it, and no agent acts in it.
    highest = [0.02 * number for number in range(1, 7)]
    assert all(
        0.85 * high < wage <= high + 1e-6 for wage, high in zip(wages, highest, strict=True)
    )


def test_another_curriculum_gives_other_bits(reference_digest: Callable[..., str]) -> None:
    steeper = {**SETTINGS, "game.slope": 0.03}

    assert reference_digest(CURRICULUM, **SETTINGS) != reference_digest(
        CURRICULUM, **steeper
    )


def test_a_resumed_run_continues_its_curriculum(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    session = session_of(CURRICULUM, tmp_path / "run", **SETTINGS, workers=0)
    stop = session.training.parts.stop
    assert isinstance(stop, StopFlag)

    def request_stop(result: Round) -> None:
        stop.signal = signal.SIGTERM if result.number == 3 else None

    with pytest.raises(Stopped):
        session.run(request_stop)
    run = rookery.resume(session.folder, CURRICULUM)

    assert run.digest()["run"] == reference_digest(CURRICULUM, **SETTINGS)


@pytest.mark.processes
def test_a_restarted_actor_continues_its_curriculum(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    session = session_of(CURRICULUM, tmp_path / "run", **SETTINGS, workers=2)

    def kill(result: Round) -> None:
        pool = session.training.executor.now
        if result.number == 2:
            assert isinstance(pool, ProcessPool)
            os.kill(pool.supervisor.processes()["actor"], signal.SIGKILL)

    run = run_through(session, kill)

    assert [event["role"] for event in events(run.path, "death")] == ["actor"]
    assert run.digest()["run"] == reference_digest(CURRICULUM, **SETTINGS)


def test_evaluations_play_the_round_that_the_agents_have_reached(tmp_path: Path) -> None:
    settings = {**SETTINGS, "evaluate.every_rounds": 2}

    run = rookery.train(CURRICULUM, run=tmp_path / "run", **settings, workers=0)

    mean = run.evaluations().groupby("round")["mean"].mean()
    assert mean.to_dict() == pytest.approx({k: 15 * 0.02 * k for k in (2, 4, 6)})
