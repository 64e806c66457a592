"""Check that Slurm changes nothing: a sweep on a real cluster, disturbed in every way.

    python experiments/slurm.py --out slurm.json [--cells 6] [--rounds 3000] [--minutes 1]

A private cluster of one node is started on this machine (see slurm_cluster.py). The cells
take longer than the time limit of a task, so every one is stopped by it, put back
into the queue, and continued. At random times, tasks are sent USR1 or TERM, put back by
`scontrol requeue`, preempted by a job of a higher partition, or killed, and whole jobs are
cancelled. When nothing is left in the queue, the sweep is submitted again. At the end every
cell must have the digest of an undisturbed one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from slurm_cluster import Cluster, missing

import rookery

GAME = "treasurehunt"
SETTINGS = {
    "game.turns": 30,
    "turns_per_round": 10,
    "worlds": 2,
    "workers": 0,
    "updates_per_round": 20,
    "batch_size": 16,
    "frames": 2,
    "network.width": 23,
    "replay.warmup": 64,
    "replay.capacity": 2000,
    "checkpoints.every_rounds": 50,
    "checkpoints.weights_every_rounds": 0,
}
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY"}
LINES = {
    "put back by itself": "back in the queue",
    "ended by Slurm": "Slurm is ending this task",
    "started again": "start again",
    "time over": "its time is over",
    "too short for a round": "no round was finished",
    "not put back": "did not put this task back",
    "ended": "end (exit code 0)",
}
PAUSE_SECONDS = 0.5
"""Between two looks at the queue."""
MOST_SUBMISSIONS = 50
OCCUPY = "#!/bin/bash\nsleep 5\n"


class Disturbed:
    """A sweep on a cluster, and what happens to it."""

    def __init__(
        self, folder: Path, cluster: Cluster, rng: random.Random, minutes: int
    ) -> None:
        self.folder, self.cluster, self._rng = folder, cluster, rng
        self._minutes = minutes
        self.counts: Counter[str] = Counter()
        self.jobs: list[str] = []

    def submit(self, *words: object) -> None:
        """Submit what is left of the sweep."""
        options = ("--on", "slurm", "--slurm", f"time={self._minutes}", "--json")
        done = subprocess.run(
            [sys.executable, "-m", "rookery", "sweep", *map(str, words), *options],
            env={**os.environ, **self.cluster.environment},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        self.jobs += [job["id"] for job in json.loads(done.stdout)["jobs"]]
        self.counts["submissions"] += 1

    def tasks(self) -> dict[str, str]:
        """Return the states of all tasks that are not over."""
        tasks = self.cluster.tasks(",".join(self.jobs))
        return {task: state for task, state in tasks.items() if state not in OVER}

    def disturb(self) -> None:
        """Do something bad to a task that runs, or to all of them."""
        running = [task for task, state in self.tasks().items() if state == "RUNNING"]
        if not running:
            return
        task = self._rng.choice(sorted(running))
        deeds: dict[str, Callable[[], object]] = {
            "USR1": lambda: self._try("scancel", "--batch", "--signal=USR1", task),
            "TERM": lambda: self._try("scancel", "--batch", "--signal=TERM", task),
            "requeue": lambda: self._try("scontrol", "requeue", task),
            "pre-emption": self._preempt,
            "kill": self._kill,
            "scancel of a task": lambda: self._try("scancel", task),
            "scancel of all": lambda: self._try("scancel", *self.jobs),
        }
        name = self._rng.choice(list(deeds))
        self.counts[name] += 1
        deeds[name]()

    def _try(self, *words: str) -> None:
        try:
            self.cluster.run(*words)
        except (RuntimeError, subprocess.TimeoutExpired):
            self.counts["too late"] += 1  # the task has just ended

    def _preempt(self) -> None:
        script = self.cluster.folder / "occupy.sh"
        script.write_text(OCCUPY)
        words = ("--partition=high", "--exclusive", "--output=/dev/null")
        self.cluster.run("sbatch", *words, str(script))

    def _kill(self) -> None:
        """Kill the training of a task."""
        trainings = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "work" in words and str(self.folder) in words and "rookery" in words:
                trainings.append(process.pid)
        if trainings:
            os.kill(self._rng.choice(sorted(trainings)), signal.SIGKILL)

    def lines(self) -> dict[str, int]:
        """Return how often the logs of tasks have the lines that matter."""
        text = "\n".join(x.read_text() for x in self.folder.glob("slurm/*.log"))
        return {name: len(re.findall(re.escape(x), text)) for name, x in LINES.items()}


def undisturbed(folder: Path, words: list[str]) -> None:
    """Train the same cells with nothing in their way."""
    command = [sys.executable, "-m", "rookery", "sweep", *words, "--run", str(folder)]
    subprocess.run(command, check=True, capture_output=True)


def digests(folder: Path, cells: int) -> list[dict[str, Any]]:
    """Return the digest of every cell."""
    return [rookery.Run(folder / f"seed-{seed}").digest() for seed in range(cells)]


def run(cells: int, rounds: int, minutes: int, pause: float, seed: int) -> dict[str, Any]:
    """Train a sweep on a cluster, disturb it, and compare."""
    rng = random.Random(seed)
    settings = [f"{key}={value}" for key, value in {**SETTINGS, "rounds": rounds}.items()]
    words = [GAME, *settings, f"seeds=0..{cells - 1}"]
    with tempfile.TemporaryDirectory(prefix="slurm-sweep-") as temporary:
        folder, alone = Path(temporary) / "sweep", Path(temporary) / "alone"
        began = time.monotonic()
        undisturbed(alone, words)
        print(f"undisturbed: {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        with Cluster(cpus=2) as cluster:
            sweep = Disturbed(folder, cluster, rng, minutes)
            sweep.submit(*words, "--run", folder)
            next_deed = time.monotonic() + rng.uniform(0, 2 * pause)
            while True:
                time.sleep(PAUSE_SECONDS)
                if sweep.tasks():
                    if time.monotonic() > next_deed:
                        sweep.disturb()
                        next_deed = time.monotonic() + rng.uniform(0, 2 * pause)
                elif is_done(folder, cells, rounds):
                    break
                elif sweep.counts["submissions"] < MOST_SUBMISSIONS:
                    sweep.submit("go", folder)
                else:
                    sys.exit(f"error: the sweep does not end: {dict(sweep.counts)}")
        seconds = time.monotonic() - began
        wanted, reached = digests(alone, cells), digests(folder, cells)
        return {
            "cells": cells,
            "rounds": rounds,
            "minutes": minutes,
            "seconds": seconds,
            "deeds": dict(sweep.counts),
            "lines of logs": sweep.lines(),
            "same": sum(a["run"] == b["run"] for a, b in zip(wanted, reached, strict=True)),
            "exact": sum(digest["exact"] for digest in reached),
        }


def is_done(folder: Path, cells: int, rounds: int) -> bool:
    """Whether all rounds of all cells are saved."""
    return all(
        (folder / f"seed-{seed}" / "checkpoints" / f"ckpt-{rounds}").exists()
        for seed in range(cells)
    )


def main() -> None:
    """Run the experiment; the exit code says whether all digests are the same."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--minutes", type=int, default=1, help="that a task may run")
    parser.add_argument("--pause", type=float, default=10.0, help="mean, between two deeds")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if reason := missing():
        sys.exit(f"error: {reason}")
    report = run(
        arguments.cells,
        arguments.rounds,
        arguments.minutes,
        arguments.pause,
        arguments.seed,
    )
    arguments.out.write_text(json.dumps(report, indent=2))
    Console().print(report)
    sys.exit(0 if report["same"] == report["exact"] == arguments.cells else 1)


if __name__ == "__main__":
    main()
