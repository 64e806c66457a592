"""How busy the machine is, as the run's own processes notice it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from rookery.training.load import ProcessorClock, ProcessorTime

BUSY = "while True: pass"


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


@pytest.fixture
def busy_process() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        yield process.pid
        process.kill()


def test_the_processor_time_of_other_processes_is_measured(busy_process: int) -> None:
    clock = ProcessorClock()
    assert clock.lap([busy_process]) == ProcessorTime()  # nothing to compare with yet

    started = time.perf_counter()
    lap = ProcessorTime()
    while lap.ran < 0.1:
        lap += clock.lap([busy_process])

    seconds = time.perf_counter() - started
    assert lap.ran + lap.waited == pytest.approx(seconds, rel=0.5, abs=0.1)


def test_processes_that_end_or_are_new_are_left_out(busy_process: int) -> None:
    clock = ProcessorClock()
    clock.lap([busy_process])

    assert clock.lap([os.getpid(), 2**22 + 1]) == ProcessorTime()
