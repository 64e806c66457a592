"""Weights on their way from learners to the actor.

In the deterministic schedules a round is played with exactly one version, read in place:
its slot is not written before the round is over. In `async` the newest version is copied,
and the copy counts only if the word has not moved meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rookery.algorithms.base import WEIGHTS, Agent
from rookery.protocol.arena import Arena
from rookery.specs import Array


@dataclass
class Weights:
    """What agents act with, by agent number."""

    arrays: dict[int, Array] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)


class PublishedWeights:
    """The weights of all agents that act with some."""

    def __init__(self, arena: Arena, agents: Sequence[Agent]) -> None:
        acting = [agent for agent in agents if not agent.is_scripted]
        self._states = {m.number: arena.states(m.id) for m in acting}
        self._learning = {m.number for m in acting if m.learns}
        self._taken: dict[int, int] = {}

    def exact(self, version: int) -> Weights:
        """Return the weights of one version; those of frozen agents never change."""
        found = Weights()
        for number, states in self._states.items():
            found.versions[number] = version if number in self._learning else 0
            found.arrays[number] = states.read(found.versions[number])[WEIGHTS]
        return found

    def newest(self) -> Weights:
        """Return copies of all newest weights."""
        self._taken.clear()
        return self.newer()

    def newer(self) -> Weights:
        """Return copies of those weights that are newer than the ones taken before."""
        found = Weights()
        for number, states in self._states.items():
            if states.version > self._taken.get(number, -1):
                version, arrays = states.newest((WEIGHTS,))
                self._taken[number] = version
                found.versions[number] = version
                found.arrays[number] = arrays[WEIGHTS]
        return found
