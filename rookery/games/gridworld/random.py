"""The random numbers of all worlds.

A number is addressed by world, episode, turn and draw, so world 5 of 16 gets the same
numbers as world 5 on its own, and a repeated turn gets the same numbers again. With few
worlds, the numbers of several turns are generated in one call, because a call costs more
than the numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from rookery.rng import Purpose, Stream
from rookery.specs import Array

NUMBERS_PER_CALL = 8192
NONE_YET = np.empty(0, np.uint32)
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
    """Random numbers for the current episode and turn of each world."""

    def __init__(self, seed: int, numbers: Array, episode: Array, turn: Array) -> None:
        self._stream = Stream(seed, Purpose.WORLD)
        self._numbers, self._episode, self._turn = numbers, episode, turn
        self._draw = 0
        self._turns_begun = 0
        self._ahead: dict[tuple[int, int], tuple[int, Array]] = {}

    def begin(self) -> None:
        """Begin a turn; every world's turn has increased by one."""
        self._draw = 0
        self._turns_begun += 1

    def forget(self) -> None:
        """Drop numbers generated ahead, after any other change of episodes or turns."""
        self._ahead.clear()

    def bits(self, count: int) -> Array:
        """Return the next draw: (worlds, count) uint32."""
        self._draw += 1
        return self.bits_at(self._draw - 1, count)

    def bits_at(self, draw: int, count: int) -> Array:
        """Return the draw with this number: (worlds, count) uint32."""
        turns = NUMBERS_PER_CALL // (count * len(self._numbers))
        if turns < 2:
            address = (self._numbers, self._episode, self._turn)
            return self._stream.bits(address, draw, count)
        first, ahead = self._ahead.get((draw, count), (-turns, NONE_YET))
        if self._turns_begun >= first + turns:
            first, ahead = self._turns_begun, self._generate_ahead(draw, count, turns)
            self._ahead[draw, count] = (first, ahead)
        return ahead[self._turns_begun - first]

    def skips(self, probability: float, slots: int) -> tuple[Array, Array, Array]:
        """Draw an event with some probability in each slot of every world.

        Returns the worlds (by position) and slots with an event, and a number in [0, 1)
        for each. Instead of a number per slot, the number of slots until the next event is
        drawn, from a table of integers, so rare events cost next to nothing.
        """
        table = _skip_table(probability, slots)
        count = _number_of_skips(probability, slots)
        rows: list[Array] = []
        columns, shares = [], []
        reached = np.full(len(self._numbers), -1)
        self._draw += 1  # once, so that the draws of a world do not depend on the others
        while True:
            start = 2 * count * len(rows)
            bits = self.bits_at(self._draw - 1, start + 2 * count)[:, start:]
            jumps = np.searchsorted(table, bits[:, :count], side="right") + 1
            landed = reached[:, None] + jumps.cumsum(axis=1)
            row, event = np.nonzero(landed < slots)
            rows.append(row)
            columns.append(landed[row, event])
            shares.append(bits[row, count + event] * 2.0**-32)
            reached = landed[:, -1]
            if np.minimum.reduce(reached) >= slots:
                break
        if len(rows) == 1:
            return rows[0], columns[0], shares[0]
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(shares)

    def _generate_ahead(self, draw: int, count: int, turns: int) -> Array:
        """Return a draw for this turn and the next ones, (turns, worlds, count)."""
        address = (
            np.tile(self._numbers, turns),
            np.tile(self._episode, turns),
            (self._turn + np.arange(turns)[:, None]).ravel(),
        )
        return self._stream.bits(address, draw, count).reshape(turns, -1, count)
