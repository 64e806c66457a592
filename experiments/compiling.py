"""How long a run's loops take to compile at first, and to load from the cache afterwards.

    python experiments/compiling.py [--cases iqn dqn …] [--functions] [--out FILE.json]

Each case is trained for three rounds, twice: with an empty cache, in a folder of its own,
and with the cache that the first run left. What compiling costs a user is the difference
between the seconds of both runs. All processes of a run are counted. Processor seconds
depend less than seconds on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

CASES = {
    "iqn": "treasurehunt",
    "dqn": "treasurehunt algorithm=dqn",
    "ppo": "treasurehunt algorithm=ppo",
    "vtrace": "treasurehunt algorithm=vtrace",
    "pettingzoo, dqn": "pettingzoo:mpe2.simple_spread_v3 algorithm=dqn",
    "pettingzoo, ppo": "pettingzoo:mpe2.simple_spread_v3 algorithm=ppo",
}
SETTINGS = ["rounds=3"]
LOG = "ROOKERY_COMPILING_LOG"
RECORDER = '''
"""Imported by every process at its start: writes down what numba compiles and loads."""

import json, os, time
from numba.core.dispatcher import Dispatcher

original, inner = Dispatcher.compile, []


def compile(self, signature):
    known, hits = len(self.overloads), sum(self._cache_hits.values())
    inner.append([0.0, 0.0])
    started, used = time.perf_counter(), time.process_time()
    try:
        return original(self, signature)
    finally:
        seconds = time.perf_counter() - started
        processor = time.process_time() - used
        own = inner.pop()
        if inner:  # a function is compiled while a caller of it is
            inner[-1][0] += seconds
            inner[-1][1] += processor
        if len(self.overloads) > known:
            line = {
                "process": os.getpid(),
                "function": f"{self.py_func.__module__}.{self.py_func.__name__}",
                "signature": str(signature),
                "is_loaded": sum(self._cache_hits.values()) > hits,
                "seconds": seconds - own[0],
                "processor_seconds": processor - own[1],
            }
            with open(os.environ["ROOKERY_COMPILING_LOG"], "a") as log:
                log.write(json.dumps(line) + "\\n")


Dispatcher.compile = compile
'''


@dataclass(frozen=True)
class Step:
    """A function that a process compiled or loaded; times are without those it calls."""

    process: int
    function: str
    signature: str
    is_loaded: bool
    seconds: float
    processor_seconds: float


@dataclass(frozen=True)
class Run:
    """How long a run took, and what its processes compiled and loaded."""

    seconds: float
    steps: Sequence[Step]


def main() -> None:
    """Measure and report."""
    options = parse()
    console, results = Console(), {}
    table = Table("case", "cache", "run s", "by", "compiled", "cpu s", "loaded", "cpu s")
    for case in options.cases:
        for cache, run in measure(CASES[case].split() + SETTINGS + options.set).items():
            table.add_row(case, cache, *summary(run))
            results[f"{case}, {cache}"] = asdict(run)
            if options.functions:
                print_functions(console, f"{case}, {cache}", run.steps)
    console.print(table)
    if options.out:
        options.out.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--set", nargs="+", default=[], help="settings, such as workers=2")
    parser.add_argument("--functions", action="store_true", help="list all functions")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    return parser.parse_args()


def measure(arguments: Sequence[str]) -> dict[str, Run]:
    """Train with an empty cache and with a full one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(RECORDER)
        return {cache: train(arguments, folder, cache) for cache in ("empty", "full")}


def train(arguments: Sequence[str], folder: Path, name: str) -> Run:
    """Train a run whose cache is in a folder."""
    log = folder / f"{name}.jsonl"
    log.touch()
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        LOG: str(log),
    }
    command = [sys.executable, "-m", "rookery", "train", *arguments]
    command += ["--run", str(folder / name), "--json"]
    started = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    return Run(seconds, [Step(**json.loads(x)) for x in log.read_text().splitlines()])


def summary(run: Run) -> list[str]:
    """Return the cells of a table: seconds, processes, and functions with their times."""
    compiled = [step for step in run.steps if not step.is_loaded]
    loaded = [step for step in run.steps if step.is_loaded]
    return [
        f"{run.seconds:.1f}",
        f"{len({step.process for step in run.steps})} processes",
        str(len(compiled)),
        f"{sum(step.processor_seconds for step in compiled):.1f}",
        str(len(loaded)),
        f"{sum(step.processor_seconds for step in loaded):.2f}",
    ]


def print_functions(console: Console, title: str, steps: Sequence[Step]) -> None:
    """Print every function, the slowest first."""
    table = Table("cpu s", "", "function", "signature", title=title)
    for step in sorted(steps, key=lambda step: -step.processor_seconds):
        kind = "loaded" if step.is_loaded else "compiled"
        seconds = f"{step.processor_seconds:.3f}"
        table.add_row(seconds, kind, step.function, step.signature[:160])
    console.print(table)


if __name__ == "__main__":
    main()
