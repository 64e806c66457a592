"""Why processes wait on counters with a futex: wake-up latency and the cost of waiting.

    python experiments/waiting.py [--out FILE.json] [--times 2000] [--seconds 2]

One process waits for another: on the counter itself, for a byte in a pipe, on an eventfd,
or by sleeping and checking again. The latency of a wake-up is the time from just before the
store until the waiting process continues.
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
"""Seconds between wake-ups, so that the other process is really asleep."""
PATIENCE = 0.2
"""Seconds after which a waiting process checks again, as processes of a run do."""
GO, SENT, STOP = "go", "sent", 2**40


class Method(ABC):
    """A method to wait for a counter to grow."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters

    @abstractmethod
    def wait(self, at_least: int) -> None:
        """Return when the counter has grown, or after a while."""

    def wake(self, value: int) -> None:
        """Store the counter and wake the waiting process."""
        self.counters.store(GO, value)


class Futex(Method):
    """The method of a run."""

    def wait(self, at_least: int) -> None:
        """Wait in the kernel, on the counter."""
        self.counters.wait(GO, at_least, PATIENCE)


class Pipe(Method):
    """A byte for each change; it must be read, and is lost with a killed reader."""

    def __init__(self, counters: Counters) -> None:
        super().__init__(counters)
        self._reader, self._writer = os.pipe()

    def wait(self, at_least: int) -> None:
        """Wait for a byte."""
        os.read(self._reader, 1)

    def wake(self, value: int) -> None:
        """Write the counter, then a byte."""
        self.counters.note(GO, value)
        os.write(self._writer, b".")


class EventFd(Method):
    """An eventfd of the kernel; one descriptor for each pair of processes."""

    def __init__(self, counters: Counters) -> None:
        super().__init__(counters)
        self._descriptor = os.eventfd(0)

    def wait(self, at_least: int) -> None:
        """Wait until the eventfd is not zero."""
        os.eventfd_read(self._descriptor)

    def wake(self, value: int) -> None:
        """Write the counter, then increment the eventfd."""
        self.counters.note(GO, value)
        os.eventfd_write(self._descriptor, 1)


class Sleep(Method):
    """Checks, sleeps, and checks again."""

    def __init__(self, counters: Counters, seconds: float) -> None:
        super().__init__(counters)
        self._seconds = seconds

    def wait(self, at_least: int) -> None:
        """Sleep once if nothing has changed."""
        if self.counters.load(GO) < at_least:
            time.sleep(self._seconds)


def main() -> None:
    """Measure all methods and report."""
    options = parse()
    console, report = Console(), Report()
    block = Block.create(Counters.layout([GO, SENT]))
    shared = Counters(block)
    for name, method in methods(shared).items():
        console.print(f"waiting: {name}")
        measure(report, name, method, options.times, options.seconds)
    block.close()
    for name in [name for name in methods(shared) if name != "futex"]:
        for kind in ("median", "p99"):
            other = report.metrics[f"{name}: wake-up, {kind}"]["value"]
            futex = report.metrics[f"futex: wake-up, {kind}"]["value"]
            report.ratios[f"wake-up, {kind}: {name} / futex"] = other / futex
    print_report(console, report)
    if options.out:
        options.out.write_text(json.dumps(report.to_json(), indent=2) + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--times", type=int, default=2000, help="wake-ups per method")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of idle waiting per method"
    )
    return parser.parse_args()


def methods(counters: Counters) -> dict[str, Method]:
    """Return the methods to compare, by name."""
    return {
        "futex": Futex(counters),
        "pipe": Pipe(counters),
        "eventfd": EventFd(counters),
        "sleeping 0.1 ms": Sleep(counters, 0.0001),
        "sleeping 1 ms": Sleep(counters, 0.001),
    }


def measure(report: Report, name: str, method: Method, times: int, seconds: float) -> None:
    """Wake another process many times, then let it wait in vain."""
    method.counters.note(GO, 0)
    results = Block.create(
        BlockLayout({"latency": ((times + 1,), np.int64), "spent": ((1,), np.int64)})
    )
    child = os.fork()  # there are no threads here, and descriptors are inherited
    if child == 0:
        try:
            be_woken(method, results, times)
        finally:
            os._exit(0)
    for number in range(1, times + 1):
        time.sleep(PAUSE)
        method.counters.note(SENT, time.monotonic_ns())
        method.wake(number)
    time.sleep(seconds)  # the other process waits in vain
    method.wake(STOP)
    os.waitpid(child, 0)
    latencies = np.sort(results.arrays["latency"][1:] / 1e3)
    report.add_metric(f"{name}: wake-up, median", float(np.median(latencies)), "µs")
    report.add_metric(f"{name}: wake-up, p99", float(np.percentile(latencies, 99)), "µs")
    spent = float(results.arrays["spent"][0]) / 1e6 / seconds
    report.add_metric(f"{name}: processor time of waiting", spent, "ms per second")
    results.close()


def be_woken(method: Method, results: Block, times: int) -> None:
    """Be the waiting process: record latencies and the cost of waiting."""
    latencies = results.arrays["latency"]
    for number in range(1, times + 1):
        while method.counters.load(GO) < number:
            method.wait(number)
        latencies[number] = time.monotonic_ns() - method.counters.load(SENT)
    before = time.process_time_ns()
    while method.counters.load(GO) < STOP:
        method.wait(STOP)
    results.arrays["spent"][0] = time.process_time_ns() - before


if __name__ == "__main__":
    main()
