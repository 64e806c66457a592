"""Bad configurations and damaged headers by the thousand: each is refused in one line.

    python experiments/fuzz.py [--cases 10000] [--seed 0] [--commands 20] [--out FILE.json]

Configurations are whole ones of every game of the catalog, damaged in one to three ways, as
files and as words. Headers are those of a checkpoint, in its files and in its manifest;
half of them come with sums that fit, as a forger would write them. A case counts if it is
refused; what happens to be sound is counted apart. Everything happens in this process,
which may not grow by more than 64 MiB; some configurations also go through real commands.
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
from fuzz_cases import Headers, bad_texts, bad_words
from rich.console import Console
from rich.table import Table

from rookery.algorithms.agents import build_agents
from rookery.errors import RookeryError
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure

LIMIT_SECONDS = 1.0
"""Of the process's own time; what others do on the machine is not ours."""
LIMIT_BYTES = 64 * 2**20
LIMIT_LINE = 20_000


@dataclass
class Found:
    """What became of the cases of one kind."""

    refused: int = 0
    sound: int = 0
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Return the figures."""
        times = np.array(self.seconds or [0.0])
        return {
            "refused": self.refused,
            "sound": self.sound,
            "seconds at the median": float(np.median(times)),
            "seconds at most": float(times.max()),
            "errors": dict(self.errors),
            "wrong": self.wrong,
        }


def attempt(found: Found, name: str, call: Callable[[], object]) -> None:
    """Try one case; take down whether it was refused as it must be."""
    started = time.process_time()
    try:
        call()
    except RookeryError as error:
        found.refused += 1
        found.errors[type(error).__name__] += 1
        line = str(error)
        if "\n" in line or not line.strip() or len(line) > LIMIT_LINE:
            found.wrong.append(f"{name}: not one line: {line[:200]!r}")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        found.wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    else:
        found.sound += 1
    found.seconds.append(time.process_time() - started)
    if found.seconds[-1] > LIMIT_SECONDS:
        found.wrong.append(f"{name}: took {found.seconds[-1]:.2f} seconds")


@contextmanager
def little_memory() -> Iterator[None]:
    """Let large allocations fail."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def resolve(game: str, words: list[str], file: Path | None = None) -> None:
    """Take in a configuration as a command does, up to who plays."""
    entry, config = configure(game, words, file)
    build_agents(config, agents_of(entry, config))


def fuzz_configurations(cases: int, seed: int, folder: Path) -> Found:
    """Refuse so many configurations: files and words in turn."""
    draw, found = random.Random(seed), Found()
    texts, words, file = bad_texts(draw), bad_words(draw), folder / "config.toml"
    tried = 0
    while found.refused + len(found.wrong) < cases:
        tried += 1
        if tried % 2:
            game, text = next(texts)
            file.write_text(text, encoding="utf-8")
            case = lambda: resolve(game, [], file)  # noqa: B023, E731
            attempt(found, f"file {tried} of seed {seed}", case)
        else:
            game, several = next(words)
            case = lambda: resolve(game, several)  # noqa: B023, E731
            attempt(found, f"words {several}", case)
    return found


def fuzz_headers(cases: int, seed: int, folder: Path) -> Found:
    """Refuse so many damaged headers."""
    found, headers = Found(), Headers(folder, random.Random(seed))
    tried = 0
    while found.refused + len(found.wrong) < cases:
        tried += 1
        headers.damage()
        attempt(found, f"header {tried} of seed {seed}", headers.load)
    return found


# Commands.


def fuzz_commands(cases: int, seed: int, folder: Path) -> Found:
    """Give bad configurations to real commands: exit code 2, and one line."""
    found, texts = Found(), bad_texts(random.Random(seed))
    while found.refused + len(found.wrong) < cases:
        game, text = next(texts)
        file = folder / "command.toml"
        file.write_text(text, encoding="utf-8")
        try:
            resolve(game, [], file)
        except RookeryError:
            words = ["train", game, "--config", str(file), "--run", str(folder / "run")]
            command = [sys.executable, "-m", "rookery", *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            lines = done.stderr.splitlines()
            found.refused += 1
            found.errors[f"exit code {done.returncode}"] += 1
            if (
                done.returncode != 2
                or len(lines) != 1
                or not lines[0].startswith("error: ")
            ):
                found.wrong.append(f"{words}: {done.returncode} {done.stderr[:200]!r}")
    return found


def main() -> None:
    """Fuzz, and report."""
    words = parse()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        resolve("treasurehunt", [])  # what is imported late is not counted
        with little_memory():
            found = {
                "configurations": fuzz_configurations(words.cases, words.seed, folder),
                "headers": fuzz_headers(words.cases, words.seed, folder),
            }
        found["commands"] = fuzz_commands(words.commands, words.seed, folder)
    report = {kind: one.to_json() for kind, one in found.items()}
    show(report)
    if words.out:
        words.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    sys.exit(any(one.wrong for one in found.values()))


def parse() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", type=int, default=20)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def show(report: dict[str, dict[str, Any]]) -> None:
    """Print a table, and what went wrong."""
    table = Table("", "refused", "sound", "ms, median", "ms, most", "wrong")
    for kind, one in report.items():
        times = [1000 * one["seconds at the median"], 1000 * one["seconds at most"]]
        counts = [str(one["refused"]), str(one["sound"])]
        shown = [f"{x:.2f}" for x in times]
        table.add_row(kind, *counts, *shown, str(len(one["wrong"])))
    console = Console()
    console.print(table)
    for one in report.values():
        for line in one["wrong"][:20]:
            console.print(line, highlight=False, markup=False)


if __name__ == "__main__":
    main()
