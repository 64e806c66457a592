"""Fuzz configurations and file headers: each bad one must be refused in one line.

    python experiments/fuzz.py [--cases 10000] [--seed 0] [--commands 20] [--out FILE.json]

Configurations of every built-in game are damaged in one to three ways, as files and as
overrides on the command line. Headers are those of a checkpoint, in its files and in its
manifest; half of them have matching checksums, as a forger would write them. Cases that
happen to be sound are counted separately. Everything runs in this process, which must not
grow by more than 64 MiB; some configurations are also passed to real commands.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_cases import Headers, bad_overrides, bad_texts
from rich.console import Console
from rich.table import Table

from rookery.algorithms.agents import build_agents
from rookery.errors import RookeryError
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure

LIMIT_SECONDS = 1.0
"""Of processor time, so that a busy machine does not matter."""
LIMIT_BYTES = 64 * 2**20
LIMIT_LINE = 20_000


@dataclass
class Results:
    """The results of the cases of one kind."""

    refused: int = 0
    sound: int = 0
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Return the results as plain data."""
        times = np.array(self.seconds or [0.0])
        return {
            "refused": self.refused,
            "sound": self.sound,
            "seconds at the median": float(np.median(times)),
            "seconds at most": float(times.max()),
            "errors": dict(self.errors),
            "wrong": self.wrong,
        }


def attempt(results: Results, name: str, call: Callable[[], object]) -> None:
    """Try one case; record whether it was refused properly."""
    started = time.process_time()
    try:
        call()
    except RookeryError as error:
        results.refused += 1
        results.errors[type(error).__name__] += 1
        line = str(error)
        if "\n" in line or not line.strip() or len(line) > LIMIT_LINE:
            results.wrong.append(f"{name}: not one line: {line[:200]!r}")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        results.wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    else:
        results.sound += 1
    results.seconds.append(time.process_time() - started)
    if results.seconds[-1] > LIMIT_SECONDS:
        results.wrong.append(f"{name}: took {results.seconds[-1]:.2f} seconds")


@contextmanager
def little_memory() -> Iterator[None]:
    """Make large allocations fail."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def resolve(game: str, overrides: list[str], file: Path | None = None) -> None:
    """Read a configuration as a command does, up to building the agents."""
    entry, config = configure(game, overrides, file)
    build_agents(config, agents_of(entry, config))


def fuzz_configurations(cases: int, seed: int, folder: Path) -> Results:
    """Try configurations until this many were refused: files and overrides in turn."""
    draw, results = random.Random(seed), Results()
    texts, arguments = bad_texts(draw), bad_overrides(draw)
    file = folder / "config.toml"
    tried = 0
    while results.refused + len(results.wrong) < cases:
        tried += 1
        if tried % 2:
            game, text = next(texts)
            file.write_text(text, encoding="utf-8")
            case = lambda: resolve(game, [], file)  # noqa: B023, E731
            attempt(results, f"file {tried} of seed {seed}", case)
        else:
            game, overrides = next(arguments)
            case = lambda: resolve(game, overrides)  # noqa: B023, E731
            attempt(results, f"overrides {overrides}", case)
    return results


def fuzz_headers(cases: int, seed: int, folder: Path) -> Results:
    """Try damaged headers until this many were refused."""
    results, headers = Results(), Headers(folder, random.Random(seed))
    tried = 0
    while results.refused + len(results.wrong) < cases:
        tried += 1
        headers.damage()
        attempt(results, f"header {tried} of seed {seed}", headers.load)
    return results


# Commands.


def fuzz_commands(cases: int, seed: int, folder: Path) -> Results:
    """Pass bad configurations to real commands: exit code 2 and one line."""
    results, texts = Results(), bad_texts(random.Random(seed))
    while results.refused + len(results.wrong) < cases:
        game, text = next(texts)
        file = folder / "command.toml"
        file.write_text(text, encoding="utf-8")
        try:
            resolve(game, [], file)
        except RookeryError:
            arguments = ["train", game, f"--config={file}", f"--run={folder / 'run'}"]
            command = [sys.executable, "-m", "rookery", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            lines = done.stderr.splitlines()
            results.refused += 1
            results.errors[f"exit code {done.returncode}"] += 1
            if (
                done.returncode != 2
                or len(lines) != 1
                or not lines[0].startswith("error: ")
            ):
                results.wrong.append(
                    f"{arguments}: {done.returncode} {done.stderr[:200]!r}"
                )
    return results


def main() -> None:
    """Fuzz and report."""
    options = parse()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        resolve("treasurehunt", [])  # so that late imports do not count
        with little_memory():
            results = {
                "configurations": fuzz_configurations(options.cases, options.seed, folder),
                "headers": fuzz_headers(options.cases, options.seed, folder),
            }
        results["commands"] = fuzz_commands(options.commands, options.seed, folder)
    report = {kind: result.to_json() for kind, result in results.items()}
    show(report)
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    sys.exit(any(result.wrong for result in results.values()))


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", type=int, default=20, help="cases for commands")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    return parser.parse_args()


def show(report: dict[str, dict[str, Any]]) -> None:
    """Print a table and the cases that went wrong."""
    table = Table("", "refused", "sound", "ms, median", "ms, maximum", "wrong")
    for kind, result in report.items():
        counts = [str(result["refused"]), str(result["sound"])]
        seconds = result["seconds at the median"], result["seconds at most"]
        times = [f"{1000 * x:.2f}" for x in seconds]
        table.add_row(kind, *counts, *times, str(len(result["wrong"])))
    console = Console()
    console.print(table)
    for result in report.values():
        for line in result["wrong"][:20]:
            console.print(line, highlight=False, markup=False)


if __name__ == "__main__":
    main()
