"""Double DQN in simple_spread as a good researcher writes it without a library.

One world, and one module, optimizer and replay per agent. Replays are arrays allocated
once, batches are drawn by index, targets need no gradients, and Adam, the gradient's norm
and the target network are one call each for all parameters. It runs as a `Contender`, so
that denormal numbers can be flushed: a setting of the whole process, and not Rookery's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from mpe2 import simple_spread_v3
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from rookery.bench.dqn_task import TrainingTask
from rookery.bench.measure import rate
from rookery.specs import Array

FULL, BASIC = "plain loop", "plain loop without double and clipping"


def prepare(task: Mapping[str, Any]) -> dict[str, Callable[[], float]]:
    """Return the measurements of a loop that does what Rookery does, and of a basic one."""
    torch.set_num_threads(1)
    # Units that are never active have gradients, and soon moments, of almost zero.
    torch.set_flush_denormal(True)
    sizes = TrainingTask(**task)
    return {
        FULL: PlainLoop(sizes, basic=False).rate,
        BASIC: PlainLoop(sizes, basic=True).rate,
    }


class PlainReplay:
    """Transitions in arrays; the oldest are overwritten first."""

    def __init__(self, inputs: int, capacity: int, seed: int) -> None:
        self._random, self._capacity = np.random.default_rng(seed), capacity
        self._observations, self._next_observations = np.zeros(
            (2, capacity, inputs), np.float32
        )
        self._actions = np.zeros(capacity, np.int64)
        self._rewards, self._continues = np.zeros((2, capacity), np.float32)
        self.count = 0
        """Transitions added so far."""

    def add(
        self,
        observation: Array,
        action: int,
        reward: float,
        next_observation: Array,
        terminated: bool,
    ) -> None:
        """Add a transition."""
        row = self.count % self._capacity
        self._observations[row] = observation
        self._actions[row] = action
        self._rewards[row] = reward
        self._next_observations[row] = next_observation
        self._continues[row] = not terminated
        self.count += 1

    def sample(self, size: int) -> list[Tensor]:
        """Return observations, actions, rewards, next observations and who continues."""
        rows = self._random.integers(0, min(self.count, self._capacity), size)
        columns = (
            self._observations,
            self._actions,
            self._rewards,
            self._next_observations,
            self._continues,
        )
        return [torch.from_numpy(column[rows]) for column in columns]


class PlainAgent:
    """An agent that acts and learns on its own."""

    def __init__(
        self, inputs: int, actions: int, task: TrainingTask, seed: int, basic: bool
    ) -> None:
        """Build it.

        Args:
            inputs: numbers of an observation.
            actions: their number.
            task: the sizes.
            seed: of its own random numbers.
            basic: without double learning and without clipping the gradient.
        """
        self._task, self._basic, self._actions = task, basic, actions
        self._random = np.random.default_rng(seed)
        self.replay = PlainReplay(inputs, task.capacity, seed)
        self.network = _network(inputs, actions, task)
        self.target = _network(inputs, actions, task).requires_grad_(False)
        self.target.load_state_dict(self.network.state_dict())
        self._weights: list[Tensor] = list(self.network.parameters())
        self._target_weights: list[Tensor] = list(self.target.parameters())
        # On CPU, fused is faster than torch's other two ways at these sizes.
        self._adam = torch.optim.Adam(self._weights, task.learning_rate, fused=True)

    def act(self, observation: Array) -> int:
        """Return an action: random with probability epsilon, else the best."""
        if self._random.random() < self._task.epsilon:
            return int(self._random.integers(self._actions))
        with torch.inference_mode():
            return int(self.network(torch.from_numpy(observation)).argmax())

    def learn(self) -> None:
        """Make one update from a batch of the replay."""
        observations, actions, rewards, next_observations, continues = self.replay.sample(
            self._task.batch
        )
        with torch.no_grad():
            next_values = self._next_values(next_observations)
            targets = rewards + self._task.discount * continues * next_values
        values = self.network(observations).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = huber_loss(values, targets)
        self._adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if not self._basic:
            nn.utils.clip_grad_norm_(self._weights, self._task.clip, foreach=True)
        self._adam.step()
        torch._foreach_lerp_(self._target_weights, self._weights, self._task.target_rate)

    def _next_values(self, next_observations: Tensor) -> Tensor:
        values: Tensor = self.target(next_observations)
        if self._basic:
            return values.amax(dim=1)
        best = self.network(next_observations).argmax(dim=1, keepdim=True)
        return values.gather(1, best).squeeze(1)


def _network(inputs: int, actions: int, task: TrainingTask) -> nn.Sequential:
    sizes = [inputs, *[task.width] * task.layers]
    layers: list[nn.Module] = []
    for n, m in pairwise(sizes):
        layers += [nn.Linear(n, m), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(task.width, actions))


class PlainLoop:
    """One world of simple_spread, and its agents."""

    def __init__(self, task: TrainingTask, basic: bool) -> None:
        self._task = task
        self._env: Any = simple_spread_v3.parallel_env(**task.game)
        self._observations, _ = self._env.reset(seed=0)
        self.agents = {
            name: PlainAgent(
                self._env.observation_space(name).shape[0],
                int(self._env.action_space(name).n),
                task,
                seed,
                basic,
            )
            for seed, name in enumerate(self._env.agents)
        }
        self.train(task.warmup + 10)

    def rate(self) -> float:
        """Return updates of an agent per second of playing and learning."""
        turns = self._task.world_turns
        return rate(lambda: self.train(turns), turns * len(self.agents))

    def train(self, turns: int) -> None:
        """Play, and after every turn update every agent once."""
        for _ in range(turns):
            self._play_turn()
            for agent in self.agents.values():
                if agent.replay.count > self._task.warmup:
                    agent.learn()

    def _play_turn(self) -> None:
        observations = self._observations
        actions = {
            name: agent.act(observations[name]) for name, agent in self.agents.items()
        }
        next_observations, rewards, terminated, _, _ = self._env.step(actions)
        for name, agent in self.agents.items():
            agent.replay.add(
                observations[name],
                actions[name],
                rewards[name],
                next_observations[name],
                terminated[name],
            )
        self._observations = next_observations
        if not self._env.agents:  # the episode is over
            self._observations, _ = self._env.reset()
