"""Counters: how processes tell each other what is complete.

There is a fence before each store that commits data and after each load that relies on it,
so that on every processor the data is visible before the counter that announces it.
Counters only grow, so a process that needs several can wait for one after the other. It
waits in the kernel, on the counter itself (a futex): no process holds anything that could
be lost when it is killed.
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
    """Keep every load and store on its side of this call, for all processors.

    A release keeps earlier accesses before it and an acquire keeps later ones after it, and
    the two cannot swap, not even on ARM: both are atomic accesses of the same lock.
    """
    _fence_lock.release()
    _fence_lock.acquire()


def version_of(agent: str) -> str:
    """Return the name of the counter of an agent's newest complete version, + 1."""
    return f"version {agent}"


def beat_of(role: str) -> str:
    """Return the name of the counter of a process's signs of life."""
    return f"{role} beat"


def time_of(role: str, kind: str) -> str:
    """Return the name of the counter of nanoseconds that a process spent on something.

    Args:
        role: of the process.
        kind: 'work', 'wait' or 'protocol'.
    """
    return f"{role} {kind}"


class Counters:
    """Named counters in a block; they start at 0.

    A counter is a 64-bit integer on its own cache line, with a single writer. The one rule:
    everything that a counter announces is written before the counter is.
    """

    def __init__(self, block: Block) -> None:
        self._values = {
            name: array.data.cast("B").cast("q") for name, array in block.arrays.items()
        }
        self._addresses = {
            name: int(array.ctypes.data) for name, array in block.arrays.items()
        }

    @staticmethod
    def layout(names: Iterable[str]) -> BlockLayout:
        """Return a layout with one cache line per counter."""
        return BlockLayout({name: ((LINE // 8,), np.int64) for name in names})

    def store(self, name: str, value: int) -> None:
        """Commit: a process that loads this value sees everything written before it."""
        fence()
        self._values[name][0] = value
        fence()  # what is overwritten next is overwritten after this
        wake(self._addresses[name])

    def note(self, name: str, value: int) -> None:
        """Write a value that announces nothing, such as a time, and wake no process."""
        self._values[name][0] = value

    def load(self, name: str) -> int:
        """Return a counter; everything written before it was stored is now visible."""
        value = self._values[name][0]
        fence()
        return value

    def wait(self, name: str, at_least: int, seconds: float) -> bool:
        """Wait until a counter has reached a value; return whether it has.

        The wait can end early, so call it in a loop.
        """
        value = self.load(name)
        if value >= at_least:
            return True
        wait_for_change(self._addresses[name], value, seconds)
        return self.load(name) >= at_least
