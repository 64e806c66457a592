"""Single numbers that one process writes and others read, each alone in a cache line.

A fence stands before each store that commits and after each load that trusts, so that on
every processor the data is there before the number that promises it. Words only grow, so
a process may wait for one value after the other. It does so in the kernel, on the word
itself (a futex): nobody holds anything that could be lost with a killed process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np

from rookery.shm.block import LINE, Block, BlockLayout
from rookery.shm.futex import wait_for_change, wake

_fence_lock = threading.Lock()
_fence_lock.acquire()


def fence() -> None:
    """Let no load or store pass: releasing and taking a private lock is a full barrier."""
    _fence_lock.release()
    _fence_lock.acquire()


class Counters:
    """Named numbers in a block; they start at 0."""

    def __init__(self, block: Block) -> None:
        self._cells = {
            name: array.data.cast("B").cast("q") for name, array in block.arrays.items()
        }
        self._addresses = {
            name: int(array.ctypes.data) for name, array in block.arrays.items()
        }

    @staticmethod
    def layout(names: Iterable[str]) -> BlockLayout:
        """Return a plan with one cache line per word."""
        return BlockLayout({name: ((LINE // 8,), np.int64) for name in names})

    def store(self, name: str, value: int) -> None:
        """Commit: everything written before is seen by whoever sees this value."""
        fence()
        self._cells[name][0] = value
        fence()  # whatever is overwritten next is overwritten after this
        wake(self._addresses[name])

    def note(self, name: str, value: int) -> None:
        """Write a number that promises nothing, such as a time spent; nobody is woken."""
        self._cells[name][0] = value

    def load(self, name: str) -> int:
        """Return a word; what its writer wrote before it can be trusted."""
        value = self._cells[name][0]
        fence()
        return value

    def wait(self, name: str, at_least: int, seconds: float) -> bool:
        """Wait until a word has grown to a value; False if it did not in this time.

        Waiting may end early, so whoever waits asks again.
        """
        value = self.load(name)
        if value >= at_least:
            return True
        wait_for_change(self._addresses[name], value, seconds)
        return self.load(name) >= at_least
