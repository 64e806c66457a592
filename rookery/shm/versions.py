"""Published states: stage 5 of the data path, from a learner to the actor.

The actor acts with the weights in a state. The rest of it is what a learner needs to
continue: target network, optimizer, counters, priorities. The actor's own snapshots are
published in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from typing import Any

from rookery.shm.block import Block, BlockLayout
from rookery.shm.counters import Counters, fence
from rookery.specs import Array

Shapes = Mapping[str, tuple[tuple[int, ...], Any]]
"""Array name to shape and type."""


class VersionedState:
    """The two newest versions of an agent's state, in two slots, and a version counter.

    Version v is in slot v mod 2. The one rule: the slot being written is never the one that
    the counter names, so a learner that is killed while writing leaves the previous version
    intact.
    """

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

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self._slots[0])

    def part(
        self, names: Collection[str], counter: str, worlds: slice = slice(None)
    ) -> VersionedState:
        """Return some of the arrays, or some worlds of them, with a counter of their own.

        Args:
            names: of the arrays.
            counter: the name of the counter that publishes this part.
            worlds: which entries of the first axis.
        """
        part = copy(self)
        part._counter = counter
        part._slots = [
            {name: array[worlds] for name, array in slot.items() if name in names}
            for slot in self._slots
        ]
        return part

    @staticmethod
    def layout(shapes: Shapes) -> BlockLayout:
        """Return the layout of two slots."""
        return BlockLayout(
            {f"{slot}/{name}": shape for slot in (0, 1) for name, shape in shapes.items()}
        )

    @property
    def version(self) -> int:
        """The newest complete version; -1 before the first."""
        return self._counters.load(self._counter) - 1

    def publish(self, version: int, arrays: Mapping[str, Array]) -> None:
        """Make this the newest version."""
        for name, target in self._slots[version % 2].items():
            target[...] = arrays[name]
        self._counters.store(self._counter, version + 1)

    def read_slot(self, slot: int) -> dict[str, Array]:
        """Return the arrays of a slot, whatever they contain: for their shapes."""
        return self._slots[slot]

    def newest(self, names: Collection[str]) -> tuple[int, dict[str, Array]]:
        """Return the newest version, and consistent copies of some of its arrays.

        If a newer version is published while copying, the copies are made again.
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

        It must be one of the two newest. A round starts only when all versions before it
        are complete, and the slots it reads are not written before it is over.
        """
        newest = self.version
        if not max(0, newest - 1) <= version <= newest:
            raise AssertionError(
                f"version {version} is not available; the newest is {newest}"
            )
        return self._slots[version % 2]
