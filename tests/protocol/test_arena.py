"""The arena: all memory of a run, known in size before any of it is had."""

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
from rookery.specs import AgentSpec, Part

WORLDS, SLOTS = 3, 10
LEARNER = AgentSpec("a", "bird", {"view": Part((2,), np.dtype(np.uint8))}, ("x", "y"))
SCRIPTED = AgentSpec("b", "bird", {"far": Part((9,), np.dtype(np.float32))}, ("x",))


def layout() -> Arena:
    weights = {"weights": ((5,), np.float32)}
    return Arena.planned(
        WORLDS,
        [AgentMemory(LEARNER, SLOTS, weights), AgentMemory(SCRIPTED, 4, None)],
        {"turn": ((1,), np.int64)},
    )


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = layout()
    made.allocate()
    yield made
    made.close()


def descriptors() -> set[str]:
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


def test_the_size_is_known_before_anything_is_allocated():
    before = descriptors()

    size = layout().bytes

    rows = SLOTS * row_dtype(LEARNER, WORLDS).itemsize
    assert size >= rows + 4 * row_dtype(SCRIPTED, WORLDS).itemsize + 2 * 5 * 4
    assert size % 64 == 0
    assert descriptors() == before


def test_what_is_allocated_is_what_was_planned(monkeypatch):
    made = []
    create = Block.create
    monkeypatch.setattr(
        Block, "create", lambda layout: made.append(create(layout)) or made[-1]
    )
    arena = layout()

    arena.allocate()

    assert sum(os.fstat(block.descriptor).st_size for block in made) == arena.bytes
    arena.close()


def test_rows_have_the_agents_own_slots_and_parts(arena):
    assert arena.rows("a").slots == SLOTS
    assert arena.rows("a").parts["view"].shape == (SLOTS, WORLDS, 2)
    assert arena.rows("b").slots == 4
    assert arena.rows("b").parts["far"].shape == (4, WORLDS, 9)


def test_everybody_who_asks_gets_the_same_rows(arena):
    arena.rows("a").columns["reward"][3, 1] = 2.5

    assert arena.rows("a").columns["reward"][3, 1] == 2.5
    assert not arena.rows("b").columns["reward"].any()


def test_an_agent_with_a_state_has_a_version_word(arena):
    arena.states("a").publish(4, {"weights": np.arange(5)})

    assert arena.counters.load("version a") == 5
    assert arena.states("a").version == 4
    assert arena.states("a").read(4)["weights"].tolist() == [0, 1, 2, 3, 4]


def test_an_agent_without_a_state_has_no_version_word(arena):
    with pytest.raises(KeyError, match="version b"):
        arena.counters.load("version b")


def test_snapshots_are_versions_by_border(arena):
    arena.snapshots().publish(2, {"turn": np.array([100])})

    assert arena.counters.load(SNAPSHOT) == 3
    assert arena.snapshots().read(2)["turn"].tolist() == [100]


def test_words_start_at_nothing(arena):
    assert [arena.counters.load(name) for name in (COMMIT, GATE, SNAPSHOT)] == [0, 0, 0]
    assert arena.counters.load("version a") == 0


@pytest.mark.shows("B14")
def test_a_run_leaves_no_name_and_no_descriptor_behind():
    descriptors_before, names_before = descriptors(), os.listdir("/dev/shm")
    arena = layout()
    arena.allocate()
    named = os.listdir("/dev/shm")

    arena.close()
    del arena

    assert named == names_before
    assert os.listdir("/dev/shm") == names_before
    assert descriptors() == descriptors_before


def test_memory_refused_half_way_gives_back_what_was_had(monkeypatch):
    create, made = Block.create, []

    def refuse_the_third(layout):
        if len(made) == 2:
            raise MemoryRefused("enough")
        made.append(None)
        return create(layout)

    monkeypatch.setattr(Block, "create", refuse_the_third)
    before = descriptors()

    with pytest.raises(MemoryRefused, match="enough"):
        layout().allocate()

    assert descriptors() == before


