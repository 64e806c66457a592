"""The random numbers of all worlds.

A number is addressed by world, episode, turn and draw, so world 5 of 16 gets the same
numbers as world 5 on its own, and a repeated turn gets the same numbers again.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from rookery.games.gridworld import loops
from rookery.rng import Purpose, Stream
from rookery.specs import Array

PLACING = 4095
"""The draw with which the engine places agents; a game's draws count from 0 each turn."""


@lru_cache(maxsize=256)
def _skip_table(probability: float, slots: int) -> Array:
    """Return the probabilities, in 2**-32, that fewer than 1, 2, … slots are skipped."""
    kept = (1.0 - probability) ** np.arange(1, slots + 1)
    return np.round((1.0 - kept) * 2.0**32).astype(np.uint64)


def _number_of_skips(probability: float, slots: int) -> int:
    """Return a number of skips that nearly always reaches the last slot."""
    expected = probability * slots
    return min(slots, math.ceil(expected + 6 * math.sqrt(expected))) + 2


class WorldRandom:
    """Random numbers for the current episode and turn of each world.

    Args:
        seed: of the game.
        numbers: of the worlds.
        episode, turn: of each world; arrays that the engine changes.
        slots: the cells of a world in which events can happen.
        size: the number of cells of a world.
    """

    def __init__(
        self,
        seed: int,
        numbers: Array,
        episode: Array,
        turn: Array,
        slots: Array,
        size: int,
    ) -> None:
        self._stream = Stream(seed, Purpose.WORLD)
        self._address = (numbers.copy(), episode, turn)
        self._worlds = len(numbers)
        self._slots, self._size = slots, size
        self._draw = 0
        self._events = (np.empty(0, np.int64), np.empty(0))

    def renumber(self, numbers: Array) -> None:
        """Continue as other worlds, as many, in a new turn."""
        np.copyto(self._address[0], numbers)
        self.begin()

    def begin(self) -> None:
        """Begin a turn."""
        self._draw = 0

    def bits(self, count: int) -> Array:
        """Return the next draw: (worlds, count) uint32."""
        self._draw += 1
        return self.bits_at(self._draw - 1, count)

    def bits_at(self, draw: int, count: int) -> Array:
        """Return the draw with this number: (worlds, count) uint32."""
        return self._stream.bits(self._address, draw, count)

    def events(self, probability: float) -> tuple[Array, Array]:
        """Draw an event in every slot with some probability, as the next draw.

        Returns the spots with an event, and a number in [0, 1) for each, until the next
        events are drawn. Rare events cost next to nothing.
        """
        self._draw += 1
        spots, shares = self._buffers()
        slots = len(self._slots)
        table = _skip_table(probability, slots)
        skips = _number_of_skips(probability, slots)
        keys, where = self._stream.round_keys, (self._slots, self._size)
        count = loops.draw_rare(
            keys, *self._address, self._draw - 1, table, skips, *where, spots, shares
        )
        return spots[:count], shares[:count]

    def events_by_cell(self, chance: Array, mask: Array) -> tuple[Array, Array]:
        """Draw an event in every slot of a mask with its own probability.

        `chance` and `mask` are (worlds or 1, cells or 1). Returns the same as `events`.
        """
        self._draw += 1
        spots, shares = self._buffers()
        keys, where = self._stream.round_keys, (self._slots, self._size)
        count = loops.draw_by_cell(
            keys, *self._address, self._draw - 1, chance, mask, *where, spots, shares
        )
        return spots[:count], shares[:count]

    def _buffers(self) -> tuple[Array, Array]:
        """Return arrays for the spots and shares of events, with room for all slots."""
        if not len(self._events[0]):
            room = self._worlds * len(self._slots)
            self._events = (np.empty(room, np.int64), np.empty(room))
        return self._events
