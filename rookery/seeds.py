"""Several seeds of one run, side by side: each a process of its own, in one folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from rookery.configuring import configure
from rookery.errors import ConfigError, RookeryError
from rookery.folders import new_run

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
    entry, _ = configure(game, words, config_file)  # all mistakes are told before the start
    parent = new_run(folder, entry.name)
    config = ["--config", str(config_file)] if config_file else []
    named = [game] if game else []
    waiting = [
        [*named, *words, f"seed={seed}", *config, "--run", str(parent / f"seed-{seed}")]
        for seed in seeds
    ]
    running: dict[int, subprocess.Popen[str]] = {}
    found: dict[str, Any] = {}
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                seed = seeds[len(seeds) - len(waiting)]
                running[seed] = _start(waiting.pop(0))
            for seed in [s for s, process in running.items() if process.poll() is not None]:
                found[str(seed)] = _finish(seed, running.pop(seed))
                console.print(f"seed {seed} is done ({len(found)} of {len(seeds)})")
            time.sleep(POLL_SECONDS)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return {"run": str(parent), "seeds": found}


def _start(words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rookery", "train", *words, "--json"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _finish(seed: int, process: subprocess.Popen[str]) -> Any:
    printed, complaint = process.communicate()
    if process.returncode != 0:
        last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        raise SeedFailed(f"seed {seed} failed: {last.removeprefix('error: ')}")
    return json.loads(printed)
