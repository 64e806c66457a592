"""A game that only who remembers can play: recurrent agents solve it, others cannot."""

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
    """Return which share of its answers each trained agent has right."""
    match = rookery.play(RECALL, run.players(), episodes=64)
    return np.asarray(match.returns).mean(axis=0).tolist()


def test_values_and_policies_that_carry_something_along_remember_the_sign(tmp_path):
    pair = {"algorithm": "recurrent_dqn", "agents": {1: {"algorithm": "recurrent_ppo"}}}

    run = rookery.train(RECALL, run=tmp_path / "run", **QUICK, **pair)

    assert right_answers(run) == [1.0, 1.0]


def test_without_anything_carried_along_half_of_the_answers_are_right(tmp_path):
    pair = {"algorithm": "dqn", "agents": {1: {"algorithm": "ppo"}}}

    run = rookery.train(RECALL, run=tmp_path / "run", **QUICK, **pair)

    assert max(right_answers(run)) < 0.75
