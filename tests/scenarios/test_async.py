"""The async schedule: lag is bounded, and every agent makes all of its updates."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.stop import Stopped
from rookery.training.training import Round
from tests.scenarios.conftest import events, run_through, session_of
from tests.small import HUNT

pytestmark = pytest.mark.processes

MAX_LAG, ROUNDS, WARMUP_ROUNDS = 3, 24, 2
SETTINGS: dict[str, Any] = {
    **HUNT,
    "rounds": ROUNDS,
    "schedule": "async",
    "max_lag": MAX_LAG,
    "evaluate.every_rounds": 1,
    "agents": {"2": {"algorithm": "ppo", "ppo": {"passes": 2, "minibatches": 3}}},
}


def train(folder: Path, workers: int) -> rookery.Run:
    session = session_of("treasurehunt", folder, **SETTINGS, workers=workers)

    def disturb(result: Round) -> None:
        if result.number == 5 and workers:
            processes = session.training.executor.now.supervisor.processes()
            os.kill(processes["worker 0"], signal.SIGKILL)

    return run_through(session, disturb)


@pytest.fixture(scope="module", params=[0, 2], ids=["one process", "killed worker"])
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> rookery.Run:
    run = train(tmp_path_factory.mktemp("async") / "run", request.param)
    deaths = events(run.path, "death")
    assert len(deaths) == (1 if request.param else 0)
    return run


def test_in_async_every_agent_makes_all_of_its_updates(
    run: rookery.Run,
) -> None:
    table = run.metrics()
    learning = table[table["round"] > WARMUP_ROUNDS]

    updates_per_round = {"0": 3, "1": 3, "2": 2 * 3}
    for agent, per_round in updates_per_round.items():
        updates = learning[learning["agent"] == agent]["updates"]
        turns = (ROUNDS - WARMUP_ROUNDS) * HUNT["turns_per_round"]
        ratio = updates.sum() / turns / (per_round / HUNT["turns_per_round"])
        assert 0.95 <= ratio <= 1.05
        windows = updates.rolling(5).sum().dropna() / (5 * per_round)
        assert windows.between(0.95, 1.05).all()


@pytest.mark.shows("C2")
def test_in_async_lag_is_measured_per_agent_and_bounded(run: rookery.Run) -> None:
    lag = run.metrics()["lag"]

    assert lag.notna().all()
    assert lag.between(0, MAX_LAG).all()


def test_in_async_ppo_learns_each_round_once(run: rookery.Run) -> None:
    table = run.metrics()

    updates = table[table["agent"] == "2"]["updates"].tolist()
    assert updates == [2 * 3] * ROUNDS


def test_in_async_every_evaluation_is_recorded_once(run: rookery.Run) -> None:
    table = run.evaluations()

    greedy = table[(table["players"] == "trained") & (table["agent"] == "0")]
    assert greedy["round"].tolist() == list(range(1, ROUNDS + 1))


def test_in_async_a_stopped_run_resumes_where_its_actor_was(
    tmp_path: Path,
) -> None:
    session = session_of("treasurehunt", tmp_path / "run", **SETTINGS, workers=2)

    def stop(result: Round) -> None:
        if result.number == 10:
            session.training.parts.stop.signal = signal.SIGINT

    with pytest.raises(Stopped):
        session.run(stop)

    run = rookery.resume(session.folder)

    rounds = run.metrics()["round"].unique().tolist()
    assert rounds[-1] == ROUNDS
    assert rounds == sorted(rounds)
    assert (run.metrics().query("round == @ROUNDS")["usable_steps"] > 0).all()
