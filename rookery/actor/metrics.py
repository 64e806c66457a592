"""The metrics of a round, collected by an actor turn by turn.

Everything is summed per world, over turns. The sums of all worlds are added in the order of
the worlds, so that metrics do not depend on how many actors share out the worlds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.actor.policies import exploration_of
from rookery.algorithms.base import Agent, PolicyOutput
from rookery.kernels import kernel
from rookery.specs import Array

Metrics = dict[str, dict[str, float]]
"""Agent id to metric name to value."""


@dataclass
class RoundSums:
    """Sums over the turns of a round, (agents, worlds) each."""

    rewards: Array
    steps: Array
    """Turns in which the agent was active."""
    values: Array
    """Value estimates, where the agent was active."""
    entropies: Array
    """Policy entropies, where the agent was active."""

    @classmethod
    def zeros(cls, agents: int, worlds: int) -> RoundSums:
        """Return the sums before the first turn."""
        steps = np.zeros((agents, worlds), np.int64)
        rewards, values, entropies = np.zeros((3, agents, worlds))
        return cls(rewards, steps, values, entropies)

    @classmethod
    def joined(cls, sums: Sequence[RoundSums]) -> RoundSums:
        """Return the sums of all worlds, given those of all shares in order."""
        columns = zip(*(vars(each).values() for each in sums), strict=True)
        return cls(*(np.concatenate(column, axis=1) for column in columns))

    def to_json(self) -> list[list[list[float]]]:
        """Return the sums as plain data."""
        return [array.tolist() for array in vars(self).values()]

    @classmethod
    def from_json(cls, data: Sequence[Sequence[Sequence[float]]]) -> RoundSums:
        """Return the sums that `to_json` returned."""
        return cls(*(np.array(array) for array in data))


class RoundMetrics:
    """Collects what agents did and received in a round, in the worlds of a share."""

    def __init__(self, agents: int, worlds: int, number: int) -> None:
        self._number, self._turns = number, 0
        self._lags = np.zeros(agents)
        self.sums = RoundSums.zeros(agents, worlds)

    def add_output(
        self,
        agents: Array,
        places: Array,
        output: PolicyOutput,
        active: Array,
        actions: Array,
    ) -> None:
        """Add a group's output of a turn, and write its actions, where agents are active.

        Args:
            agents: the numbers of the group's agents.
            places: their places in the phase.
            output: of the group's policy.
            active: (agents of the phase, worlds).
            actions: (agents of the phase, worlds), to be written to; 0 so far.
        """
        sums = self.sums
        _add_output(
            agents,
            places,
            output.actions,
            output.values,
            output.entropies,
            active,
            actions,
            sums.steps,
            sums.values,
            sums.entropies,
        )

    def add_active(self, number: int, active: Array) -> None:
        """Add a turn in the worlds in which an agent is active."""
        self.sums.steps[number] += active

    def add_versions(self, versions: Mapping[int, int]) -> None:
        """Add the version of the weights that each agent acts with in a turn."""
        self._turns += 1
        for agent, version in versions.items():
            self._lags[agent] += self._number - version

    def add_rewards(self, rewards: Array) -> None:
        """Add a turn's rewards, (worlds, agents)."""
        self.sums.rewards += rewards.T

    @property
    def lags(self) -> list[float]:
        """How many rounds each agent's weights were behind, on average."""
        return (self._lags / self._turns).tolist()


@kernel
def _add_output(
    agents: Array,
    places: Array,
    selected: Array,
    values: Array,
    entropies: Array,
    active: Array,
    actions: Array,
    step_sums: Array,
    value_sums: Array,
    entropy_sums: Array,
) -> None:
    for k in range(len(agents)):
        agent, place = agents[k], places[k]
        for world in range(active.shape[1]):
            if active[place, world]:
                actions[place, world] = selected[k, world]
                step_sums[agent, world] += 1
                value_sums[agent, world] += values[k, world]
                entropy_sums[agent, world] += entropies[k, world]


def summary(
    agents: Sequence[Agent],
    sums: RoundSums,
    turns: int,
    lags: Sequence[float],
    steps: Array,
) -> Metrics:
    """Return each agent's metrics of a round.

    Args:
        agents: all agents.
        sums: of all worlds.
        turns: how many the round has.
        lags: by agent, from `RoundMetrics`.
        steps: (agents,) steps at the boundary that the round starts from.
    """
    active = sums.steps.sum(axis=1)
    rewards, values, entropies = (
        array.sum(axis=1) for array in (sums.rewards, sums.values, sums.entropies)
    )
    summary = {}
    for i, agent in enumerate(agents):
        mean_reward = rewards[i] / (turns * sums.rewards.shape[1])
        metrics = {"reward": float(mean_reward), "steps": float(steps[i] + active[i])}
        if not agent.is_scripted:
            metrics["value"] = float(values[i] / max(active[i], 1))
            metrics["entropy"] = float(entropies[i] / max(active[i], 1))
            metrics["epsilon"] = exploration_of(agent, int(steps[i]))
            metrics["lag"] = lags[i] if agent.learns else 0.0
        summary[agent.id] = metrics
    return summary
