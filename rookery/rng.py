"""Every random number of a run, keyed and never counted.

A `Stream` belongs to one purpose under the run's seed. Asked for the numbers at some
place (a world's episode and turn, an agent's turn), it gives the same ones each time, in
any process and in any order, so that whatever is repeated after a crash repeats itself.
The generator is Philox4x32-10 (Salmon et al., 2011), written over numpy arrays: one call
serves all worlds, where a `numpy.random.Generator` per key would cost more than a game.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from rookery.specs import Array

ROUNDS = 10
MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
WEYL = np.array([0x9E3779B9, 0xBB67AE85], np.uint64)
LOW = np.uint64(0xFFFFFFFF)
HIGH = np.uint64(32)


class Purpose(IntEnum):
    """What a stream is for; two purposes never share a number."""

    WORLD = 1
    ORDER = 2
    PLAYER = 3
    RESET = 4
    ACTOR = 5
    NOISE = 6
    LEARNER = 7
    INITIAL = 8
    EVALUATION = 9
    LEARNER_NOISE = 10


def philox(counters: Array, round_keys: Array) -> Array:
    """Return Philox4x32-10 of `counters` (4, ...) under `round_keys`, as uint32."""
    even = counters[0::2].reshape(2, -1).astype(np.uint64)
    odd = counters[1::2].reshape(2, -1).astype(np.uint64)
    products = np.empty_like(even)
    for round_key in round_keys:
        np.multiply(even, MULTIPLIERS, out=products)
        np.right_shift(products[::-1], HIGH, out=even)
        even ^= odd
        even ^= round_key
        np.bitwise_and(products[::-1], LOW, out=odd)
    words = np.empty(counters.shape, np.uint32)
    words[0::2] = even.reshape(2, *counters.shape[1:])
    words[1::2] = odd.reshape(2, *counters.shape[1:])
    return words


def round_keys(key: Array) -> Array:
    """Return the key of every round, (ROUNDS, 2, 1) uint64, from a key of two words."""
    rounds = np.arange(ROUNDS, dtype=np.uint64)[:, None]
    return ((key.astype(np.uint64) + rounds * WEYL) & LOW)[:, :, None]


class Stream:
    """Random numbers for one purpose (and agent) under a seed, addressed by place."""

    def __init__(self, seed: int, purpose: Purpose, *path: int) -> None:
        sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *path))
        self._keys = round_keys(sequence.generate_state(2, np.uint32))

    def bits(self, place: tuple[Array | int, ...], draw: int, count: int) -> Array:
        """Return (n, count) uint32 for n places; a longer draw starts like a shorter.

        Args:
            place: up to three coordinates, such as (world, episode, turn), each a number
                or an array of n.
            draw: which draw at this place; below 4096.
            count: numbers per place; at most 4,194,304.
        """
        blocks = -(-count // 4)
        rows = [np.atleast_1d(np.asarray(coordinate)) for coordinate in place]
        counters = np.zeros((4, max(len(row) for row in rows), blocks), np.uint64)
        counters[0] = np.arange(blocks, dtype=np.uint64) + np.uint64(draw << 20)
        for i, row in enumerate(rows, start=1):
            counters[i] = row[:, None]
        words = philox(counters, self._keys)  # (4, n, blocks)
        return words.transpose(1, 2, 0).reshape(words.shape[1], -1)[:, :count]

    def uniform(self, place: tuple[Array | int, ...], draw: int, count: int) -> Array:
        """Return (n, count) float64 in [0, 1), each a multiple of 2**-32."""
        return self.bits(place, draw, count) * 2.0**-32

    def integers(
        self, place: tuple[Array | int, ...], draw: int, count: int, below: int
    ) -> Array:
        """Return (n, count) int64 in [0, below), for `below` up to 2**32."""
        product = self.bits(place, draw, count).astype(np.uint64) * np.uint64(below)
        return (product >> HIGH).astype(np.int64)


def order(bits: Array) -> Array:
    """Return the permutation that sorts each row of random `bits`; ties by position."""
    return np.argsort(bits, axis=-1, kind="stable")
