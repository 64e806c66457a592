"""Counter-based random numbers: every number of a run is a function of its address.

A `Stream` belongs to one purpose under the run's seed. For an address (a world's episode
and turn, an agent's turn) it returns the same numbers each time, in any process and in any
order, so whatever is repeated after a crash gives the same result. The generator is
Philox4x32-10 (Salmon et al., 2011), compiled: one call serves all worlds, where a
`numpy.random.Generator` per key would cost more than a game.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from rookery.kernels import kernel
from rookery.specs import Array

ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = np.array([0x9E3779B9, 0xBB67AE85], np.uint64)
LOW = np.uint64(0xFFFFFFFF)
HIGH = np.uint64(32)
COORDINATES = 3
"""The most that an address consists of."""


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
    SEARCH = 13


def keyed_seed(seed: int, purpose: Purpose, *path: int) -> int:
    """Return a seed for one purpose under a seed, below 2**63.

    Unlike a sum, it differs from the seeds of other purposes, paths and seeds.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *path))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


@kernel
def philox(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, round_keys: Array
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return Philox4x32-10 of a counter; numbers are uint64, and below 2**32."""
    for i in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a = (second >> HIGH) ^ b ^ round_keys[i, 0]
        c = (first >> HIGH) ^ d ^ round_keys[i, 1]
        b, d = second & LOW, first & LOW
    return a, b, c, d


@kernel
def _draw(numbers: Array, addresses: Array, first: np.uint64, round_keys: Array) -> None:
    """Write the bits of every address, four at a time, into a row of `numbers`."""
    addressed, count = numbers.shape
    for i in range(addressed):
        x, y, z = addresses[0, i], addresses[1, i], addresses[2, i]
        for start in range(0, count, 4):
            bits = philox(first + np.uint64(start // 4), x, y, z, round_keys)
            for k in range(min(4, count - start)):
                numbers[i, start + k] = bits[k]


def round_keys(key: Array) -> Array:
    """Return the key of every Philox round, (ROUNDS, 2) uint64, from two uint32."""
    rounds = np.arange(ROUNDS, dtype=np.uint64)[:, None]
    return (key.astype(np.uint64) + rounds * WEYL) & LOW


class Stream:
    """Random numbers for one purpose (and agent) under a seed, by address."""

    def __init__(self, seed: int, purpose: Purpose, *path: int) -> None:
        sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *path))
        self.round_keys = round_keys(sequence.generate_state(2, np.uint32))
        """The key of every Philox round, (ROUNDS, 2) uint64, for compiled loops."""

    def bits(self, address: tuple[Array | int, ...], draw: int, count: int) -> Array:
        """Return (n, count) uint32 for n addresses; a longer draw extends a shorter one.

        Args:
            address: up to three coordinates, such as (world, episode, turn), each a number
                or an array of n.
            draw: the number of the draw at this address; below 4096.
            count: numbers per address; at most 4,194,304.
        """
        coordinates = [np.asarray(coordinate) for coordinate in address]
        rows = max(coordinate.size for coordinate in coordinates)
        addresses = np.zeros((COORDINATES, rows), np.uint64)
        for i, coordinate in enumerate(coordinates):
            addresses[i] = coordinate
        numbers = np.empty((rows, count), np.uint32)
        _draw(numbers, addresses, np.uint64(draw << 20), self.round_keys)
        return numbers

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
