"""Signs of life: a round of many updates may take long, and is not taken for hanging."""

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
def test_a_learner_gives_a_sign_of_life_with_every_update(name: str) -> None:
    crew = GroupTrainer(ALGORITHMS[name], [agent_of(), agent_of(1)])
    crew.train(rounds=3)
    beats: list[int] = []
    crew.learner.beat = lambda: beats.append(1)

    metrics = crew.train()

    assert len(beats) == metrics[0]["updates"] > 1
