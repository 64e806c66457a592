"""Named arrays in one piece of mapped memory.

A `BlockLayout` lists the arrays, and so determines the size; a `Block` is the memory.
Memory is anonymous (`memfd_create`), allocated in full when it is created, and sealed. So
no name can be left behind, and memory that does not fit is an error at once instead of a
fault later. A block can also be a file, which outlives all processes.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from rookery.errors import ConfigError
from rookery.shm.limits import cgroup_bytes_left
from rookery.specs import Array

LINE = 64
FILES_PER_BLOCK = 2
"""A block has its descriptor, and Python's mmap another one."""
SPARE_FILES = 64
"""How many files a process can open besides its blocks: logs, checkpoints, children."""
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class MemoryRefused(ConfigError):
    """The memory that a run's settings ask for cannot be allocated."""


@dataclass(frozen=True)
class Field:
    """One array of a block: its offset in bytes, its shape and its type."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def check_available(size: int) -> None:
    """Check that so many bytes are available, before the system has to kill a process.

    Raises:
        MemoryRefused: if they are not.
    """
    free = available()
    if size > free:
        raise MemoryRefused(
            f"cannot allocate {size / 2**20:,.0f} MiB of memory ({free / 2**20:,.0f} MiB "
            "are free): lower replay.capacity or worlds."
        )


def allow_open_files(count: int) -> None:
    """Raise this process's limit so that it can open so many files more.

    Raises:
        MemoryRefused: if the system does not allow that many.
    """
    needed = count + len(os.listdir("/proc/self/fd")) + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise MemoryRefused(
            f"the run needs {needed:,} open files, about four per agent, but the system "
            f"allows {hard:,}: train fewer agents, or raise the limit (`ulimit -Hn`)."
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def available() -> int:
    """Return how many bytes are free and within the limits of our control groups."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError), open("/proc/meminfo") as lines:
        free = next(int(x.split()[1]) << 10 for x in lines if x.startswith("MemAvailable"))
    allowed = cgroup_bytes_left()
    return free if allowed is None else min(free, allowed)


class BlockLayout:
    """Which arrays a block holds, and where; nothing is allocated.

    Every array starts on its own cache line.
    """

    def __init__(self, arrays: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        self.fields: dict[str, Field] = {}
        offset = 0
        for name, (shape, dtype) in arrays.items():
            self.fields[name] = Field(offset, tuple(shape), np.dtype(dtype))
            size = prod(shape) * np.dtype(dtype).itemsize
            offset += -(-size // LINE) * LINE
        self.bytes = max(offset, LINE)

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plain data."""
        return {
            name: [field.shape, dtype_to_descr(field.dtype)]
            for name, field in self.fields.items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BlockLayout:
        """Return the layout that `to_json` described."""
        return cls(
            {
                name: (tuple(shape), descr_to_dtype(_tuples(descr)))
                for name, (shape, descr) in data.items()
            }
        )


def _tuples(descr: Any) -> Any:
    """Return a type's description with the tuples that numpy needs; JSON has only lists."""
    if isinstance(descr, str):
        return descr
    return [
        (name, _tuples(kind), *(tuple(shape) for shape in rest))
        for name, kind, *rest in descr
    ]


def _refused(layout: BlockLayout, resource: str, error: OSError) -> MemoryRefused:
    return MemoryRefused(
        f"cannot allocate {layout.bytes / 2**20:,.0f} MiB of {resource} "
        f"({error.strerror}): lower replay.capacity or worlds."
    )


class Block:
    """Memory that processes share: `block[name]` is an array in it.

    The one rule: a block never changes its size. It is allocated in full before any other
    process maps it, so that no access can fail later.
    """

    def __init__(self, layout: BlockLayout, descriptor: int) -> None:
        self.layout, self.descriptor = layout, descriptor
        self._map = mmap.mmap(descriptor, layout.bytes)
        self.arrays: dict[str, Array] = {
            name: np.ndarray(field.shape, field.dtype, self._map, field.offset)
            for name, field in layout.fields.items()
        }

    @classmethod
    def create(cls, layout: BlockLayout) -> Block:
        """Allocate an anonymous block, filled with zeros."""
        check_available(layout.bytes)
        try:
            descriptor = os.memfd_create("rookery", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as error:
            raise _refused(layout, "memory", error) from error
        try:
            os.posix_fallocate(descriptor, 0, layout.bytes)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        except OSError as error:
            os.close(descriptor)
            raise _refused(layout, "memory", error) from error
        return cls(layout, descriptor)

    @classmethod
    def private(cls, layout: BlockLayout) -> Block:
        """Return a block of this process alone; it is freed with its last array."""
        return cls(layout, -1)

    @classmethod
    def create_file(cls, layout: BlockLayout, path: Path) -> Block:
        """Allocate a block as a new file, filled with zeros."""
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, layout.bytes)
        except OSError as error:
            os.close(descriptor)
            path.unlink()
            raise _refused(layout, f"disk space for {path}", error) from error
        return cls(layout, descriptor)

    @classmethod
    def open_file(cls, layout: BlockLayout, path: Path) -> Block:
        """Open a block that `create_file` created.

        Raises:
            MemoryRefused: if the file is missing or has another size.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise MemoryRefused(
                f"cannot open {path} ({error.strerror}): delete its folder to resume from "
                "the last checkpoint."
            ) from error
        size = os.fstat(descriptor).st_size
        if size != layout.bytes:
            os.close(descriptor)
            raise MemoryRefused(
                f"{path} has {size} bytes, expected {layout.bytes}: it belongs to another "
                "run or another version of Rookery; delete its folder to resume from the "
                "last checkpoint."
            )
        return cls(layout, descriptor)

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def close(self) -> None:
        """Release the memory; it is freed once no array in it is in use any more."""
        self.arrays.clear()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
