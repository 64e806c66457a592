"""Single numbers that one process writes and others read, each alone in a cache line.

A fence stands before each store that commits and after each load that trusts, so that on
every processor the data is there before the number that promises it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np

from rookery.memory.block import LINE, Block, Plan

_fence_lock = threading.Lock()
_fence_lock.acquire()


def fence() -> None:
    """Let no load or store pass: releasing and taking a private lock is a full barrier."""
    _fence_lock.release()
    _fence_lock.acquire()


class Words:
    """Named numbers in a block; they start at 0."""

    def __init__(self, block: Block) -> None:
        self._block = block

    @staticmethod
    def plan(names: Iterable[str]) -> Plan:
        """Return a plan with one cache line per word."""
        return Plan({name: ((LINE // 8,), np.int64) for name in names})

    def store(self, name: str, value: int) -> None:
        """Commit: everything written before is seen by whoever sees this value."""
        fence()
        self._block[name][0] = value

    def load(self, name: str) -> int:
        """Return a word; what its writer wrote before it can be trusted."""
        value = int(self._block[name][0])
        fence()
        return value
