"""States: stage 5 of the data path, what a learner publishes and an actor acts with.

Two slots and a version word per agent; version v lies in slot v mod 2. The slot being
written is never the one the word names, so a learner killed half-way leaves the previous
version whole. Besides the weights, a slot holds all that learning needs to go on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rookery.shm.block import Block, BlockLayout
from rookery.shm.counters import Counters, fence
from rookery.specs import Array

Shapes = Mapping[str, tuple[tuple[int, ...], Any]]
"""Array name to shape and type."""


class VersionedState:
    """The versions of one agent's state."""

    def __init__(self, block: Block, counters: Counters, counter: str) -> None:
        self._slots = [
            {
                name.split("/", 1)[1]: array
                for name, array in block.arrays.items()
                if name.startswith(f"{slot}/")
            }
            for slot in (0, 1)
        ]
        self._counters, self._counter = counters, counter
        self.names = tuple(self._slots[0])

    @staticmethod
    def layout(shapes: Shapes) -> BlockLayout:
        """Return the memory of two slots."""
        return BlockLayout(
            {f"{slot}/{name}": about for slot in (0, 1) for name, about in shapes.items()}
        )

    @property
    def version(self) -> int:
        """The newest whole version; -1 before the first."""
        return self._counters.load(self._counter) - 1

    def publish(self, version: int, arrays: Mapping[str, Array]) -> None:
        """Make this the newest version."""
        for name, target in self._slots[version % 2].items():
            target[...] = arrays[name]
        self._counters.store(self._counter, version + 1)

    def read_slot(self, slot: int) -> dict[str, Array]:
        """Return the arrays of a slot, whatever is in them: for their shapes."""
        return self._slots[slot]

    def newest(self, names: Collection[str]) -> tuple[int, dict[str, Array]]:
        """Return the newest version and whole copies of some of its arrays.

        A copy that was overtaken while it was made is thrown away, and made again.
        """
        while True:
            version = self.version
            slot = self._slots[version % 2]
            copies = {name: slot[name].copy() for name in names}
            fence()
            if self.version == version:
                return version, copies

    def read(self, version: int) -> dict[str, Array]:
        """Return the arrays of an exact version, in place.

        It is one of the two newest; a round starts only when all versions before it are
        whole, and its slots are not written before it is over.
        """
        newest = self.version
        if not max(0, newest - 1) <= version <= newest:
            raise AssertionError(f"version {version} is not there; the newest is {newest}")
        return self._slots[version % 2]
