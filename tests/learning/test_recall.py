"""A game that needs memory: recurrent agents solve it, others cannot."""

import numpy as np
import pytest

import rookery
from tests.paths import GAME_FILES

RECALL = f"{GAME_FILES / 'recall.py'}:Recall"

pytestmark = [pytest.mark.learning, pytest.mark.timeout(300)]

QUICK = {
    "rounds": 40,
    "turns_per_round": 20,
    "workers": 0,
    "frames": 1,
    "n_step": 1,
    "network": {"width": 32},
    "recurrent": {"width": 16, "sequence": 10, "burn_in": 0},
    "batch_size": 16,
    "updates_per_round": 8,
    "learning_rate": 5e-3,
    "epsilon": {"steps": 3000},
    "replay": {"warmup": 300},
    "target": {"rate": 0.05},
    "ppo": {"passes": 3, "minibatches": 2},
}


def right_answers(run: rookery.Run) -> list[float]:
    """Return the share of right answers of each trained agent."""
    match = rookery.play(RECALL, run.players(), episodes=64)
    return np.asarray(match.returns).mean(axis=0).tolist()


def test_recurrent_agents_remember_the_sign(tmp_path):
    pair = {"algorithm": "recurrent_dqn", "agents": {1: {"algorithm": "recurrent_ppo"}}}

    run = rookery.train(RECALL, run=tmp_path / "run", **QUICK, **pair)

    assert right_answers(run) == [1.0, 1.0]


def test_other_agents_have_half_of_the_answers_right(tmp_path):
    pair = {"algorithm": "dqn", "agents": {1: {"algorithm": "ppo"}}}

    run = rookery.train(RECALL, run=tmp_path / "run", **QUICK, **pair)

    assert max(right_answers(run)) < 0.75