def test_more_than_the_machine_has_in_all_is_refused_before_it_is_tried(monkeypatch):
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    slots = int(0.6 * machine) // row_dtype(LEARNER, WORLDS).itemsize
    others = replace(LEARNER, id="c")
    arena = Arena.planned(
        WORLDS, [AgentMemory(spec, slots, None) for spec in (LEARNER, others)], {}
    )
    tried = []
    monkeypatch.setattr(os, "posix_fallocate", lambda *about: tried.append(about))

    with pytest.raises(MemoryRefused, match="cannot be had"):
        arena.allocate()

    assert tried == []


@pytest.mark.shows("C7")
def test_sizes_tell_what_goes_to_replays_states_and_the_rest():
    arena = layout()

    sizes = arena.sizes()

    rows = [Rows.layout(LEARNER, WORLDS, SLOTS), Rows.layout(SCRIPTED, WORLDS, 4)]
    assert sizes["replays"] == sum(one.bytes for one in rows)
    assert sizes["states"] == 2 * 64  # two slots, each of which takes a line
    assert sum(sizes.values()) == arena.bytes


def test_reports_of_matches_are_kept_as_long_as_those_of_rounds():
    arena = Arena.planned(WORLDS, [], {}, reports=7)
    arena.allocate()

    for number in range(1, 8):
        arena.match_reports().write(number, number)

    assert [arena.match_reports().read(number) for number in range(1, 8)] == [*range(1, 8)]
    arena.close()


@pytest.mark.shows("A4", "B1")
def test_whoever_is_given_descriptors_sees_the_same_rows_and_words(arena):
    told = json.loads(json.dumps(arena.describe(["a"])))
    copies = {
        name: {**one, "descriptor": os.dup(one["descriptor"])} for name, one in told.items()
    }

    there = Arena.attach(copies)
    arena.rows("a").columns["reward"][3, 1] = 2.5
    arena.counters.store(COMMIT, 7)

    assert there.rows("a").columns["reward"][3, 1] == 2.5
    assert there.counters.load(COMMIT) == 7
    assert "rows b" not in told
    assert "snapshot" not in told
    there.close()


@pytest.mark.shows("A5")
def test_every_word_that_processes_share_lies_in_one_shared_block(arena):
    (block,) = [b for name, b in arena._blocks.items() if name == "words"]

    assert set(arena.counters._cells) == set(block.arrays)
    assert {COMMIT, GATE, SNAPSHOT, HANDED, MATCHES, "version a"} <= set(block.arrays)
    assert {"actor beat", "worker 0 work", "worker 0 wait"} <= set(block.arrays)


def test_an_arena_on_disk_has_one_file_per_block(tmp_path):
    arena = layout()

    arena.allocate(tmp_path / "memory")

    sizes = [path.stat().st_size for path in (tmp_path / "memory").iterdir()]
    assert sum(sizes) == arena.bytes
    assert len(sizes) == len(arena.describe())
    arena.close()


@pytest.fixture
def container(monkeypatch):
    """Let this process be in a container that may use some more bytes."""

    def allow(size: int | None) -> None:
        monkeypatch.setattr(block_module, "left_in_groups", lambda: size)

    return allow


@pytest.mark.shows("E7")
def test_the_largest_run_that_fits_is_had_and_one_byte_more_is_refused(container):
    size = layout().bytes

    container(size)
    arena = layout()
    arena.allocate()
    arena.close()
    container(size - 1)

    with pytest.raises(MemoryRefused, match=r"free\): lower replay.capacity or worlds\."):
        layout().allocate()


@pytest.mark.shows("E7")
def test_what_a_container_may_use_counts_if_it_is_less_than_what_is_free(container):
    container(12345)
    assert block_module.available() == 12345

    container(None)
    assert block_module.available() > 12345

    container(2**62)
    assert 12345 < block_module.available() < 2**62
