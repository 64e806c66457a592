"""Why processes wait on a word with a futex: how fast they wake, and what waiting costs.

    python experiments/waiting.py [--out FILE.json] [--times 2000] [--seconds 2]

Two real processes, one of which waits for the other: on the word itself, for a byte in a
pipe, on an eventfd, or by sleeping and looking again. The time that a wake-up takes counts
from just before the store to the moment at which the waiting process goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from rich.console import Console

from rookery.bench.measure import Report
from rookery.cli.output import print_report
from rookery.shm.block import Block, BlockLayout
from rookery.shm.counters import Counters

PAUSE = 0.002
"""Seconds between wake-ups, so that the other is really asleep."""
PATIENCE = 0.2
"""Seconds after which whoever waits looks whether to go on, as processes of a run do."""
GO, SENT, STOP = "go", "sent", 2**40


class Way(ABC):
    """A way to wait for a word to grow."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters

    @abstractmethod
    def wait(self, at_least: int) -> None:
        """Return when the word has grown, or after a while."""

    def tell(self, value: int) -> None:
        """Let the word grow, and wake who waits for it."""
        self.counters.store(GO, value)


class Futex(Way):
    """What a run does."""

    def wait(self, at_least: int) -> None:
        """Wait in the kernel, on the word."""
        self.counters.wait(GO, at_least, PATIENCE)


class Pipe(Way):
    """A byte for each change; it must be read, and may be lost with a killed reader."""

    def __init__(self, counters: Counters) -> None:
        super().__init__(counters)
        self._inside, self._outside = os.pipe()

    def wait(self, at_least: int) -> None:
        """Wait for a byte."""
        os.read(self._inside, 1)

    def tell(self, value: int) -> None:
        """Write the word, then a byte."""
        self.counters.note(GO, value)
        os.write(self._outside, b".")


class EventFd(Way):
    """A counter of the kernel; one descriptor for each pair that waits."""

    def __init__(self, counters: Counters) -> None:
        super().__init__(counters)
        self._descriptor = os.eventfd(0)

    def wait(self, at_least: int) -> None:
        """Wait until the counter is not zero."""
        os.eventfd_read(self._descriptor)

    def tell(self, value: int) -> None:
        """Write the word, then count."""
        self.counters.note(GO, value)
        os.eventfd_write(self._descriptor, 1)


class Sleep(Way):
    """Looks, sleeps, and looks again."""

    def __init__(self, counters: Counters, seconds: float) -> None:
        super().__init__(counters)
        self._seconds = seconds

    def wait(self, at_least: int) -> None:
        """Sleep once, if nothing has changed."""
        if self.counters.load(GO) < at_least:
            time.sleep(self._seconds)


def main() -> None:
    """Measure, and report."""
    counters = parse()
    console, report = Console(), Report()
    block = Block.create(Counters.layout([GO, SENT]))
    shared = Counters(block)
    for name, way in ways(shared).items():
        console.print(f"waiting: {name}")
        measure(report, name, way, counters.times, counters.seconds)
    block.close()
    for name in [name for name in ways(shared) if name != "futex"]:
        for kind in ("median", "p99"):
            theirs = report.figures[f"{name}: wake-up, {kind}"]["value"]
            ours = report.figures[f"futex: wake-up, {kind}"]["value"]
            report.ratios[f"wake-up, {kind}: {name} / futex"] = theirs / ours
    print_report(console, report)
    if counters.out:
        counters.out.write_text(json.dumps(report.to_json(), indent=2) + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the figures, as JSON")
    parser.add_argument("--times", type=int, default=2000, help="wake-ups of each way")
    parser.add_argument("--seconds", type=float, default=2.0, help="of idle waiting")
    return parser.parse_args()


def ways(counters: Counters) -> dict[str, Way]:
    """Return what is compared, by name."""
    return {
        "futex": Futex(counters),
        "pipe": Pipe(counters),
        "eventfd": EventFd(counters),
        "sleeping 0.1 ms": Sleep(counters, 0.0001),
        "sleeping 1 ms": Sleep(counters, 0.001),
    }


def measure(report: Report, name: str, way: Way, times: int, seconds: float) -> None:
    """Wake another process many times, then let it wait for nothing."""
    way.counters.note(GO, 0)
    found = Block.create(
        BlockLayout({"late": ((times + 1,), np.int64), "spent": ((1,), np.int64)})
    )
    child = os.fork()  # nothing here has threads, and descriptors come along
    if child == 0:
        try:
            be_woken(way, found, times)
        finally:
            os._exit(0)
    for number in range(1, times + 1):
        time.sleep(PAUSE)
        way.counters.note(SENT, time.monotonic_ns())
        way.tell(number)
    time.sleep(seconds)  # from here on it waits in vain
    way.tell(STOP)
    os.waitpid(child, 0)
    late = np.sort(found.arrays["late"][1:] / 1e3)
    report.figure(f"{name}: wake-up, median", float(np.median(late)), "µs")
    report.figure(f"{name}: wake-up, p99", float(np.percentile(late, 99)), "µs")
    spent = float(found.arrays["spent"][0]) / 1e6 / seconds
    report.figure(f"{name}: processor time of waiting", spent, "ms per second")
    found.close()


def be_woken(way: Way, found: Block, times: int) -> None:
    """Be the process that waits: note how late it was woken, and what waiting cost."""
    late = found.arrays["late"]
    for number in range(1, times + 1):
        while way.counters.load(GO) < number:
            way.wait(number)
        late[number] = time.monotonic_ns() - way.counters.load(SENT)
    before = time.process_time_ns()
    while way.counters.load(GO) < STOP:
        way.wait(STOP)
    found.arrays["spent"][0] = time.process_time_ns() - before


if __name__ == "__main__":
    main()
