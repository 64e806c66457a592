"""Prioritised replay: transitions are sampled in proportion to their TD errors.

Only the leaves of the sum tree are state. An inner node is always the sum of its two
children, so trees with the same leaves are the same tree, whatever their history.
"""

from __future__ import annotations

import numpy as np

from rookery.config.agent import ReplayConfig
from rookery.kernels import kernel
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
        leaves = np.empty(len(uniforms), np.int64)
        _find(self._tree, uniforms * total, leaves)
        probability = self.leaves[leaves] / total
        weights = (len(self._reader.usable) * probability) ** -self._settings.correction
        return self._transitions(leaves), (weights / weights.max()).astype(np.float32)

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
        _set(self._tree, leaves, priorities)


# The root of a tree is node 1, the children of node n are 2n and 2n + 1, and the second
# half are the leaves.


@kernel
def _find(tree: Array, targets: Array, leaves: Array) -> None:
    """Write the leaf in which each target is, if all priorities are laid side by side."""
    first_leaf = len(tree) // 2
    for i in range(len(targets)):
        target, node = targets[i], 1
        while node < first_leaf:
            node *= 2
            if target >= tree[node]:
                target -= tree[node]
                node += 1
        leaves[i] = node - first_leaf


@kernel
def _set(tree: Array, leaves: Array, priorities: Array) -> None:
    """Set the priorities of leaves; of a leaf that comes twice, the last."""
    first_leaf = len(tree) // 2
    for i in range(len(leaves)):
        node = first_leaf + leaves[i]
        tree[node] = priorities[i]
        while node > 1:
            node //= 2
            tree[node] = tree[2 * node] + tree[2 * node + 1]
