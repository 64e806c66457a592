"""The metrics of a round, collected by the actor turn by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.actor.policies import exploration_of
from rookery.algorithms.base import Agent
from rookery.specs import Array


class RoundMetrics:
    """Collects what agents did and received in a round."""

    def __init__(self, agents: Sequence[Agent], number: int) -> None:
        self._number, self._lag, self._turns = number, np.zeros(len(agents)), 0
        # Kept, and averaged once per round: averaging a few numbers at a time costs more.
        self._values: list[list[Array]] = [[] for _ in agents]
        self._entropies: list[list[Array]] = [[] for _ in agents]
        self._rewards: list[Array] = []

    def add_output(
        self, number: int, values: Array, entropies: Array, active: Array
    ) -> None:
        """Add an agent's value estimates and policy entropies, where it is active."""
        self._values[number].append(values[active])
        self._entropies[number].append(entropies[active])

    def add_versions(self, versions: Mapping[int, int]) -> None:
        """Add the version of the weights that each agent acts with in a turn."""
        self._turns += 1
        for agent, version in versions.items():
            self._lag[agent] += self._number - version

    def add_rewards(self, rewards: Array) -> None:
        """Add a turn's rewards, (worlds, agents)."""
        self._rewards.append(rewards.copy())

    def summary(self, agents: Sequence[Agent], steps: Array) -> dict[str, dict[str, float]]:
        """Return each agent's metrics; rewards are means over turns and worlds."""
        summary = {}
        rewards = np.concatenate(self._rewards).mean(axis=0, dtype=np.float64)
        for i, agent in enumerate(agents):
            metrics = {"reward": float(rewards[i]), "steps": float(steps[i])}
            if not agent.is_scripted:
                metrics["value"] = _mean(self._values[i])
                metrics["entropy"] = _mean(self._entropies[i])
                metrics["epsilon"] = exploration_of(agent, int(steps[i]))
                metrics["lag"] = self._lag[i] / self._turns if agent.learns else 0.0
            summary[agent.id] = metrics
        return summary


def _mean(arrays: Sequence[Array]) -> float:
    """Return the mean of all numbers in some arrays, 0 if there are none."""
    numbers = np.concatenate([np.zeros(0), *arrays])
    return float(numbers.mean()) if len(numbers) else 0.0
