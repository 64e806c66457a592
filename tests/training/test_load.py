"""How busy the machine is, as the run's own processes notice it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from rookery.training.load import ProcessorClock, ProcessorTime

BUSY = "while True: pass"
TICK = 0.05
"""Seconds within which the time of a running process is brought up to date."""


@pytest.mark.parametrize(
    ("ran", "waited", "cores", "neighbours"),
    [
        (1.0, 0.0, 2, 0.0),
        (1.0, 0.02, 2, 0.0),
        (2 / 3, 1 / 3, 2, 2.0),  # three busy processes on two cores, one of them ours
        (1.5, 1.5, 2, 1.0),  # four, three of them ours
        (2.0, 1.0, 2, 0.0),  # three, all of them ours
        (0.0, 0.0, 2, 0.0),
    ],
)
def test_neighbours_follow_from_how_long_processes_waited_for_a_core(
    ran: float, waited: float, cores: int, neighbours: float
) -> None:
    estimate = ProcessorTime(ran, waited).neighbours(1.0, cores)

    assert estimate == pytest.approx(neighbours, abs=1e-9)


@pytest.mark.parametrize(
    ("ran", "waited", "others", "neighbours"),
    [
        (1.0, 0.0, 1.0, 1.0),  # one core each: nobody waits, and both are busy
        (1.0, 0.0, -0.01, 0.0),  # a tick counted late
        (1.5, 0.5, 0.5, 2 / 3),  # two of ours and one other: waiting says more
        (1.0, 0.1, 0.9, 1.1),
    ],
)
def test_neighbours_are_seen_even_if_nobody_has_to_wait_for_a_core(
    ran: float, waited: float, others: float, neighbours: float
) -> None:
    estimate = ProcessorTime(ran, waited, others).neighbours(1.0, cores=2)

    assert estimate == pytest.approx(neighbours)


@pytest.fixture
def busy_processes() -> Iterator[list[int]]:
    """Two processes that never rest, on the same core."""
    core = min(os.sched_getaffinity(0))
    with ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            for _ in range(2)
        ]
        for process in processes:
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {core})
        yield [process.pid for process in processes]


def test_the_processor_time_of_other_processes_is_measured(
    busy_processes: list[int],
) -> None:
    pid, clock = busy_processes[0], ProcessorClock()
    first = processor_seconds(pid)
    assert clock.lap([pid]) == ProcessorTime()  # nothing to compare with yet
    begun = processor_seconds(pid)

    lap, least = ProcessorTime(), 0.0
    while lap.ran < 0.2 or lap.waited < 0.1:  # the other one takes turns with it
        time.sleep(0.01)
        least = processor_seconds(pid) - begun
        lap += clock.lap([pid])

    most = processor_seconds(pid) - first
    assert least - TICK <= lap.ran <= most + TICK


def processor_seconds(pid: int) -> float:
    """Return how long a process has run, by its own clock."""
    return time.clock_gettime((~pid << 3) | 2)


def test_what_others_ran_on_the_same_cores_is_measured(busy_processes: list[int]) -> None:
    clock, ours = ProcessorClock(), busy_processes[:1]
    clock.lap(ours)
    lap = ProcessorTime()
    while lap.others < 0.3 and lap.ran < 20:  # the other one has half of the core
        time.sleep(0.01)
        lap += clock.lap(ours)

    assert lap.others >= 0.3


def test_processes_that_have_just_been_added_do_not_count_as_others(
    busy_processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cores did before is unknown, or was done by processes that have ended."""
    monkeypatch.setattr("rookery.training.load.ASK_SECONDS", 0.0)
    clock = ProcessorClock()
    clock.lap(busy_processes[:1])
    started = time.monotonic()
    while time.monotonic() < started + 0.1:
        time.sleep(0.01)

    assert clock.lap(busy_processes).others == 0.0


def test_a_container_with_a_share_of_the_time_has_no_neighbours(
    busy_processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.training.load.cgroup_cores", lambda: 0.5)
    clock = ProcessorClock()
    clock.lap(busy_processes[:1])
    lap = ProcessorTime()
    while lap.ran < 0.3:
        time.sleep(0.01)
        lap += clock.lap(busy_processes[:1])

    assert lap.others <= 0.0


def test_processes_that_end_or_are_new_are_left_out(busy_processes: list[int]) -> None:
    clock, pid = ProcessorClock(), busy_processes[0]
    while not clock.lap([pid]).ran:  # so that it has run for some time
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    assert clock.lap([pid, os.getpid(), 2**22 + 1]) == ProcessorTime()
