"""Words: one writer, many readers, and a line of one's own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from rookery.shm import counters as module
from rookery.shm.block import LINE, Block
from rookery.shm.counters import Counters, fence

NAMES = ["commit", "gate", "version 0"]


@pytest.fixture
def block() -> Iterator[Block]:
    made = Block.create(Counters.layout(NAMES))
    yield made
    made.close()


@pytest.fixture
def counters(block: Block) -> Counters:
    return Counters(block)


def test_every_word_is_alone_in_a_line_and_at_its_start(block):
    places = [block[name].__array_interface__["data"][0] for name in NAMES]

    assert all(place % LINE == 0 for place in places)
    assert len({place // LINE for place in places}) == len(NAMES)
    assert block.layout.bytes == LINE * len(NAMES)


def test_words_start_at_zero(counters):
    assert [counters.load(name) for name in NAMES] == [0, 0, 0]


def test_a_stored_word_is_loaded_and_no_other_changes(counters):
    counters.store("gate", 2**62)

    assert [counters.load(name) for name in NAMES] == [0, 2**62, 0]


def test_a_word_is_a_plain_number(counters):
    assert type(counters.load("commit")) is int


def test_another_mapping_of_the_block_sees_the_word(block, counters):
    other = Block(block.layout, os.dup(block.descriptor))

    counters.store("commit", 5)

    assert Counters(other).load("commit") == 5
    other.close()


def test_a_fence_stands_before_a_store_and_after_it(counters, block, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "fence", lambda: seen.append(int(block["gate"][0])))

    counters.store("gate", 5)

    assert seen == [0, 5]


def test_a_fence_stands_after_a_load(counters, block, monkeypatch):
    counters.store("gate", 5)

    def change() -> None:
        block["gate"][0] = 6

    monkeypatch.setattr(module, "fence", change)

    assert counters.load("gate") == 5  # loaded before the fence


def test_a_fence_can_be_passed_again_and_again():
    for _ in range(3):
        fence()


def test_an_unknown_word_is_an_error(counters):
    with pytest.raises(KeyError, match="goat"):
        counters.load("goat")


def test_waiting_for_what_is_there_returns_at_once(counters):
    counters.store("commit", 5)

    assert counters.wait("commit", 5, seconds=60)
    assert counters.wait("commit", 3, seconds=60)


def test_waiting_ends_when_time_is_up(counters):
    counters.store("commit", 5)

    assert not counters.wait("commit", 6, seconds=0.01)


@pytest.mark.processes
@pytest.mark.shows("B2")
def test_a_store_in_another_process_wakes_whoever_waits_and_its_death_does_not_matter(
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
