"""Words: one writer, many readers, and a line of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rookery.memory import words as module
from rookery.memory.block import LINE, Block
from rookery.memory.words import Words, fence

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
