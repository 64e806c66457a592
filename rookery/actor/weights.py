"""The weights that the actor reads from the states learners publish.

In the deterministic schedules a round is played with exactly one version, read in place:
its slot is not overwritten before the round is over. In `async` the newest version is
copied, and the copy counts only if the version counter has not moved in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rookery.algorithms.base import WEIGHTS, Agent
from rookery.protocol.arena import Arena
from rookery.specs import Array


@dataclass
class Weights:
    """The weights that agents act with and their versions, by agent number."""

    arrays: dict[int, Array] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)


class PublishedWeights:
    """Reads the published weights of all agents that are not scripted."""

    def __init__(self, arena: Arena, agents: Sequence[Agent]) -> None:
        acting = [agent for agent in agents if not agent.is_scripted]
        self._states = {agent.number: arena.states(agent.id) for agent in acting}
        self._learning = {agent.number for agent in acting if agent.learns}
        self._taken: dict[int, int] = {}
        """The newest version that was copied, by agent number."""

    def exact(self, version: int) -> Weights:
        """Return the weights of one version; those of frozen agents never change."""
        weights = Weights()
        for number, states in self._states.items():
            weights.versions[number] = version if number in self._learning else 0
            weights.arrays[number] = states.read(weights.versions[number])[WEIGHTS]
        return weights

    def newest(self) -> Weights:
        """Return copies of the newest weights of all agents."""
        self._taken.clear()
        return self.newer()

    def newer(self) -> Weights:
        """Return copies of the weights published since the last copies were taken."""
        weights = Weights()
        for number, states in self._states.items():
            if states.version > self._taken.get(number, -1):
                version, arrays = states.newest((WEIGHTS,))
                self._taken[number] = version
                weights.versions[number] = version
                weights.arrays[number] = arrays[WEIGHTS]
        return weights
