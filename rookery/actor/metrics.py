"""Figures of a round, as the actor adds them up while it plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.actor.policies import exploration_of
from rookery.algorithms.base import Agent
from rookery.specs import Array


class RoundMetrics:
    """Adds up what agents did and got in a round."""

    def __init__(self, agents: Sequence[Agent], number: int) -> None:
        self._number, self._lag, self._turns = number, np.zeros(len(agents)), 0
        # Kept, and summed up once a round: sums of a few numbers cost more than these.
        self._values: list[list[Array]] = [[] for _ in agents]
        self._entropies: list[list[Array]] = [[] for _ in agents]
        self._rewards: list[Array] = []

    def add_choice(
        self, number: int, values: Array, entropies: Array, active: Array
    ) -> None:
        """Take in what one agent expected, and how undecided it was."""
        self._values[number].append(values[active])
        self._entropies[number].append(entropies[active])

    def add_versions(self, versions: Mapping[int, int]) -> None:
        """Take in how old each agent's weights are in a turn."""
        self._turns += 1
        for agent, version in versions.items():
            self._lag[agent] += self._number - version

    def add_rewards(self, rewards: Array) -> None:
        """Take in a turn's rewards, (worlds, agents)."""
        self._rewards.append(rewards.copy())

    def summary(self, agents: Sequence[Agent], steps: Array) -> dict[str, dict[str, float]]:
        """Return each agent's figures; rewards are per turn and world."""
        found = {}
        rewards = np.concatenate(self._rewards).mean(axis=0, dtype=np.float64)
        for i, agent in enumerate(agents):
            one = {"reward": float(rewards[i]), "steps": float(steps[i])}
            if not agent.is_scripted:
                one["value"] = _mean(self._values[i])
                one["entropy"] = _mean(self._entropies[i])
                one["epsilon"] = exploration_of(agent, int(steps[i]))
                one["lag"] = self._lag[i] / self._turns if agent.learns else 0.0
            found[agent.id] = one
        return found


def _mean(pieces: Sequence[Array]) -> float:
    """Return the mean of all numbers in some arrays, 0 if there are none."""
    numbers = np.concatenate([np.zeros(0), *pieces])
    return float(numbers.mean()) if len(numbers) else 0.0
