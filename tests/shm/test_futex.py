"""Waiting for a word: woken by a store of another process, or by the clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.shm import counters as words_module
from rookery.shm import futex
from rookery.shm.block import Block
from rookery.shm.counters import Counters

LIMIT_SECONDS = 60.0
LONGER_THAN_ANY_TEST = 10_000.0
NAMES = ["commit", "gate"]

ATTACH = """
import json, sys
from rookery.shm.block import Block, Plan
from rookery.shm.counters import Words
words = Words(Block(Plan.from_json(json.loads(sys.argv[2])), int(sys.argv[1])))
value = int(sys.argv[3])
"""
WAITER = f"""
while not words.wait("commit", value, {LONGER_THAN_ANY_TEST}):
    pass
"""
WRITER = """
while True:
    value += 1
    words.store("commit", value)
"""

needs_futex = pytest.mark.skipif(not futex.HAS_FUTEX, reason="the system has no futex")


@pytest.fixture
def block() -> Iterator[Block]:
    made = Block.create(Counters.layout(NAMES))
    yield made
    made.close()


@pytest.fixture
def counters(block: Block) -> Counters:
    return Counters(block)


@pytest.fixture
def no_futex(monkeypatch) -> list[float]:
    """Take the system's futex away; return where sleeps are written down."""
    slept: list[float] = []
    monkeypatch.setattr(futex, "_call", None)
    monkeypatch.setattr(futex.time, "sleep", slept.append)
    return slept


class Process:
    """Another process that has the same words."""

    def __init__(self, block: Block, code: str, value: int) -> None:
        layout = json.dumps(block.layout.to_json())
        told = [str(block.descriptor), layout, str(value)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", ATTACH + code, *told], pass_fds=[block.descriptor]
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def until_it_sleeps_in_the_kernel(self) -> None:
        call = Path(f"/proc/{self._process.pid}/syscall")
        end = time.monotonic() + LIMIT_SECONDS
        while call.read_text().split()[0] != str(futex._number):
            assert time.monotonic() < end, "it never waited"
            os.sched_yield()

    def end(self) -> int:
        return self._process.wait(LIMIT_SECONDS)

    def kill(self) -> int:
        self._process.send_signal(signal.SIGKILL)
        return self._process.wait(LIMIT_SECONDS)


def address_of(block: Block, name: str) -> int:
    return int(block[name].ctypes.data)


# Waking.


@needs_futex
@pytest.mark.processes
@pytest.mark.parametrize("value", [0, 2**32 - 1, 2**32 + 5])
def test_a_waiter_is_woken_by_a_store_of_another_process(block, counters, value):
    counters.store("commit", value)
    with Process(block, WAITER, value + 1) as waiter:
        waiter.until_it_sleeps_in_the_kernel()

        counters.store("commit", value + 1)

        assert waiter.end() == 0


@needs_futex
@pytest.mark.processes
def test_one_store_wakes_everybody_who_waits(block, counters):
    with Process(block, WAITER, 1) as one, Process(block, WAITER, 1) as other:
        one.until_it_sleeps_in_the_kernel()
        other.until_it_sleeps_in_the_kernel()

        counters.store("commit", 1)

        assert (one.end(), other.end()) == (0, 0)


@pytest.mark.processes
def test_a_waiter_whose_writer_was_killed_comes_back_by_the_clock(block, counters):
    with Process(block, WRITER, 0) as writer:
        while not counters.wait("commit", 1, LIMIT_SECONDS):
            pass
        assert writer.kill() == -signal.SIGKILL

    last = counters.load("commit")

    assert counters.wait("commit", last + 1, 0.01) is False
    assert counters.load("commit") == last


# Waiting for nothing.


def test_nobody_waits_for_a_number_that_has_changed_already(block, counters):
    counters.store("commit", 6)

    futex.wait_for_change(address_of(block, "commit"), 5, LONGER_THAN_ANY_TEST)


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.02])
def test_waiting_ends_when_time_is_up(block, seconds):
    futex.wait_for_change(address_of(block, "commit"), 0, seconds)


def test_waking_where_nobody_waits_does_nothing(block):
    futex.wake(address_of(block, "commit"))

    assert block["commit"][0] == 0


# Words that are waited for.


@pytest.mark.parametrize("value", [5, 6], ids=["reached", "passed"])
def test_a_word_that_is_there_already_is_not_waited_for(counters, monkeypatch, value):
    monkeypatch.setattr(words_module, "wait_for_change", None)
    counters.store("commit", value)

    assert counters.wait("commit", 5, LONGER_THAN_ANY_TEST) is True


def test_a_wait_that_ends_early_says_that_the_word_is_not_there(counters, monkeypatch):
    monkeypatch.setattr(
        words_module, "wait_for_change", lambda *_: counters.store("commit", 1)
    )

    assert counters.wait("commit", 2, LONGER_THAN_ANY_TEST) is False
    assert counters.wait("commit", 1, LONGER_THAN_ANY_TEST) is True


def test_noting_a_number_wakes_nobody(counters, monkeypatch):
    monkeypatch.setattr(words_module, "wake", None)

    counters.note("gate", 7)

    assert counters.load("gate") == 7


# Without a futex.


@pytest.mark.parametrize(
    ("seconds", "slept"), [(10.0, futex.SHORT_SLEEP), (0.0001, 0.0001)]
)
def test_without_a_futex_waiting_is_a_short_sleep(block, no_futex, seconds, slept):
    futex.wait_for_change(address_of(block, "commit"), 0, seconds)

    assert no_futex == [slept]


def test_without_a_futex_a_word_is_asked_for_again_and_again(counters, no_futex):
    assert counters.wait("commit", 1, LONGER_THAN_ANY_TEST) is False

    counters.store("commit", 1)

    assert counters.wait("commit", 1, LONGER_THAN_ANY_TEST) is True
