"""How long the processes of a run take to start, compared with bare imports of torch.

    python experiments/startup.py [--out FILE.json] [--workers 1 2] [--repeats 5]

A process pool has started when every process waits to begin. As many bare processes with
the same environment, started at the same time, show the cost that importing torch has
anyway.
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
from rookery.training.round_model import Processes
from rookery.training.training import Training

LIMIT = 1.3
"""Largest acceptable ratio."""
POLL_SECONDS = 0.002
BARE = "import torch, os; os.write(1, b'.')"
RATIO = "pool / import torch"
BARE_TIMES = {
    "bare": RATIO,
    "bare, until imported": "pool / import torch, without ending",
}
CODE = {"actor": "rookery.actor.process", "worker": "rookery.learner.process"}

Times = dict[str, float]
"""Seconds by name."""


def main() -> None:
    """Measure and report."""
    options = parse()
    console, report = Console(), Report()
    for workers in options.workers:
        console.print(f"{workers + 1} processes, {options.repeats} times")
        measure(report, workers, options.repeats, options.game)
    worst = max(report.ratios[name] for name in report.ratios if name.endswith(RATIO))
    for role, module in CODE.items():
        profile(report, role, module)
    print_report(console, report)
    console.print(f"\nworst ratio: {worst:.2f} (limit: {LIMIT})", highlight=False)
    if options.out:
        options.out.write_text(json.dumps(report.to_json(), indent=2) + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--game", default="treasurehunt")
    return parser.parse_args()


def measure(report: Report, workers: int, repeats: int, game: str) -> None:
    """Compare a process pool with as many bare processes, in alternating order."""
    entry, config = configure(game, settings={"workers": workers})
    training = Training.build(entry, config)
    contenders: list[Callable[[], Times]] = [
        lambda: pool_times(training, workers),
        lambda: bare_times(workers + 1),
    ]
    seconds_of: dict[str, list[float]] = {}
    for repeat in range(repeats):
        for contender in contenders if repeat % 2 == 0 else reversed(contenders):
            before = processor_seconds()
            times = contender()
            (first, *_) = times
            times[f"{first}, processor time"] = processor_seconds() - before
            for name, seconds in times.items():
                seconds_of.setdefault(name, []).append(seconds)
    training.close()
    medians = {name: statistics.median(x) for name, x in seconds_of.items()}
    compare(report, f"{workers + 1} processes", medians)


def compare(report: Report, label: str, medians: Times) -> None:
    """Report the times of a pool relative to those of bare processes."""
    for bare, title in BARE_TIMES.items():
        report.ratios[f"{label}: {title}"] = medians["pool"] / medians[bare]
    processor = medians["pool, processor time"] / medians["bare, processor time"]
    report.ratios[f"{label}: pool / import torch, processor time"] = processor
    for name, seconds in medians.items():
        report.add_metric(f"{label}: {name}", 1e3 * seconds, "ms")


def pool_times(training: Training, workers: int) -> Times:
    """Return the seconds until every process of a pool waits to begin."""
    parts = training.parts
    pool = ProcessPool(parts, Processes(1, workers))
    started = time.perf_counter()
    pool.start()
    try:
        while not pool.is_ready:
            time.sleep(POLL_SECONDS)
        return {"pool": time.perf_counter() - started}
    finally:
        pool.close()


def bare_times(count: int) -> Times:
    """Return the seconds that bare processes take to import torch, and to end."""
    command, environment = [sys.executable, "-P", "-c", BARE], os.environ | ONE_THREAD
    started = time.perf_counter()
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.read(1)
    imported = time.perf_counter() - started
    for process in processes:
        process.communicate()
    return {"bare": time.perf_counter() - started, "bare, until imported": imported}


def processor_seconds() -> float:
    """Return the processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def profile(report: Report, role: str, module: str) -> None:
    """Report the import times of a role by package, and their ratio to torch alone."""
    times, torch = import_times(module), import_times("torch")
    ratio = sum(times.values()) / sum(torch.values())
    report.ratios[f"{role}: all imports / those of torch"] = ratio
    for package in sorted(times, key=times.__getitem__, reverse=True)[:8]:
        report.add_metric(f"{role}: importing {package}", times[package] / 1e3, "ms")


def import_times(module: str) -> dict[str, int]:
    """Return the microseconds of importing a module, by package."""
    code = f"import gc; gc.disable(); import {module}"
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
    times: dict[str, int] = {}
    for line in done.stderr.splitlines()[1:]:
        own, _, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            package = name.strip().split(".")[0]
            times[package] = times.get(package, 0) + int(own)
    return times


if __name__ == "__main__":
    main()
