"""Compare `workers=auto` with every fixed number of workers, on unlike workloads.

    python experiments/auto.py --out FILE.json [--seconds 120] [--fixed-seconds 120]
        [--repeats 3] [--workloads NAME …] [--noise quiet busy]

Every contender trains for so many seconds from its first round on, one after the other and
in alternating order, so that what `auto` loses until it has decided counts. With `busy`,
another process keeps one core busy all the time. Six workloads take about 50 minutes per
repeat and kind of noise; a fixed choice has nothing to decide, so half the seconds tell as
much about it. `auto` should be within 10 % of the best fixed choice.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos import events, rookery, rounds_of, start
from rich.console import Console
from rich.table import Table

WORKLOADS = {
    "treasurehunt": "treasurehunt",
    "small dqn": (
        "treasurehunt algorithm=dqn network.width=32 worlds=4 turns_per_round=20 "
        "updates_per_round=5"
    ),
    "spread, ppo": "pettingzoo:mpe2.simple_spread_v3 algorithm=ppo",
    "one agent": "treasurehunt game.agents=1",
    "eight agents": "treasurehunt game.agents=8 network.width=64",
    "lbf, 64 worlds": "gymnasium:lbforaging/Foraging-8x8-2p-3f-v3 worlds=64",
}
FIXED = ("0", "1", "2")
"""The fixed numbers of workers: on two cores, more are never better."""
BUSY = "while True: pass"
GOAL = 0.9


@dataclass
class Result:
    """What one contender achieved on one workload."""

    workload: str
    noise: str
    workers: str
    rates: list[float]
    """Rounds per second in every repeat."""
    notes: list[list[str]]
    """What `auto` decided in every repeat."""

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates)


@contextmanager
def neighbour(noise: str) -> Iterator[None]:
    """Keep one core busy with another process, if noise is wanted."""
    if noise == "quiet":
        yield
        return
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        try:
            yield
        finally:
            process.kill()


def train(folder: Path, overrides: str, workers: str, seconds: float) -> float:
    """Train for so many seconds from the first round on; return rounds per second."""
    fixed = ("rounds=1000000", f"workers={workers}", "checkpoints.every_minutes=0")
    process = start(rookery("train", *overrides.split(), *fixed, "--run", folder))
    try:
        while not rounds_of(folder):
            if process.poll() is not None:
                raise SystemExit(f"{folder} ended; run the command to see why")
            time.sleep(0.05)
        first, began = rounds_of(folder)[-1], time.monotonic()
        time.sleep(seconds)
        return (rounds_of(folder)[-1] - first) / (time.monotonic() - began)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def compare(
    workload: str, noise: str, options: argparse.Namespace, console: Console
) -> list[Result]:
    """Let all contenders train in turn, in alternating order."""
    results = {
        workers: Result(workload, noise, workers, [], []) for workers in ("auto", *FIXED)
    }
    for repeat in range(options.repeats):
        for workers in list(results)[:: -1 if repeat % 2 else 1]:
            with tempfile.TemporaryDirectory() as folder, neighbour(noise):
                run = Path(folder) / "run"
                seconds = options.seconds if workers == "auto" else options.fixed_seconds
                rate = train(run, WORKLOADS[workload], workers, seconds)
                notes = [x["line"] for x in events(run) if x["event"] == "note"]
            results[workers].rates.append(rate)
            results[workers].notes.append(notes)
            decided = f" ({'; '.join(notes)})" if notes else ""
            console.print(
                f"{workload}, {noise}, workers={workers}: {rate:.2f}/s{decided}",
                highlight=False,
            )
    return list(results.values())


def table(results: Sequence[Result]) -> Table:
    """Return a table of all rates, and of `auto` over the best fixed choice."""
    columns = ("workload", "neighbour", *(f"workers={x}" for x in FIXED), "auto", "ratio")
    table = Table(*columns)
    for workload, noise in dict.fromkeys((x.workload, x.noise) for x in results):
        rates = {
            x.workers: x.rate for x in results if (x.workload, x.noise) == (workload, noise)
        }
        ratio = rates["auto"] / max(rates[workers] for workers in FIXED)
        cells = [f"{rates[workers]:.2f}" for workers in (*FIXED, "auto")]
        style = "" if ratio >= GOAL else "bold red"
        table.add_row(workload, noise, *cells, f"{ratio:.2f}", style=style)
    return table


def main() -> None:
    """Compare on all workloads, and write every rate to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--fixed-seconds", type=float, default=120.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=[*WORKLOADS])
    noises = ("quiet", "busy")
    parser.add_argument("--noise", nargs="+", choices=noises, default=noises)
    options = parser.parse_args()
    # A script that is stopped stops the run that it has started, and the neighbour.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console, results = Console(), list[Result]()
    for workload in options.workloads:
        for noise in options.noise:
            results += compare(workload, noise, options, console)
            options.out.write_text(json.dumps([asdict(x) for x in results], indent=1))
    console.print(table(results))


if __name__ == "__main__":
    main()
