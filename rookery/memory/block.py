"""Named arrays in one piece of mapped memory.

A `Plan` says which arrays there are, and so how many bytes; a `Block` is the memory.
Memory is anonymous (`memfd_create`), allocated in full when it is made, and sealed, so
that nothing has a name that could be left behind, and what does not fit is an error at
once instead of a fault later. Every array starts on a cache line of its own.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rookery.errors import RookeryError
from rookery.specs import Array

LINE = 64
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class MemoryRefused(RookeryError):
    """The system does not give the memory that a run needs."""


@dataclass(frozen=True)
class Field:
    """One array: where it starts, and what it is."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def check_available(size: int) -> None:
    """Refuse what the machine does not have; the system would give until it must kill.

    Raises:
        MemoryRefused: in one line.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError), open("/proc/meminfo") as lines:
        free = next(int(x.split()[1]) << 10 for x in lines if x.startswith("MemAvailable"))
    if size > free:
        raise MemoryRefused(
            f"{size / 2**20:,.0f} MiB of memory cannot be had ({free / 2**20:,.0f} MiB are "
            "free): lower replay.capacity or worlds."
        )


class Plan:
    """Which arrays a block holds, and where; computed without allocating anything."""

    def __init__(self, arrays: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        self.fields: dict[str, Field] = {}
        offset = 0
        for name, (shape, dtype) in arrays.items():
            self.fields[name] = Field(offset, tuple(shape), np.dtype(dtype))
            size = prod(shape) * np.dtype(dtype).itemsize
            offset += -(-size // LINE) * LINE
        self.bytes = max(offset, LINE)


class Block:
    """The memory of a plan; `block[name]` is an array in it."""

    def __init__(self, plan: Plan, descriptor: int) -> None:
        self.plan, self.descriptor = plan, descriptor
        self._map = mmap.mmap(descriptor, plan.bytes)
        self.arrays: dict[str, Array] = {
            name: np.ndarray(field.shape, field.dtype, self._map, field.offset)
            for name, field in plan.fields.items()
        }

    @classmethod
    def create(cls, plan: Plan) -> Block:
        """Allocate a block, all zeros."""
        check_available(plan.bytes)
        descriptor = os.memfd_create("rookery", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(descriptor, 0, plan.bytes)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except OSError as error:
            os.close(descriptor)
            raise MemoryRefused(
                f"{plan.bytes / 2**20:,.0f} MiB of memory cannot be had "
                f"({error.strerror}): lower replay.capacity or worlds."
            ) from error
        return cls(plan, descriptor)

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def close(self) -> None:
        """Let go of the memory; arrays that are still in use keep it until they go."""
        self.arrays.clear()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
