"""Counter-based random numbers: every number of a run is a function of its address.

A `Stream` belongs to one purpose under the run's seed. For an address (a world's episode
and turn, an agent's turn) it returns the same numbers each time, in any process and in any
order, so whatever is repeated after a crash gives the same result. The generator is
Philox4x32-10 (Salmon et al., 2011) over numpy arrays: one call serves all worlds, where a
`numpy.random.Generator` per key would cost more than a game.
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
    """What a stream is used for; streams of different purposes are independent."""

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
    PROBE = 11
    AFTER_TRAINING = 12


def keyed_seed(seed: int, purpose: Purpose, *path: int) -> int:
    """Return a seed for one purpose under a seed, below 2**63.

    Unlike a sum, it differs from the seeds of other purposes, paths and seeds.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *path))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


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
    output = np.empty(counters.shape, np.uint32)
    output[0::2] = even.reshape(2, *counters.shape[1:])
    output[1::2] = odd.reshape(2, *counters.shape[1:])
    return output


def round_keys(key: Array) -> Array:
    """Return the key of every Philox round, (ROUNDS, 2, 1) uint64, from two uint32."""
    rounds = np.arange(ROUNDS, dtype=np.uint64)[:, None]
    return ((key.astype(np.uint64) + rounds * WEYL) & LOW)[:, :, None]


class Stream:
    """Random numbers for one purpose (and agent) under a seed, by address."""

    def __init__(self, seed: int, purpose: Purpose, *path: int) -> None:
        sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *path))
        self._keys = round_keys(sequence.generate_state(2, np.uint32))

    def bits(self, address: tuple[Array | int, ...], draw: int, count: int) -> Array:
        """Return (n, count) uint32 for n addresses; a longer draw extends a shorter one.

        Args:
            address: up to three coordinates, such as (world, episode, turn), each a number
                or an array of n.
            draw: the number of the draw at this address; below 4096.
            count: numbers per address; at most 4,194,304.
        """
        blocks = -(-count // 4)
        rows = [np.atleast_1d(np.asarray(coordinate)) for coordinate in address]
        counters = np.zeros((4, max(len(row) for row in rows), blocks), np.uint64)
        counters[0] = np.arange(blocks, dtype=np.uint64) + np.uint64(draw << 20)
        for i, row in enumerate(rows, start=1):
            counters[i] = row[:, None]
        numbers = philox(counters, self._keys)  # (4, n, blocks)
        return numbers.transpose(1, 2, 0).reshape(numbers.shape[1], -1)[:, :count]

    def uniform(self, address: tuple[Array | int, ...], draw: int, count: int) -> Array:
        """Return (n, count) float64 in [0, 1), each a multiple of 2**-32."""
        return self.bits(address, draw, count) * 2.0**-32

    def integers(
        self, address: tuple[Array | int, ...], draw: int, count: int, below: int
    ) -> Array:
        """Return (n, count) int64 in [0, below), for `below` up to 2**32.

        Multiply-shift without rejection: the probability of each integer differs from
        1 / below by less than 2**-32, a relative bias of less than below / 2**32. Rejection
        would need a varying number of draws per address.
        """
        product = self.bits(address, draw, count).astype(np.uint64) * np.uint64(below)
        return (product >> HIGH).astype(np.int64)


def order(bits: Array) -> Array:
    """Return a random permutation per row: the one that sorts `bits`, ties by position."""
    return np.argsort(bits, axis=-1, kind="stable")
