"""Several seeds of one run, side by side: each a process of its own, in one folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from rookery.configuring import configure
from rookery.errors import ConfigError, RookeryError
from rookery.folders import new_run, seeds_of
from rookery.tuning import cores

LIMIT = 10_000
POLL_SECONDS = 0.2


class SeedFailed(RookeryError):
    """One of several seeds did not finish."""


def parse_seeds(word: str) -> list[int]:
    """Return the seeds of a word such as seeds=0..9 or seeds=1,4,7."""
    text = word.removeprefix("seeds=").strip("[] ")
    span = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", text)
    if span:
        first, last = int(span[1]), int(span[2])
        if first <= last < first + LIMIT:
            return list(range(first, last + 1))
    elif re.fullmatch(r"\d{1,18}(\s*,\s*\d{1,18})*", text):
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    raise ConfigError(f"{word[:60]!r} names no seeds: write seeds=0..9 or seeds=1,4,7.")


def train_seeds(
    console: Console,
    game: str | None,
    words: Sequence[str],
    config_file: Path | None,
    folder: Path | None,
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Train every seed, as many at a time as there are cores; return their summaries."""
    # All mistakes are told before the start.
    entry, chosen = configure(game, words, config_file)
    parent = new_run(folder, entry.name)
    config = ["--config", str(config_file)] if config_file else []
    named = [game] if game else []
    # Side by side, seeds fill the cores best with one process each.
    alone = ["workers=0"] if chosen.workers == "auto" else []
    commands = {}
    for seed in seeds:
        where = ["--run", str(parent / f"seed-{seed}")]
        commands[seed] = ["train", *named, *words, f"seed={seed}", *alone, *config, *where]
    found = _run_all(console, commands, _at_a_time(chosen.workers))
    return {"run": str(parent), "seeds": found}


def resume_seeds(
    console: Console, path: Path, words: Sequence[str], code: Sequence[str]
) -> dict[str, Any]:
    """Go on with every seed that is not finished; return their summaries."""
    folders = {int(one.name.removeprefix("seed-")): one for one in seeds_of(path)}
    commands = {
        seed: ["resume", str(folder), *words, *code] for seed, folder in folders.items()
    }
    return {"run": str(path), "seeds": _run_all(console, commands, _at_a_time("auto"))}


def _at_a_time(workers: str | int) -> int:
    """Return how many runs fill the cores."""
    each = 1 if isinstance(workers, str) else workers + 1
    return max(1, cores() // each)


def _run_all(
    console: Console, commands: Mapping[int, list[str]], at_a_time: int
) -> dict[str, Any]:
    """Run a command for every seed, some at a time; return what each printed."""
    waiting = dict(commands)
    running: dict[int, subprocess.Popen[str]] = {}
    found: dict[str, Any] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                seed = next(iter(waiting))
                running[seed] = _start(waiting.pop(seed))
            for seed in [s for s, process in running.items() if process.poll() is not None]:
                found[str(seed)] = _finish(seed, running.pop(seed))
                console.print(f"seed {seed} is done ({len(found)} of {len(commands)})")
            time.sleep(POLL_SECONDS)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return found


def _start(words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rookery", *words, "--json"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _finish(seed: int, process: subprocess.Popen[str]) -> Any:
    printed, complaint = process.communicate()
    if process.returncode != 0:
        last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        raise SeedFailed(f"seed {seed} failed: {last.removeprefix('error: ')}")
    return json.loads(printed)
