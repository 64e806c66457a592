"""Several seeds of one run, side by side: each a process of its own, in one folder."""

from __future__ import annotations

import json
import os
import re
import signal
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
from rookery.stopping import StopFlag
from rookery.supervisor.entry import read_all
from rookery.tuning import cores

LIMIT = 10_000
POLL_SECONDS = 0.2
STOPPED = (128 + signal.SIGTERM, -signal.SIGTERM)
"""How seeds end that were asked to stop: with a checkpoint, or before there was a run."""
START = (
    "import sys; from rookery.supervisor.entry import die_with; "
    "die_with(int(sys.argv.pop(1))); from rookery.cli import main; main()"
)
"""What a seed's process runs: no seed outlives the process that started it."""


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
    found = _Batch(console, commands).run(_at_a_time(chosen.workers), parent)
    return {"run": str(parent), "seeds": found}


def resume_seeds(
    console: Console, path: Path, words: Sequence[str], code: Sequence[str]
) -> dict[str, Any]:
    """Go on with every seed that is not finished; return their summaries."""
    folders = {int(one.name.removeprefix("seed-")): one for one in seeds_of(path)}
    commands = {
        seed: ["resume", str(folder), *words, *code] for seed, folder in folders.items()
    }
    found = _Batch(console, commands).run(_at_a_time("auto"), path)
    return {"run": str(path), "seeds": found}


def _at_a_time(workers: str | int) -> int:
    """Return how many runs fill the cores."""
    each = 1 if isinstance(workers, str) else workers + 1
    return max(1, cores() // each)


class _Batch:
    """Seeds that run side by side, each in a session of its own.

    So Ctrl-C reaches this process alone, which asks every seed to stop, once, and waits
    until all have saved what they have. A seed that fails leaves the others alone.
    """

    def __init__(self, console: Console, commands: Mapping[int, list[str]]) -> None:
        self._console, self._count = console, len(commands)
        self._waiting = dict(commands)
        self._running: dict[int, _Seed] = {}
        self._stop = StopFlag()
        self._failed: list[str] = []
        self.found: dict[str, Any] = {}

    def run(self, at_a_time: int, parent: Path) -> dict[str, Any]:
        """Run all, some at a time; return what each printed."""
        try:
            with self._stop.listening():
                while self._running or self._waiting:
                    if self._stop.signal is not None:
                        self._ask_to_stop()
                    while self._waiting and len(self._running) < at_a_time:
                        seed = next(iter(self._waiting))
                        self._running[seed] = _Seed(self._waiting.pop(seed))
                    self._collect()
                    time.sleep(POLL_SECONDS)
        finally:
            for one in self._running.values():
                one.close()
        if self._stop.signal is not None and len(self.found) < self._count:
            self._say_stopped(parent)
            sys.exit(128 + self._stop.signal)
        if self._failed:
            raise SeedFailed("; ".join(self._failed))
        return dict(sorted(self.found.items(), key=lambda one: int(one[0])))

    def _ask_to_stop(self) -> None:
        self._waiting.clear()
        for one in self._running.values():
            if not one.is_asked:  # a second signal would end it at once
                one.process.send_signal(signal.SIGTERM)
                one.is_asked = True

    def _collect(self) -> None:
        for seed, one in list(self._running.items()):
            if one.process.poll() is None:
                continue
            del self._running[seed]
            if one.process.returncode == 0:
                self.found[str(seed)] = one.summary()
                done = f"{len(self.found)} of {self._count}"
                self._console.print(f"seed {seed} is done ({done})")
            elif not (one.is_asked and one.process.returncode in STOPPED):
                self._failed.append(f"seed {seed} failed: {one.complaint()}")
                self._console.print(self._failed[-1], markup=False)
            one.close()

    def _say_stopped(self, parent: Path) -> None:
        begun = seeds_of(parent)
        if begun:
            self._console.print(f"Stopped. Go on: rookery resume {parent}", markup=False)
        if len(begun) < self._count:
            missing = self._count - len(begun)
            said = "had not begun: train them into another folder."
            self._console.print(f"{missing} of the seeds {said}")


class _Seed:
    """The process of one seed; what it prints goes into memory, which no pipe limits."""

    def __init__(self, words: list[str]) -> None:
        self._printed, self._said = (os.memfd_create(name) for name in ("out", "err"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(os.getpid()), *words, "--json"],
            stdout=self._printed,
            stderr=self._said,
            start_new_session=True,
        )
        self.is_asked = False

    def summary(self) -> Any:
        """Return the object it printed last; a game may have printed before it."""
        text = "\n" + read_all(self._printed).decode()
        return json.loads(text[text.rindex("\n{\n") :])

    def complaint(self) -> str:
        """Return the last line of what it had to say."""
        lines = read_all(self._said).decode().strip().splitlines()
        return (lines or ["it said nothing"])[-1].removeprefix("error: ")

    def close(self) -> None:
        """End it, if it has not ended, and let go of what it said."""
        self.process.kill()
        self.process.wait()
        os.close(self._printed)
        os.close(self._said)
