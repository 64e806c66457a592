"""Check that a run does not leak memory or file descriptors.

    python experiments/steady.py --out FILE [--minutes 10]

Trains with frequent checkpoints, evaluations and recordings, samples every process once a
second, and compares the last third of the samples with the middle third.
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
"""Up to two percent is normal: allocators and page caches vary by that much."""


def processes(main: int) -> dict[str, int]:
    """Return the process ids of main and its children."""
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    return {"main": main} | {
        f"child {i}": int(pid) for i, pid in enumerate(sorted(children))
    }


def sample(pid: int) -> tuple[float, int]:
    """Return the resident memory of a process in MiB, and its open descriptors."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next(int(x.split()[1]) for x in lines if x.startswith("VmRSS"))
    return kilobytes / 1024, len(os.listdir(f"/proc/{pid}/fd"))


def watch(main: int, seconds: float) -> dict[str, list[tuple[float, int]]]:
    """Sample every process once a second."""
    samples: dict[str, list[tuple[float, int]]] = defaultdict(list)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name, pid in processes(main).items():
            samples[name].append(sample(pid))
        time.sleep(1.0)
    return samples


def growth(values: list[float]) -> float:
    """Return the median of the last third over that of the middle third."""
    third = len(values) // 3
    return statistics.median(values[-third:]) / statistics.median(values[third:-third])


def report(samples: dict[str, list[tuple[float, int]]]) -> tuple[dict[str, object], bool]:
    """Print a table of all processes; return its values, and whether none has grown."""
    table, metrics, is_flat = Table(box=None, header_style="bold"), {}, True
    for name in ("process", "MiB", "growth", "descriptors", "growth"):
        table.add_column(name, justify="left" if name == "process" else "right")
    for name, pairs in samples.items():
        memory, files = [m for m, _ in pairs], [float(n) for _, n in pairs]
        ratios = growth(memory), growth(files)
        is_flat &= max(ratios) < GROWTH_LIMIT
        metrics[name] = {"MiB": memory[-1], "descriptors": files[-1], "growth": ratios}
        cells = (f"{memory[-1]:.0f}", f"{ratios[0]:.3f}", f"{files[-1]:.0f}")
        table.add_row(name, *cells, f"{ratios[1]:.3f}")
    Console().print(table)
    return metrics, is_flat


def main() -> None:
    """Watch a run for some minutes and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--settle", type=float, default=30.0, help="seconds before the first sample"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        overrides = [f"{key}={value}" for key, value in SETTINGS.items()]
        command = [sys.executable, "-m", "rookery", "train", "treasurehunt", *overrides]
        process = subprocess.Popen([*command, "--run", folder], stderr=subprocess.DEVNULL)
        try:
            while (
                len(processes(process.pid)) < 4 or not (folder / "metrics.jsonl").exists()
            ):
                time.sleep(0.1)
            time.sleep(options.settle)
            samples = watch(process.pid, options.minutes * 60)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
        rounds = len((folder / "metrics.jsonl").read_text().splitlines())
    metrics, is_flat = report(samples)
    print(f"{rounds} rounds in {options.minutes:g} minutes")
    options.out.write_text(json.dumps({"rounds": rounds, "processes": metrics}, indent=2))
    sys.exit(0 if is_flat else 1)


if __name__ == "__main__":
    main()
