"""Scripted players: who acts when nobody learns.

A player sees just what its agent sees. It plays all worlds at once, keeps what it must
remember in `memory` (which is part of a snapshot), and takes its random numbers from the
stream it is given, keyed by world and turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rookery.config.base import Settings
from rookery.rng import Stream
from rookery.specs import AgentSpec, Array


@dataclass(slots=True)
class Observation:
    """What one agent sees in all worlds at its moment to act."""

    parts: Mapping[str, Array]
    """Part name to (worlds, *shape)."""
    active: Array
    """(worlds,) bool."""
    legal: Array | None
    """(worlds, num_actions) bool, or None if everything is legal."""


class Player(ABC):
    """Plays one agent in all worlds."""

    def __init__(
        self, spec: AgentSpec, settings: Settings, worlds: int, stream: Stream
    ) -> None:
        self.spec = spec
        self.settings = settings
        self.worlds = worlds
        self.memory: dict[str, Array] = {}
        """(worlds, ...) arrays; zeroed in a world whenever an episode starts there."""
        self._stream = stream
        self._world_numbers = np.arange(worlds)

    @abstractmethod
    def act(self, observation: Observation, turn: int) -> Array:
        """Return actions (worlds,); where the agent is not active they do not count."""

    def forget(self, starting: Array) -> None:
        """Empty the memory of worlds in which a new episode starts."""
        for array in self.memory.values():
            array[starting] = 0

    def draw(self, turn: int, count: int = 1) -> Array:
        """Return (worlds, count) random numbers in [0, 1) for this turn."""
        return self._stream.uniform((self._world_numbers, turn), 0, count)


class RandomPlayer(Player):
    """Every legal action is equally likely."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Choose by one draw per world."""
        draws = self.draw(turn)[:, 0]
        if observation.legal is None:
            return (draws * self.spec.num_actions).astype(np.int64)
        return pick(observation.legal, draws)


def pick(candidates: Array, draws: Array) -> Array:
    """Return for each row one of its True columns, chosen by `draws` in [0, 1)."""
    counts = candidates.sum(axis=1)
    wanted = (draws * counts).astype(np.int64)
    return (np.cumsum(candidates, axis=1) > wanted[:, None]).argmax(axis=1)
