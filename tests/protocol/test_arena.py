"""The arena: all memory of a run, whose size is known before any of it is allocated."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from rookery.protocol.arena import (
    COMMIT,
    GATE,
    HANDED,
    MATCHES,
    SNAPSHOT,
    AgentMemory,
    Arena,
)
from rookery.replay.rows import Rows, row_dtype
from rookery.shm import block as block_module
from rookery.shm.block import Block, MemoryRefused
from rookery.shm.counters import beat_of, time_of, version_of
from rookery.specs import AgentSpec, Part

WORLDS, SLOTS = 3, 10
LEARNER = AgentSpec("a", "bird", {"view": Part((2,), np.dtype(np.uint8))}, ("x", "y"))
SCRIPTED = AgentSpec("b", "bird", {"far": Part((9,), np.dtype(np.float32))}, ("x",))


def planned() -> Arena:
    weights = {"weights": ((5,), np.float32)}
    return Arena.planned(
        WORLDS,
        [AgentMemory(LEARNER, SLOTS, weights), AgentMemory(SCRIPTED, 4, None)],
        {"turn": ((1,), np.int64)},
    )


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = planned()
    arena.allocate()
    yield arena
    arena.close()


def descriptors() -> set[str]:
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


def test_the_size_is_known_before_anything_is_allocated():
    before = descriptors()

    size = planned().bytes

    rows = SLOTS * row_dtype(LEARNER, WORLDS).itemsize
    assert size >= rows + 4 * row_dtype(SCRIPTED, WORLDS).itemsize + 2 * 5 * 4
    assert size % 64 == 0
    assert descriptors() == before


def test_what_is_allocated_is_what_was_planned(monkeypatch):
    blocks = []
    create = Block.create
    monkeypatch.setattr(
        Block, "create", lambda layout: blocks.append(create(layout)) or blocks[-1]
    )
    arena = planned()

    arena.allocate()

    assert sum(os.fstat(block.descriptor).st_size for block in blocks) == arena.bytes
    arena.close()


def test_rows_have_the_agents_own_slots_and_parts(arena):
    assert arena.rows("a").slots == SLOTS
    assert arena.rows("a").parts["view"].shape == (SLOTS, WORLDS, 2)
    assert arena.rows("b").slots == 4
    assert arena.rows("b").parts["far"].shape == (4, WORLDS, 9)


def test_rows_are_the_same_each_time(arena):
    arena.rows("a").columns["reward"][3, 1] = 2.5

    assert arena.rows("a").columns["reward"][3, 1] == 2.5
    assert not arena.rows("b").columns["reward"].any()


def test_an_agent_with_a_state_has_a_version_counter(arena):
    arena.states("a").publish(4, {"weights": np.arange(5)})

    assert arena.counters.load(version_of("a")) == 5
    assert arena.states("a").version == 4
    assert arena.states("a").read(4)["weights"].tolist() == [0, 1, 2, 3, 4]


def test_an_agent_without_a_state_has_no_version_counter(arena):
    with pytest.raises(KeyError, match=version_of("b")):
        arena.counters.load(version_of("b"))


def test_snapshots_are_versions_by_boundary(arena):
    arena.snapshots().publish(2, {"turn": np.array([100])})

    assert arena.counters.load(SNAPSHOT) == 3
    assert arena.snapshots().read(2)["turn"].tolist() == [100]


def test_counters_start_at_zero(arena):
    assert [arena.counters.load(name) for name in (COMMIT, GATE, SNAPSHOT)] == [0, 0, 0]
    assert arena.counters.load(version_of("a")) == 0


@pytest.mark.shows("B14")
def test_a_run_leaves_no_name_and_no_descriptor_behind():
    descriptors_before, names_before = descriptors(), os.listdir("/dev/shm")
    arena = planned()
    arena.allocate()
    named = os.listdir("/dev/shm")

    arena.close()
    del arena

    assert named == names_before
    assert os.listdir("/dev/shm") == names_before
    assert descriptors() == descriptors_before


def test_memory_refused_half_way_releases_what_was_allocated(monkeypatch):
    create, sizes = Block.create, []

    def refuse_the_third(layout):
        if len(sizes) == 2:
            raise MemoryRefused("enough")
        sizes.append(layout.bytes)
        return create(layout)

    monkeypatch.setattr(Block, "create", refuse_the_third)
    before = descriptors()

    with pytest.raises(MemoryRefused, match="enough"):
        planned().allocate()

    assert descriptors() == before


def test_more_memory_than_the_machine_has_is_refused_before_allocating(monkeypatch):
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    slots = int(0.6 * machine) // row_dtype(LEARNER, WORLDS).itemsize
    other = replace(LEARNER, id="c")
    arena = Arena.planned(
        WORLDS, [AgentMemory(spec, slots, None) for spec in (LEARNER, other)], {}
    )
    calls = []
    monkeypatch.setattr(os, "posix_fallocate", lambda *arguments: calls.append(arguments))

    with pytest.raises(MemoryRefused, match="cannot allocate"):
        arena.allocate()

    assert calls == []


@pytest.mark.shows("C7")
def test_sizes_are_those_of_replays_states_and_the_rest():
    arena = planned()

    sizes = arena.sizes()

    rows = [Rows.layout(LEARNER, WORLDS, SLOTS), Rows.layout(SCRIPTED, WORLDS, 4)]
    assert sizes["replays"] == sum(layout.bytes for layout in rows)
    assert sizes["states"] == 2 * 64  # two slots, one cache line each
    assert sum(sizes.values()) == arena.bytes


def test_reports_of_matches_are_kept_as_long_as_those_of_rounds():
    arena = Arena.planned(WORLDS, [], {}, reports=7)
    arena.allocate()

    for number in range(1, 8):
        arena.match_reports().write(number, number)

    assert [arena.match_reports().read(number) for number in range(1, 8)] == [*range(1, 8)]
    arena.close()


@pytest.mark.shows("A4", "B1")
def test_a_process_with_the_descriptors_sees_the_same_rows_and_counters(arena):
    described = json.loads(json.dumps(arena.describe(["a"])))
    copies = {
        name: {**block, "descriptor": os.dup(block["descriptor"])}
        for name, block in described.items()
    }

    attached = Arena.attach(copies)
    arena.rows("a").columns["reward"][3, 1] = 2.5
    arena.counters.store(COMMIT, 7)

    assert attached.rows("a").columns["reward"][3, 1] == 2.5
    assert attached.counters.load(COMMIT) == 7
    assert "rows b" not in described
    assert "snapshot" not in described
    attached.close()


@pytest.mark.shows("A5")
def test_all_counters_are_in_one_shared_block(arena):
    (block,) = [b for name, b in arena._blocks.items() if name == "words"]

    assert set(arena.counters._values) == set(block.arrays)
    assert {COMMIT, GATE, SNAPSHOT, HANDED, MATCHES, version_of("a")} <= set(block.arrays)
    names = {beat_of("actor"), time_of("worker 0", "work"), time_of("worker 0", "wait")}
    assert names <= set(block.arrays)


def test_an_arena_on_disk_has_one_file_per_block(tmp_path):
    arena = planned()

    arena.allocate(tmp_path / "memory")

    sizes = [path.stat().st_size for path in (tmp_path / "memory").iterdir()]
    assert sum(sizes) == arena.bytes
    assert len(sizes) == len(arena.describe())
    arena.close()


@pytest.fixture
def container(monkeypatch):
    """Have this process run in a container that allows so many more bytes."""

    def allow(size: int | None) -> None:
        monkeypatch.setattr(block_module, "cgroup_bytes_left", lambda: size)

    return allow


@pytest.mark.shows("E7")
def test_the_largest_run_that_fits_is_allocated_and_one_byte_more_is_refused(container):
    size = planned().bytes

    container(size)
    arena = planned()
    arena.allocate()
    arena.close()
    container(size - 1)

    with pytest.raises(MemoryRefused, match=r"free\): lower replay.capacity or worlds\."):
        planned().allocate()


@pytest.mark.shows("E7")
def test_the_limit_of_a_container_applies_if_it_is_less_than_the_free_memory(container):
    container(12345)
    assert block_module.available() == 12345

    container(None)
    assert block_module.available() > 12345

    container(2**62)
    assert 12345 < block_module.available() < 2**62
