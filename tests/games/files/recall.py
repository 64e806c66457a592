"""A game of memory: a sign is shown in the first turn, and asked for in the last.

Between them everybody sees the same. So who remembers nothing is right half of the time,
whatever it does, and who remembers is always right.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from rookery.config.base import Settings as BaseSettings
from rookery.games.base import Game, Observations, Outcome, Phases
from rookery.games.gridworld.state import StateArrays
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec, Array, Part

ASKED = 2


class Recall(Game):
    """Everybody is shown a sign of its own, left or right."""

    class Settings(BaseSettings):
        """How long to remember."""

        agents: int = Field(2, ge=1, le=16, description="How many play, each for itself.")
        turns: int = Field(5, ge=2, description="Turns of an episode.")

    settings: Settings

    def __init__(
        self, settings: Settings, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        super().__init__(settings, worlds, seed, first_world)
        part = Part((3,), np.dtype(np.uint8), ("left", "right", "asked"))
        self.agents = tuple(
            AgentSpec(str(i), "player", {"sign": part}, ("left", "right"))
            for i in range(settings.agents)
        )
        self._stream = Stream(seed, Purpose.WORLD)
        self._numbers = np.arange(first_world, first_world + worlds)
        self._columns = StateArrays(worlds)
        self._episode = self._columns.add("episode", np.int64)
        self._turn = self._columns.add("turn", np.int64)
        self._closing = self._columns.add("closing", np.bool_)
        self._answers = np.zeros((worlds, settings.agents), np.int64)

    def begin_turn(self) -> Phases:
        return (tuple(range(len(self.agents))),)

    def _signs(self) -> Array:
        place = (self._numbers, self._episode)
        return (self._stream.uniform(place, 0, len(self.agents)) < 0.5).astype(np.int64)

    @property
    def _asked(self) -> Array:
        return self._turn == self.settings.turns - 1

    def observe(self, agents: Sequence[int]) -> Observations:
        signs, parts = self._signs(), []
        for i in agents:
            seen = np.zeros((self.worlds, 3), np.uint8)
            seen[np.arange(self.worlds), signs[:, i]] = self._turn == 0
            seen[:, ASKED] = self._asked
            parts.append({"sign": seen})
        return Observations(parts, [~self._closing] * len(agents), [None] * len(agents))

    def act(self, agents: Sequence[int], actions: Array) -> None:
        self._answers[:, list(agents)] = actions

    def end_turn(self) -> Outcome:
        over = self._asked & ~self._closing
        right = (self._answers == self._signs()) & over[:, None]
        self._turn += ~self._closing & ~over
        self._turn[self._closing] = 0
        self._episode += self._closing
        np.copyto(self._closing, over)
        ended = np.repeat(over[:, None], len(self.agents), axis=1)
        return Outcome(right.astype(np.float32), ended, np.zeros_like(ended))

    def snapshot(self) -> dict[str, Array]:
        return self._columns.take(slice(None))

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self._columns.put(slice(None), arrays)
