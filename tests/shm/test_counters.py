"""Counters: a single writer, many readers, and their own cache lines."""

from __future__ import annotations

import os
import signal
import time

import pytest

from rookery.shm import counters as module
from rookery.shm.block import LINE, Block
from rookery.shm.counters import Counters, beat_of, fence, time_of, version_of
from tests.shm.conftest import NAMES


def test_every_counter_is_at_the_start_of_its_own_line(block):
    addresses = [block[name].__array_interface__["data"][0] for name in NAMES]

    assert all(address % LINE == 0 for address in addresses)
    assert len({address // LINE for address in addresses}) == len(NAMES)
    assert block.layout.bytes == LINE * len(NAMES)


def test_counters_start_at_zero(counters):
    assert [counters.load(name) for name in NAMES] == [0, 0, 0]


def test_storing_a_counter_changes_no_other(counters):
    counters.store("gate", 2**62)

    assert [counters.load(name) for name in NAMES] == [0, 2**62, 0]


def test_a_counter_is_a_plain_int(counters):
    assert type(counters.load("commit")) is int


def test_another_mapping_of_the_block_sees_the_counter(block, counters):
    other = Block(block.layout, os.dup(block.descriptor))

    counters.store("commit", 5)

    assert Counters(other).load("commit") == 5
    other.close()


def test_there_is_a_fence_before_and_after_a_store(counters, block, monkeypatch):
    values = []
    monkeypatch.setattr(module, "fence", lambda: values.append(int(block["gate"][0])))

    counters.store("gate", 5)

    assert values == [0, 5]


def test_there_is_a_fence_after_a_load(counters, block, monkeypatch):
    counters.store("gate", 5)

    def change() -> None:
        block["gate"][0] = 6

    monkeypatch.setattr(module, "fence", change)

    assert counters.load("gate") == 5  # loaded before the fence


def test_a_fence_can_be_passed_again_and_again():
    for _ in range(3):
        fence()


def test_an_unknown_counter_is_an_error(counters):
    with pytest.raises(KeyError, match="goat"):
        counters.load("goat")


def test_the_names_of_counters_are_those_in_blocks_on_disk():
    assert version_of("a") == "version a"
    assert beat_of("worker 0") == "worker 0 beat"
    assert time_of("worker 0", "wait") == "worker 0 wait"


def test_waiting_for_a_value_already_reached_returns_at_once(counters):
    counters.store("commit", 5)

    assert counters.wait("commit", 5, seconds=60)
    assert counters.wait("commit", 3, seconds=60)


def test_waiting_ends_at_the_timeout(counters):
    counters.store("commit", 5)

    assert not counters.wait("commit", 6, seconds=0.01)


@pytest.mark.processes
@pytest.mark.shows("B2")
def test_a_store_wakes_another_process_and_the_death_of_the_writer_does_not_matter(
    block, counters
):
    child = os.fork()
    if not child:
        counters.store("commit", 1)
        while counters.wait("gate", 1, seconds=0.1) is False:
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    until = time.monotonic() + 60
    while not counters.wait("commit", 1, seconds=10):
        assert time.monotonic() < until

    counters.store("gate", 1)
    os.waitpid(child, 0)

    assert not counters.wait("commit", 2, seconds=0.01)
    counters.store("commit", 2)
    assert counters.wait("commit", 2, seconds=10)
