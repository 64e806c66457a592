"""DQN in simple_spread with Tianshou 2: a peer of whole training.

One `DQN` per agent in its `MultiAgentOffPolicyAlgorithm`, and one world or several in a
`DummyVectorEnv`. Its own collector and its own updates are called in turn, as its trainer
does, but without the trainer's logging. In Tianshou, DQN has no soft target and does not
clip gradients, so here it copies the target now and then, which is less work. It runs as a
`Contender`, in any interpreter that has Tianshou and mpe2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from mpe2 import simple_spread_v3
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.multiagent.marl import MultiAgentOffPolicyAlgorithm
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step

from rookery.bench.dqn_task import TrainingTask
from rookery.bench.measure import rate

TARGET_EVERY = 100
"""Updates between two copies of the network to the target."""


def prepare(task: Mapping[str, Any]) -> dict[str, Callable[[], float]]:
    """Return the measurements with one world, and with as many as Rookery plays."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    several = TrainingTask(**task)
    single = replace(several, worlds=1, turns=several.turns_per_round)
    return {
        "tianshou, 1 world": TianshouTraining(single).rate,
        f"tianshou, {several.worlds} worlds": TianshouTraining(several).rate,
    }


class TianshouTraining:
    """Worlds, a replay and a DQN per agent."""

    def __init__(self, task: TrainingTask) -> None:
        self._task = task
        self._algorithm = _algorithm(task)
        worlds = DummyVectorEnv([lambda: _world(task)] * task.worlds)
        # A step is one agent's: a turn of a world takes as many as there are agents.
        self._buffer = VectorReplayBuffer(task.capacity * task.agents, task.worlds)
        self._collector = Collector(
            self._algorithm, worlds, self._buffer, exploration_noise=True
        )
        self._collector.reset()
        self._collect(task.warmup)
        self.train(1)

    def rate(self) -> float:
        """Return updates of an agent per second of playing and learning."""
        amount = self._task.world_turns * self._task.agents
        return rate(lambda: self.train(self._task.rounds * self._task.turns), amount)

    def train(self, turns: int) -> None:
        """Play turns of all worlds, and update every agent once per world and turn.

        A sample of a batch per agent is split by agent, which gives batches that have the
        right size on average.
        """
        task = self._task
        for _ in range(turns):
            self._collect(task.worlds)
            with policy_within_training_step(self._algorithm.policy):
                for _ in range(task.worlds):
                    self._algorithm.update(self._buffer, task.batch * task.agents)

    def _collect(self, world_turns: int) -> None:
        with policy_within_training_step(self._algorithm.policy):
            self._collector.collect(n_step=world_turns * self._task.agents)


def _world(task: TrainingTask) -> PettingZooEnv:
    return PettingZooEnv(simple_spread_v3.env(**task.game))


def _algorithm(task: TrainingTask) -> MultiAgentOffPolicyAlgorithm:
    world = _world(task)
    agents = [_dqn(world, task) for _ in world.agents]
    return MultiAgentOffPolicyAlgorithm(algorithms=agents, env=world)


def _dqn(world: PettingZooEnv, task: TrainingTask) -> DQN:
    network = Net(
        state_shape=world.observation_space.shape,
        action_shape=world.action_space.n,
        hidden_sizes=[task.width] * task.layers,
    )
    policy = DiscreteQLearningPolicy(
        model=network, action_space=world.action_space, eps_training=task.epsilon
    )
    return DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=task.learning_rate),
        gamma=task.discount,
        target_update_freq=TARGET_EVERY,
        is_double=True,
        huber_loss_delta=1.0,
    )
