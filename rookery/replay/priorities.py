"""Prioritised replay: steps drawn in proportion to how wrong they were.

Only leaves are state; an inner node is always the sum of its two children, so that two
trees with the same leaves are the same tree, however they came about.
"""

from __future__ import annotations

import numpy as np

from rookery.config.agent import ReplayConfig
from rookery.replay.buffer import ReplayReader
from rookery.specs import Array

SMALLEST = 1e-3


class Priorities:
    """A tree of sums over the places of a replay."""

    def __init__(self, settings: ReplayConfig, reader: ReplayReader) -> None:
        self._settings, self._reader = settings, reader
        self._places = reader.rows.slots * reader.worlds
        self._leaves = 1 << max(1, (self._places - 1).bit_length())
        self._tree = np.zeros(2 * self._leaves, np.float64)
        self.largest = 1.0

    @property
    def leaves(self) -> Array:
        """What each place weighs, (slots * worlds,)."""
        return self._tree[self._leaves : self._leaves + self._places]

    def load(self, leaves: Array, largest: float) -> None:
        """Take the leaves of a state."""
        self.leaves[...] = leaves
        self.largest = float(largest)
        level = self._leaves
        while level > 1:
            level //= 2
            children = self._tree[2 * level : 4 * level]
            self._tree[level : 2 * level] = children[0::2] + children[1::2]

    def take_in(self, new: Array) -> None:
        """Give steps that became usable the largest weight; drop what left the window."""
        usable = np.zeros(self._places, bool)
        usable[self._place(self._reader.usable)] = True
        gone = np.flatnonzero((self.leaves > 0) & ~usable)
        self._set(gone, np.zeros(len(gone)))
        self._set(self._place(new), np.full(len(new), self.largest))

    def draw(self, numbers: Array) -> tuple[Array, Array]:
        """Return steps for uniform numbers, and their importance weights."""
        total = self._tree[1]
        wanted = numbers * total
        node = np.ones(len(numbers), np.int64)
        while node[0] < self._leaves:
            left = self._tree[2 * node]
            right = wanted >= left
            wanted = np.where(right, wanted - left, wanted)
            node = 2 * node + right
        steps = self._steps(node - self._leaves)
        probability = self._tree[node] / total
        weights = (len(self._reader.usable) * probability) ** -self._settings.correction
        return steps, (weights / weights.max()).astype(np.float32)

    def update(self, steps: Array, errors: Array) -> None:
        """Weigh steps by their newest errors."""
        sound = np.isfinite(errors)
        if not sound.any():
            return
        steps, errors = steps[sound], errors[sound]
        weights = (np.abs(errors).astype(np.float64) + SMALLEST) ** self._settings.exponent
        self.largest = max(self.largest, float(weights.max()))
        self._set(self._place(steps), weights)

    def _place(self, steps: Array) -> Array:
        turns, worlds = self._reader.opening(steps)
        return (turns % self._reader.rows.slots) * self._reader.worlds + worlds

    def _steps(self, places: Array) -> Array:
        """Return the steps that lie in places: the newest turns that fit the slots."""
        slots, worlds = np.divmod(places, self._reader.worlds)
        newest = self._reader.boundary - 1
        turns = newest - (newest - slots) % self._reader.rows.slots
        return turns * self._reader.worlds + worlds

    def _set(self, places: Array, weights: Array) -> None:
        node = self._leaves + places
        self._tree[node] = weights
        while len(node) and node[0] > 1:
            node = node >> 1  # a parent that comes twice gets the same sum twice
            self._tree[node] = self._tree[2 * node] + self._tree[2 * node + 1]
