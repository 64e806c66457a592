"""Scripted players: fixed strategies that act for agents that do not learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rookery.config.base import Settings
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec, Array


@dataclass(slots=True)
class Observation:
    """What one agent observes in all worlds when it is about to act."""

    parts: Mapping[str, Array]
    """Part name to (worlds, *shape)."""
    active: Array
    """(worlds,) bool, whether the agent acts in this turn."""
    legal: Array | None
    """(worlds, num_actions) bool, or None if all actions are legal."""


class PlayerStream(Stream):
    """The random numbers of an agent's player."""

    def __init__(self, seed: int, agent: int, first_world: int = 0) -> None:
        """Return the numbers of an agent, in the worlds from `first_world` on."""
        super().__init__(seed, Purpose.PLAYER, agent)
        self.first_world = first_world


class Player(ABC):
    """A fixed strategy that acts for one agent, in all worlds at once.

    Subclass it and override `act`, which is called once per turn and returns one action
    per world. It sees only what its agent observes. State goes into `memory`, which is
    part of snapshots and zeroed by `forget` when an episode starts; random numbers come
    from `draw`. List the class in the game's `players` to choose it by name:

        class Alternate(Player):
            '''Takes the first and the second action in turn.'''

            def act(self, observation: Observation, turn: int) -> Array:
                return np.full(self.worlds, turn % 2)
    """

    def __init__(
        self, spec: AgentSpec, settings: Settings, worlds: int, stream: Stream
    ) -> None:
        """Build the player of one agent.

        Args:
            spec: the agent: its id, role, parts and actions.
            settings: those of the game.
            worlds: number of worlds it acts in.
            stream: random numbers, which `draw` reads.
        """
        self.spec = spec
        self.settings = settings
        self.worlds = worlds
        self.memory: dict[str, Array] = {}
        """(worlds, ...) arrays, to be added in `__init__`."""
        self._stream = stream
        first_world = stream.first_world if isinstance(stream, PlayerStream) else 0
        self.world_numbers = np.arange(first_world, first_world + worlds)
        """(worlds,) which worlds of the run they are; not from 0 if several actors play."""

    @abstractmethod
    def act(self, observation: Observation, turn: int) -> Array:
        """Return one action per world, (worlds,) integers; ignored where not active.

        Args:
            observation: what the agent observes now.
            turn: number of the turn since the game was built; the key of `draw`.
        """

    def forget(self, starting: Array) -> None:
        """Zero the memory of the worlds in which an episode starts, (worlds,) bool."""
        for array in self.memory.values():
            array[starting] = 0

    def draw(self, turn: int, count: int = 1) -> Array:
        """Return random numbers in [0, 1) for this turn, (worlds, count)."""
        return self._stream.uniform((self.world_numbers, turn), 0, count)


class RandomPlayer(Player):
    """Takes every legal action with equal probability."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Return a random legal action per world."""
        return random_actions(
            self.spec.num_actions, observation.legal, self.draw(turn)[:, 0]
        )


def random_actions(num_actions: int, legal: Array | None, draws: Array) -> Array:
    """Return one legal action per world, chosen by `draws` in [0, 1)."""
    if legal is None:
        return (draws * num_actions).astype(np.int64)
    return pick(legal, draws)


def pick(candidates: Array, draws: Array) -> Array:
    """Return for each row one of its True columns, chosen by `draws` in [0, 1)."""
    counts = candidates.sum(axis=1)
    ranks = (draws * counts).astype(np.int64)
    return (np.cumsum(candidates, axis=1) > ranks[:, None]).argmax(axis=1)
