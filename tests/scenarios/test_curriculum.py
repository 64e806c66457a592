"""A curriculum is a function of the round's number: whoever plays it, and when."""

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
from tests.scenarios.conftest import FILES, SMALL, events, run_through, session_of

SCHOOL = f"{FILES / 'school.py'}:School"
SETTINGS = {**SMALL, "game.agents": 2, "game.turns": 15}


def test_each_round_is_played_by_its_own_rules(tmp_path: Path) -> None:
    run = rookery.train(SCHOOL, run=tmp_path / "run", **SETTINGS, workers=0)

    wages = run.metrics().query("agent == '0'")["reward"].tolist()
    # One of 16 turns of an episode is its closing, and nobody acts in it.
    expected = [0.02 * number for number in range(1, 7)]
    assert all(
        0.85 * high < wage <= high + 1e-6
        for wage, high in zip(wages, expected, strict=True)
    )


def test_another_curriculum_gives_other_bits(alone: Callable[..., str]) -> None:
    steeper = {**SETTINGS, "game.steep": 0.03}

    assert alone(SCHOOL, **SETTINGS) != alone(SCHOOL, **steeper)


def test_a_run_that_goes_on_is_where_it_was_in_its_curriculum(
    tmp_path: Path, alone: Callable[..., str]
) -> None:
    session = session_of(SCHOOL, tmp_path / "run", **SETTINGS, workers=0)
    stop = session.training.parts.stop
    assert isinstance(stop, StopFlag)

    def ask(one: Round) -> None:
        stop.signal = signal.SIGTERM if one.number == 3 else None

    with pytest.raises(Stopped):
        session.run(ask)
    run = rookery.resume(session.folder, SCHOOL)

    assert run.digest()["run"] == alone(SCHOOL, **SETTINGS)


@pytest.mark.processes
def test_a_killed_actor_is_where_it_was_in_its_curriculum(
    tmp_path: Path, alone: Callable[..., str]
) -> None:
    session = session_of(SCHOOL, tmp_path / "run", **SETTINGS, workers=2)

    def kill(one: Round) -> None:
        pool = session.training.executor.now
        if one.number == 2:
            assert isinstance(pool, ProcessPool)
            os.kill(pool.supervisor.processes()["actor"], signal.SIGKILL)

    run = run_through(session, kill)

    assert [one["role"] for one in events(run.path, "death")] == ["actor"]
    assert run.digest()["run"] == alone(SCHOOL, **SETTINGS)


def test_evaluations_play_the_round_that_the_agents_have_come_to(tmp_path: Path) -> None:
    settings = {**SETTINGS, "evaluate.every_rounds": 2}

    run = rookery.train(SCHOOL, run=tmp_path / "run", **settings, workers=0)

    mean = run.evaluations().groupby("round")["mean"].mean()
    assert mean.to_dict() == pytest.approx({k: 15 * 0.02 * k for k in (2, 4, 6)})
