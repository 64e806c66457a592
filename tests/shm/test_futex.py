"""Waiting for a counter: woken by a store of another process, or by the timeout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rookery.shm import counters as counters_module
from rookery.shm import futex
from rookery.shm.block import Block

LIMIT_SECONDS = 60.0
LONGER_THAN_ANY_TEST = 10_000.0

ATTACH = """
import json, sys
from rookery.shm.block import Block, BlockLayout
from rookery.shm.counters import Counters
layout = BlockLayout.from_json(json.loads(sys.argv[2]))
counters = Counters(Block(layout, int(sys.argv[1])))
value = int(sys.argv[3])
"""
WAITER = f"""
while not counters.wait("commit", value, {LONGER_THAN_ANY_TEST}):
    pass
"""
WRITER = """
while True:
    value += 1
    counters.store("commit", value)
"""

needs_futex = pytest.mark.skipif(not futex.HAS_FUTEX, reason="the system has no futex")


@pytest.fixture
def no_futex(monkeypatch) -> list[float]:
    """Remove the system's futex; return the list of sleeps."""
    sleeps: list[float] = []
    monkeypatch.setattr(futex, "_call", None)
    monkeypatch.setattr(futex.time, "sleep", sleeps.append)
    return sleeps


class Process:
    """Another process with the same counters."""

    def __init__(self, block: Block, code: str, value: int) -> None:
        layout = json.dumps(block.layout.to_json())
        arguments = [str(block.descriptor), layout, str(value)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", ATTACH + code, *arguments], pass_fds=[block.descriptor]
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_until_it_sleeps_in_the_kernel(self) -> None:
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
        waiter.wait_until_it_sleeps_in_the_kernel()

        counters.store("commit", value + 1)

        assert waiter.end() == 0


@needs_futex
@pytest.mark.processes
def test_a_store_wakes_all_waiting_processes(block, counters):
    with Process(block, WAITER, 1) as first, Process(block, WAITER, 1) as second:
        first.wait_until_it_sleeps_in_the_kernel()
        second.wait_until_it_sleeps_in_the_kernel()

        counters.store("commit", 1)

        assert (first.end(), second.end()) == (0, 0)


@pytest.mark.processes
def test_a_waiter_whose_writer_was_killed_returns_at_the_timeout(block, counters):
    with Process(block, WRITER, 0) as writer:
        while not counters.wait("commit", 1, LIMIT_SECONDS):
            pass
        assert writer.kill() == -signal.SIGKILL

    last = counters.load("commit")

    assert counters.wait("commit", last + 1, 0.01) is False
    assert counters.load("commit") == last


# Waiting in vain.


def test_a_number_that_has_already_changed_is_not_waited_for(block, counters):
    counters.store("commit", 6)

    futex.wait_for_change(address_of(block, "commit"), 5, LONGER_THAN_ANY_TEST)


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.02])
def test_waiting_ends_at_the_timeout(block, seconds):
    futex.wait_for_change(address_of(block, "commit"), 0, seconds)


def test_waking_does_nothing_if_no_process_waits(block):
    futex.wake(address_of(block, "commit"))

    assert block["commit"][0] == 0


# Waiting for counters.


@pytest.mark.parametrize("value", [5, 6], ids=["reached", "passed"])
def test_a_value_already_reached_is_not_waited_for(counters, monkeypatch, value):
    monkeypatch.setattr(counters_module, "wait_for_change", None)
    counters.store("commit", value)

    assert counters.wait("commit", 5, LONGER_THAN_ANY_TEST) is True


def test_a_wait_that_ends_early_returns_that_the_value_is_not_reached(
    counters, monkeypatch
):
    monkeypatch.setattr(
        counters_module, "wait_for_change", lambda *_: counters.store("commit", 1)
    )

    assert counters.wait("commit", 2, LONGER_THAN_ANY_TEST) is False
    assert counters.wait("commit", 1, LONGER_THAN_ANY_TEST) is True


def test_noting_a_value_wakes_no_process(counters, monkeypatch):
    monkeypatch.setattr(counters_module, "wake", None)

    counters.note("gate", 7)

    assert counters.load("gate") == 7


# Without a futex.


@pytest.mark.parametrize(
    ("seconds", "slept"), [(10.0, futex.SHORT_SLEEP), (0.0001, 0.0001)]
)
def test_without_a_futex_waiting_is_a_short_sleep(block, no_futex, seconds, slept):
    futex.wait_for_change(address_of(block, "commit"), 0, seconds)

    assert no_futex == [slept]


def test_without_a_futex_a_counter_is_polled(counters, no_futex):
    assert counters.wait("commit", 1, LONGER_THAN_ANY_TEST) is False

    counters.store("commit", 1)

    assert counters.wait("commit", 1, LONGER_THAN_ANY_TEST) is True
