"""Blocks: memory that processes share."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.errors import RookeryError
from rookery.shm.block import LINE, Block, BlockLayout, MemoryRefused

SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
DTYPES = st.sampled_from(["bool", "uint8", "int16", "float32", "int64", "S3"])


@pytest.fixture
def block() -> Iterator[Block]:
    block = Block.create(BlockLayout({"a": ((3,), np.uint8), "b": ((2, 5), np.float64)}))
    yield block
    block.close()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Have the system refuse larger files; anonymous memory counts as a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def descriptors() -> set[str]:
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


# The layout.


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SHAPES, DTYPES), max_size=6))
def test_no_two_arrays_share_a_line(arrays):
    layout = BlockLayout({str(i): array for i, array in enumerate(arrays)})

    end = 0
    for field in layout.fields.values():
        assert field.offset % LINE == 0
        assert field.offset >= end
        end = field.offset + int(np.prod(field.shape, dtype=int)) * field.dtype.itemsize
    assert layout.bytes >= end
    assert layout.bytes % LINE == 0


def test_a_layout_allocates_nothing():
    before = descriptors()

    layout = BlockLayout({"huge": ((2**50,), np.float64)})

    assert layout.bytes == 2**53
    assert descriptors() == before


def test_a_layout_without_arrays_is_a_block_too():
    block = Block.create(BlockLayout({}))

    assert block.arrays == {}
    block.close()


# The memory.


def test_arrays_have_the_shape_and_type_of_the_layout(block):
    assert block["a"].shape == (3,)
    assert block["a"].dtype == np.uint8
    assert block["b"].shape == (2, 5)
    assert block["b"].dtype == np.float64


def test_every_array_starts_on_its_own_line(block):
    assert address(block["a"]) % LINE == 0
    assert address(block["b"]) % LINE == 0
    assert address(block["a"]) // LINE != address(block["b"]) // LINE


def test_memory_starts_at_zero(block):
    assert not block["a"].any()
    assert not block["b"].any()


def test_another_mapping_of_the_descriptor_sees_what_is_written(block):
    other = Block(block.layout, os.dup(block.descriptor))

    block["b"][1, 4] = 2.5

    assert other["b"][1, 4] == 2.5
    other.close()


def test_memory_is_allocated_in_full_when_it_is_created():
    block = Block.create(BlockLayout({"rows": ((2**20,), np.uint8)}))

    assert os.fstat(block.descriptor).st_blocks * 512 >= 2**20
    block.close()


@pytest.mark.parametrize("size", [0, 64, 2**20], ids=["empty", "smaller", "larger"])
def test_memory_is_sealed_against_resizing(block, size):
    with pytest.raises(PermissionError):
        os.ftruncate(block.descriptor, size)


def test_seals_are_sealed(block):
    with pytest.raises(PermissionError):
        fcntl.fcntl(block.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_a_process_gets_the_descriptor_only_if_it_is_passed(block):
    assert not os.get_inheritable(block.descriptor)


@pytest.mark.shows("B14")
def test_nothing_has_a_name_in_dev_shm():
    before = set(Path("/dev/shm").iterdir())

    block = Block.create(BlockLayout({"a": ((1000,), np.uint8)}))

    assert set(Path("/dev/shm").iterdir()) == before
    block.close()


# Releasing it.


def test_a_closed_block_leaves_no_descriptor():
    before = descriptors()
    block = Block.create(BlockLayout({"a": ((1000,), np.uint8)}))

    block.close()
    del block

    assert descriptors() == before


def test_a_block_can_be_closed_twice(block):
    block.close()

    block.close()


def test_an_array_in_use_stays_readable_after_the_block_is_closed(block):
    array = block["a"]
    array[...] = 7

    block.close()

    assert array.tolist() == [7, 7, 7]


# Refusals.


def test_memory_that_cannot_be_allocated_is_refused_in_one_line():
    layout = BlockLayout({"rows": ((3 * 2**20,), np.uint8)})

    with files_of_at_most(2**20), pytest.raises(MemoryRefused) as refused:
        Block.create(layout)

    reason = os.strerror(errno.EFBIG)
    assert str(refused.value) == (
        f"cannot allocate 3 MiB of memory ({reason}): lower replay.capacity or worlds."
    )
    assert isinstance(refused.value, RookeryError)


def test_refused_memory_leaves_no_descriptor():
    before = descriptors()

    with files_of_at_most(2**20), pytest.raises(MemoryRefused):
        Block.create(BlockLayout({"rows": ((3 * 2**20,), np.uint8)}))

    assert descriptors() == before


def test_more_memory_than_the_machine_has_is_refused_before_allocating(monkeypatch):
    """The system would grant it, and kill a process when it runs out."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    calls = []
    monkeypatch.setattr(os, "posix_fallocate", lambda *arguments: calls.append(arguments))

    with pytest.raises(MemoryRefused, match="cannot allocate"):
        Block.create(BlockLayout({"rows": ((2 * pages,), np.uint8)}))

    assert calls == []


def test_private_memory_has_no_descriptor_and_is_written_like_any_other():
    before = len(os.listdir("/proc/self/fd"))
    block = Block.private(BlockLayout({"numbers": ((3,), np.int64)}))
    block["numbers"][:] = 7

    assert block["numbers"].tolist() == [7, 7, 7]
    assert len(os.listdir("/proc/self/fd")) == before
    block.close()
