"""How long the processes of a run take to start, beside bare ones that import torch.

    python experiments/startup.py [--out FILE.json] [--workers 1 2] [--repeats 5]

A crew counts as started when every process waits to begin. As many bare processes, started
side by side with the same surroundings, show what nobody who needs torch can avoid.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from rookery.bench.measure import Report
from rookery.cli.output import print_report
from rookery.runs.configure import configure
from rookery.supervisor.launcher import ONE_THREAD
from rookery.training.executors import ProcessPool
from rookery.training.training import Training

LIMIT = 1.3
"""What the ratio must not exceed."""
POLL_SECONDS = 0.002
BARE = "import torch, os; os.write(1, b'.')"
WANTED = "crew / import torch"
BARE_TIMES = {
    "bare": WANTED,
    "bare, until imported": "crew / import torch, without ending",
}
CODE = {"actor": "rookery.actor.process", "worker": "rookery.learner.process"}

Times = dict[str, float]
"""Seconds by name."""


def main() -> None:
    """Measure, and report."""
    words = parse()
    console, report = Console(), Report()
    for workers in words.workers:
        console.print(f"{workers + 1} processes, {words.repeats} times")
        measure(report, workers, words.repeats, words.game)
    worst = max(report.ratios[name] for name in report.ratios if name.endswith(WANTED))
    for role, module in CODE.items():
        profile(report, role, module)
    print_report(console, report)
    console.print(f"\nwanted: at most {LIMIT}; found: {worst:.2f}", highlight=False)
    if words.out:
        words.out.write_text(json.dumps(report.to_json(), indent=2) + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the figures, as JSON")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--game", default="treasurehunt")
    return parser.parse_args()


def measure(report: Report, workers: int, repeats: int, game: str) -> None:
    """Compare a crew with as many bare processes, in alternating order."""
    entry, config = configure(game, settings={"workers": workers})
    training = Training.build(entry, config)
    contenders: list[Callable[[], Times]] = [
        lambda: crew_times(training, workers),
        lambda: bare_times(workers + 1),
    ]
    found: dict[str, list[float]] = {}
    for repeat in range(repeats):
        for contender in contenders if repeat % 2 == 0 else reversed(contenders):
            before = processor_seconds()
            times = contender()
            (first, *_) = times
            times[f"{first}, processor time"] = processor_seconds() - before
            for name, seconds in times.items():
                found.setdefault(name, []).append(seconds)
    training.close()
    middle = {name: statistics.median(seconds) for name, seconds in found.items()}
    compare(report, f"{workers + 1} processes", middle)


def compare(report: Report, many: str, middle: Times) -> None:
    """Report how a crew's times relate to those of bare processes."""
    for bare, title in BARE_TIMES.items():
        report.ratios[f"{many}: {title}"] = middle["crew"] / middle[bare]
    processor = middle["crew, processor time"] / middle["bare, processor time"]
    report.ratios[f"{many}: crew / import torch, processor time"] = processor
    for name, seconds in middle.items():
        report.figure(f"{many}: {name}", 1e3 * seconds, "ms")


def crew_times(training: Training, workers: int) -> Times:
    """Return how long it takes until every process of a crew waits to begin."""
    parts = training.parts
    pool = ProcessPool(parts, workers)
    started = time.perf_counter()
    pool.start()
    try:
        while not pool.is_ready:
            time.sleep(POLL_SECONDS)
        return {"crew": time.perf_counter() - started}
    finally:
        pool.close()


def bare_times(count: int) -> Times:
    """Return how long bare processes take to import torch, and to end after that."""
    command, surroundings = [sys.executable, "-P", "-c", BARE], os.environ | ONE_THREAD
    started = time.perf_counter()
    every = [
        subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    for one in every:
        assert one.stdout is not None
        one.stdout.read(1)
    imported = time.perf_counter() - started
    for one in every:
        one.communicate()
    return {"bare": time.perf_counter() - started, "bare, until imported": imported}


def processor_seconds() -> float:
    """Return the processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def profile(report: Report, role: str, module: str) -> None:
    """Say what a process of a role imports, by package, and how much torch alone would."""
    found, torch = import_times(module), import_times("torch")
    ratio = sum(found.values()) / sum(torch.values())
    report.ratios[f"{role}: all imports / those of torch"] = ratio
    for package in sorted(found, key=found.__getitem__, reverse=True)[:8]:
        report.figure(f"{role}: importing {package}", found[package] / 1e3, "ms")


def import_times(module: str) -> dict[str, int]:
    """Return microseconds by package that importing a module takes."""
    code = f"import gc; gc.disable(); import {module}"
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
    found: dict[str, int] = {}
    for line in done.stderr.splitlines()[1:]:
        own, _, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            package = name.strip().split(".")[0]
            found[package] = found.get(package, 0) + int(own)
    return found


if __name__ == "__main__":
    main()
