"""Prioritised replay: transitions are sampled in proportion to their TD errors.

Only the leaves of the sum tree are state. An inner node is always the sum of its two
children, so trees with the same leaves are the same tree, whatever their history.
"""

from __future__ import annotations

import numpy as np

from rookery.config.agent import ReplayConfig
from rookery.replay.buffer import ReplayReader
from rookery.specs import Array

SMALLEST = 1e-3


class Priorities:
    """The priorities of a replay's transitions, in a sum tree with one leaf per row."""

    def __init__(self, settings: ReplayConfig, reader: ReplayReader) -> None:
        self._settings, self._reader = settings, reader
        self._rows = reader.rows.slots * reader.worlds
        self._leaves = 1 << max(1, (self._rows - 1).bit_length())
        self._tree = np.zeros(2 * self._leaves, np.float64)
        self.largest = 1.0

    @property
    def leaves(self) -> Array:
        """The priority of the transition that opens in each row, (slots * worlds,)."""
        return self._tree[self._leaves : self._leaves + self._rows]

    def load(self, leaves: Array, largest: float) -> None:
        """Set the leaves and the largest priority so far, from a state."""
        self.leaves[...] = leaves
        self.largest = float(largest)
        level = self._leaves
        while level > 1:
            level //= 2
            children = self._tree[2 * level : 4 * level]
            self._tree[level : 2 * level] = children[0::2] + children[1::2]

    def advance(self, new: Array) -> None:
        """Give new transitions the largest priority; remove those that left the window."""
        usable = np.zeros(self._rows, bool)
        usable[self._leaf(self._reader.usable)] = True
        gone = np.flatnonzero((self.leaves > 0) & ~usable)
        self._set(gone, np.zeros(len(gone)))
        self._set(self._leaf(new), np.full(len(new), self.largest))

    def sample(self, uniforms: Array) -> tuple[Array, Array]:
        """Return transitions for numbers in [0, 1), and their importance weights."""
        total = self._tree[1]
        target = uniforms * total
        node = np.ones(len(uniforms), np.int64)
        while node[0] < self._leaves:
            left = self._tree[2 * node]
            goes_right = target >= left
            target = np.where(goes_right, target - left, target)
            node = 2 * node + goes_right
        transitions = self._transitions(node - self._leaves)
        probability = self._tree[node] / total
        weights = (len(self._reader.usable) * probability) ** -self._settings.correction
        return transitions, (weights / weights.max()).astype(np.float32)

    def update(self, transitions: Array, errors: Array) -> None:
        """Set the priorities of transitions from their newest TD errors."""
        finite = np.isfinite(errors)
        if not finite.any():
            return
        transitions, errors = transitions[finite], errors[finite]
        exponent = self._settings.exponent
        priorities = (np.abs(errors).astype(np.float64) + SMALLEST) ** exponent
        self.largest = max(self.largest, float(priorities.max()))
        self._set(self._leaf(transitions), priorities)

    def _leaf(self, transitions: Array) -> Array:
        turns, worlds = self._reader.opening(transitions)
        return (turns % self._reader.rows.slots) * self._reader.worlds + worlds

    def _transitions(self, leaves: Array) -> Array:
        """Return the transitions of leaves: those of the newest turns in these slots."""
        slots, worlds = np.divmod(leaves, self._reader.worlds)
        newest = self._reader.boundary - 1
        turns = newest - (newest - slots) % self._reader.rows.slots
        return turns * self._reader.worlds + worlds

    def _set(self, leaves: Array, priorities: Array) -> None:
        node = self._leaves + leaves
        self._tree[node] = priorities
        while len(node) and node[0] > 1:
            node = node >> 1  # a parent of two leaves gets the same sum twice
            self._tree[node] = self._tree[2 * node] + self._tree[2 * node + 1]
