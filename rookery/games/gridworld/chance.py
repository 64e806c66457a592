"""The random numbers of all worlds, each from its own stream.

A number is addressed by world, episode, turn and draw, so world 5 of 16 gets what world 5
alone gets, and what is repeated repeats itself. When there are few worlds, the numbers of
several turns are made in one call, because a call costs more than the numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from rookery.rng import Purpose, Stream
from rookery.specs import Array

NUMBERS_PER_CALL = 8192
NOTHING_YET = np.empty(0, np.uint32)
PLACING = 4095
"""The engine's own draw, for placing agents; an author's count up from 0 each turn."""


@lru_cache(maxsize=256)
def _skip_table(chance: float, places: int) -> Array:
    """Return the chances, in 2**-32, that fewer than 1, 2, … places are skipped."""
    kept = (1.0 - chance) ** np.arange(1, places + 1)
    return np.round((1.0 - kept) * 2.0**32).astype(np.uint64)


def _enough(chance: float, places: int) -> int:
    """Return how many skips nearly always reach the last place."""
    expected = chance * places
    return min(places, math.ceil(expected + 6 * math.sqrt(expected))) + 2


class Chance:
    """Random numbers for the worlds' present episode and turn."""

    def __init__(self, seed: int, numbers: Array, episode: Array, turn: Array) -> None:
        self._stream = Stream(seed, Purpose.WORLD)
        self._numbers, self._episode, self._turn = numbers, episode, turn
        self._draw = 0
        self._tick = 0
        self._ahead: dict[tuple[int, int], tuple[int, Array]] = {}

    def begin(self) -> None:
        """Begin a turn: every world's turn is one higher than before."""
        self._draw = 0
        self._tick += 1

    def forget(self) -> None:
        """Drop what was made ahead: episodes or turns have changed otherwise."""
        self._ahead.clear()

    def bits(self, count: int) -> Array:
        """Return the next draw: (worlds, count) uint32."""
        self._draw += 1
        return self.bits_at(self._draw - 1, count)

    def bits_at(self, draw: int, count: int) -> Array:
        """Return a numbered draw of this turn: (worlds, count) uint32."""
        turns = NUMBERS_PER_CALL // (count * len(self._numbers))
        if turns < 2:
            place = (self._numbers, self._episode, self._turn)
            return self._stream.bits(place, draw, count)
        made, ahead = self._ahead.get((draw, count), (-turns, NOTHING_YET))
        if self._tick >= made + turns:
            made, ahead = self._tick, self._make_ahead(draw, count, turns)
            self._ahead[draw, count] = (made, ahead)
        return ahead[self._tick - made]

    def skips(self, chance: float, places: int) -> tuple[Array, Array, Array]:
        """Let each of `places` places happen with some chance, in every world.

        Returns the worlds (by position) and places where it did, and a number in [0, 1)
        for each. Instead of a number per place, it draws how many places are skipped
        until the next, from a table of whole numbers: rare events cost next to nothing.
        """
        table = _skip_table(chance, places)
        count = _enough(chance, places)
        rows: list[Array] = []
        columns, shares = [], []
        reached = np.full(len(self._numbers), -1)
        self._draw += 1  # once, or a crowded world would move the draws of the others
        while True:
            start = 2 * count * len(rows)
            bits = self.bits_at(self._draw - 1, start + 2 * count)[:, start:]
            jumps = np.searchsorted(table, bits[:, :count], side="right") + 1
            landed = reached[:, None] + jumps.cumsum(axis=1)
            row, event = np.nonzero(landed < places)
            rows.append(row)
            columns.append(landed[row, event])
            shares.append(bits[row, count + event] * 2.0**-32)
            reached = landed[:, -1]
            if np.minimum.reduce(reached) >= places:
                break
        if len(rows) == 1:
            return rows[0], columns[0], shares[0]
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(shares)

    def _make_ahead(self, draw: int, count: int, turns: int) -> Array:
        """Return a draw of this turn and those after it, (turns, worlds, count)."""
        place = (
            np.tile(self._numbers, turns),
            np.tile(self._episode, turns),
            (self._turn + np.arange(turns)[:, None]).ravel(),
        )
        return self._stream.bits(place, draw, count).reshape(turns, -1, count)
