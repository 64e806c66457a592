"""Does a run stay as it is: memory and descriptors of every process, minute after minute.

Trains with checkpoints, evaluations and recordings all the time, looks at every process
once a second, and compares the last third of the time with the third in the middle.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

SETTINGS = {
    "rounds": 1_000_000,
    "turns_per_round": 20,
    "worlds": 4,
    "workers": 2,
    "updates_per_round": 4,
    "game.turns": 30,
    "batch_size": 16,
    "network.width": 32,
    "replay.warmup": 64,
    "replay.capacity": 4000,
    "checkpoints.every_rounds": 50,
    "checkpoints.weights_every_rounds": 0,
    "evaluate.every_rounds": 20,
    "record.every_rounds": 40,
}
GROWTH_LIMIT = 1.02
"""Flat is less than two percent, which is what allocators and page caches move by."""


def processes(main: int) -> dict[str, int]:
    """Return main and its children, by role as the system knows it."""
    found = {"main": main}
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    return found | {f"child {i}": int(pid) for i, pid in enumerate(sorted(children))}


def look(pid: int) -> tuple[float, int]:
    """Return a process's resident memory in MiB, and its open descriptors."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next(int(x.split()[1]) for x in lines if x.startswith("VmRSS"))
    return kilobytes / 1024, len(os.listdir(f"/proc/{pid}/fd"))


def watch(main: int, seconds: float) -> dict[str, list[tuple[float, int]]]:
    """Look at every process once a second."""
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name, pid in processes(main).items():
            found[name].append(look(pid))
        time.sleep(1.0)
    return found


def growth(values: list[float]) -> float:
    """Return how much more the last third is than the middle one."""
    third = len(values) // 3
    return statistics.median(values[-third:]) / statistics.median(values[third:-third])


def report(found: dict[str, list[tuple[float, int]]]) -> tuple[dict[str, object], bool]:
    """Print what every process took; return it, and whether all stayed flat."""
    table, figures, flat = Table(box=None, header_style="bold"), {}, True
    for name in ("process", "MiB", "growth", "descriptors", "growth"):
        table.add_column(name, justify="left" if name == "process" else "right")
    for name, looks in found.items():
        memory, files = [m for m, _ in looks], [float(n) for _, n in looks]
        grown = growth(memory), growth(files)
        flat &= max(grown) < GROWTH_LIMIT
        figures[name] = {"MiB": memory[-1], "descriptors": files[-1], "growth": grown}
        cells = (f"{memory[-1]:.0f}", f"{grown[0]:.3f}", f"{files[-1]:.0f}")
        table.add_row(name, *cells, f"{grown[1]:.3f}")
    Console().print(table)
    return figures, flat


def main() -> None:
    """Watch a run for some minutes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON to write")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--settle", type=float, default=30.0, help="seconds to begin with")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        words = [f"{key}={value}" for key, value in SETTINGS.items()]
        command = [sys.executable, "-m", "rookery", "train", "treasurehunt", *words]
        process = subprocess.Popen([*command, "--run", folder], stderr=subprocess.DEVNULL)
        try:
            while (
                len(processes(process.pid)) < 4 or not (folder / "metrics.jsonl").exists()
            ):
                time.sleep(0.1)
            time.sleep(asked.settle)
            found = watch(process.pid, asked.minutes * 60)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
        rounds = len((folder / "metrics.jsonl").read_text().splitlines())
    figures, flat = report(found)
    print(f"{rounds} rounds in {asked.minutes:g} minutes")
    asked.out.write_text(json.dumps({"rounds": rounds, "processes": figures}, indent=2))
    sys.exit(0 if flat else 1)


if __name__ == "__main__":
    main()
