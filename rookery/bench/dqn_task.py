"""What Rookery and its peers do alike: double DQN, at one size and with one set of numbers.

Peers run in processes and interpreters of their own, which need not have torch: nothing
here imports anything but numpy, and a task can be sent as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.specs import Array


@dataclass(frozen=True)
class DqnTask:
    """The networks, and how they are updated."""

    agents: int
    width: int
    updates: int
    """Updates of every agent in one measurement."""
    layers: int = 2
    """Hidden layers."""
    batch: int = 64
    learning_rate: float = 5e-4
    discount: float = 0.99
    clip: float = 10.0
    """The largest norm of an agent's gradient."""
    target_rate: float = 0.01
    """How much of the network the target takes over after every update."""


@dataclass(frozen=True)
class UpdateTask(DqnTask):
    """Updates only, from a replay filled with random numbers."""

    inputs: int = 75
    actions: int = 5
    worlds: int = 16
    turns: int = 800
    """Turns of every world in the replay, each the start of a transition."""

    def __str__(self) -> str:
        return f"{self.agents} agents, {self.width} wide"

    def rows(self, agent: int) -> dict[str, Array]:
        """Return an agent's rows, (turns + 1, worlds, …); the last ones only close."""
        rng = np.random.default_rng(agent)
        shape = (self.turns + 1, self.worlds)
        return {
            "observation": rng.standard_normal((*shape, self.inputs), np.float32),
            "action": rng.integers(0, self.actions, shape, np.int32),
            "reward": rng.standard_normal(shape, np.float32),
        }


@dataclass(frozen=True)
class TrainingTask(DqnTask):
    """Playing and learning in simple_spread: one update per agent and world-turn."""

    worlds: int = 16
    """Where several worlds are played side by side."""
    turns: int = 10
    """Turns of a round in every world."""
    cycles: int = 25
    """Turns of an episode."""
    capacity: int = 100_000
    warmup: int = 200
    """Transitions before the first update."""
    epsilon: float = 0.1

    def __str__(self) -> str:
        return f"{self.agents} agents, {self.width} wide, {self.layers} hidden layers"

    @property
    def turns_per_round(self) -> int:
        """World-turns of a round, and updates of every agent in it."""
        return self.worlds * self.turns

    @property
    def rounds(self) -> int:
        """Rounds of one measurement."""
        return max(1, self.updates // self.turns_per_round)

    @property
    def world_turns(self) -> int:
        """World-turns of one measurement, and updates of every agent."""
        return self.rounds * self.turns_per_round

    @property
    def game(self) -> dict[str, Any]:
        """The settings of simple_spread."""
        return {"N": self.agents, "max_cycles": self.cycles}
