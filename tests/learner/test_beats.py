"""Learners give signs of life, so that a long round is not mistaken for a hang."""

from __future__ import annotations

import pytest

from rookery.algorithms.dqn import DQN
from rookery.algorithms.iqn import IQN
from rookery.algorithms.ppo import PPO
from rookery.algorithms.recurrent_dqn import RECURRENT_DQN
from rookery.algorithms.recurrent_ppo import RECURRENT_PPO
from rookery.algorithms.vtrace import VTRACE
from tests.algorithms.conftest import GroupTrainer, agent_of

ALGORITHMS = {
    "iqn": IQN,
    "dqn": DQN,
    "ppo": PPO,
    "vtrace": VTRACE,
    "recurrent_dqn": RECURRENT_DQN,
    "recurrent_ppo": RECURRENT_PPO,
}


@pytest.mark.shows("F3")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_learner_beats_with_every_update(name: str) -> None:
    """DQN beats with every few, which it makes in one call; see its `updates_ahead`."""
    trainer = GroupTrainer(ALGORITHMS[name], [agent_of(), agent_of(1)])
    trainer.learner.updates_ahead = 1
    trainer.train(rounds=3)
    beats: list[int] = []
    trainer.learner.beat = lambda: beats.append(1)

    metrics = trainer.train()

    agents = 2 if name == "dqn" else 1  # it makes the updates of one, then of the other
    assert len(beats) == agents * metrics[0]["updates"] > 1
