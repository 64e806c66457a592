"""Words: one writer, many readers, and a line of one's own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from rookery.shm import counters as module
from rookery.shm.block import LINE, Block
from rookery.shm.counters import Words, fence

NAMES = ["commit", "gate", "version 0"]


@pytest.fixture
def block() -> Iterator[Block]:
    made = Block.create(Words.plan(NAMES))
    yield made
    made.close()


@pytest.fixture
def words(block: Block) -> Words:
    return Words(block)


def test_every_word_is_alone_in_a_line_and_at_its_start(block):
    places = [block[name].__array_interface__["data"][0] for name in NAMES]

    assert all(place % LINE == 0 for place in places)
    assert len({place // LINE for place in places}) == len(NAMES)
    assert block.plan.bytes == LINE * len(NAMES)


def test_words_start_at_zero(words):
    assert [words.load(name) for name in NAMES] == [0, 0, 0]


def test_a_stored_word_is_loaded_and_no_other_changes(words):
    words.store("gate", 2**62)

    assert [words.load(name) for name in NAMES] == [0, 2**62, 0]


def test_a_word_is_a_plain_number(words):
    assert type(words.load("commit")) is int


def test_another_mapping_of_the_block_sees_the_word(block, words):
    other = Block(block.plan, os.dup(block.descriptor))

    words.store("commit", 5)

    assert Words(other).load("commit") == 5
    other.close()


def test_a_fence_stands_before_a_store_and_after_it(words, block, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "fence", lambda: seen.append(int(block["gate"][0])))

    words.store("gate", 5)

    assert seen == [0, 5]


def test_a_fence_stands_after_a_load(words, block, monkeypatch):
    words.store("gate", 5)

    def change() -> None:
        block["gate"][0] = 6

    monkeypatch.setattr(module, "fence", change)

    assert words.load("gate") == 5  # loaded before the fence


def test_a_fence_can_be_passed_again_and_again():
    for _ in range(3):
        fence()


def test_an_unknown_word_is_an_error(words):
    with pytest.raises(KeyError, match="goat"):
        words.load("goat")


def test_waiting_for_what_is_there_returns_at_once(words):
    words.store("commit", 5)

    assert words.wait("commit", 5, seconds=60)
    assert words.wait("commit", 3, seconds=60)


def test_waiting_ends_when_time_is_up(words):
    words.store("commit", 5)

    assert not words.wait("commit", 6, seconds=0.01)


@pytest.mark.processes
@pytest.mark.shows("B2")
def test_a_store_in_another_process_wakes_whoever_waits_and_its_death_does_not_matter(
    block, words
):
    child = os.fork()
    if not child:
        words.store("commit", 1)
        while words.wait("gate", 1, seconds=0.1) is False:
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    until = time.monotonic() + 60
    while not words.wait("commit", 1, seconds=10):
        assert time.monotonic() < until

    words.store("gate", 1)
    os.waitpid(child, 0)

    assert not words.wait("commit", 2, seconds=0.01)
    words.store("commit", 2)
    assert words.wait("commit", 2, seconds=10)
