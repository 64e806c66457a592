"""Agents learn: they solve games whose optimum is known."""

from pathlib import Path

import numpy as np
import pytest

import rookery
from tests.paths import GAME_FILES

CORRIDORS = f"{GAME_FILES / 'corridors.py'}:Corridors"
BEST = 1.0 - 4 * 0.1

pytestmark = [pytest.mark.learning, pytest.mark.timeout(300)]

PAIRS = {
    "iqn": {},
    "dqn": {"algorithm": "dqn"},
    "ppo": {"algorithm": "ppo"},
    "vtrace": {"algorithm": "vtrace"},
    "a mixed pair": {"agents": {1: {"algorithm": "ppo"}}},
    "a recurrent pair": {
        "algorithm": "recurrent_dqn",
        "agents": {1: {"algorithm": "recurrent_ppo"}},
        "batch_size": 16,
        "updates_per_round": 10,
        "recurrent": {"width": 32, "sequence": 10},
        "ppo": {"passes": 2},
    },
}


QUICK = {
    "rounds": 60,
    "turns_per_round": 30,
    "game": {"agents": 2, "turns": 30},
    "network": {"width": 32},
    "frames": 1,
    "learning_rate": 2e-3,
    "epsilon": {"steps": 10_000},
    "replay": {"warmup": 500},
}


def solves(run: rookery.Run) -> bool:
    """Whether trained agents play optimally in every episode."""
    match = rookery.play(
        CORRIDORS, run.players(), episodes=16, game={"agents": 2, "turns": 30}
    )
    return bool(np.allclose(match.returns, BEST, atol=1e-6))


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_two_agents_reach_the_known_optimum(pair: dict, tmp_path: Path) -> None:
    run = rookery.train(CORRIDORS, run=tmp_path / "run", workers=0, **QUICK, **pair)

    assert solves(run)


@pytest.mark.shows("D1")
@pytest.mark.parametrize("schedule", ["sync", "pipelined", "async"])
def test_several_processes_learn_as_well_as_one(schedule: str, tmp_path: Path) -> None:
    parallel = {"workers": 2, "schedule": schedule}
    run = rookery.train(CORRIDORS, run=tmp_path / "run", **parallel, **QUICK)

    assert solves(run)


def test_independent_learners_defect_in_the_prisoners_dilemma(tmp_path: Path) -> None:
    run = rookery.train(
        "iterated_prisoners_dilemma",
        run=tmp_path / "run",
        rounds=60,
        network={"width": 32},
        frames=1,
        discount=0.5,
        learning_rate=2e-3,
        epsilon={"steps": 20_000},
    )

    match = rookery.play("iterated_prisoners_dilemma", run.players(), episodes=16)

    assert (match.returns == 100.0).all()  # both defect in each of the hundred turns
