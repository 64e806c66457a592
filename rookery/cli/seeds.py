"""Several seeds of one run, side by side: each a process of its own, in one folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import to_toml, write_config
from rookery.errors import ConfigError, RookeryError
from rookery.evaluation.play import agents_of
from rookery.games.registry import Entry
from rookery.printing import command, say
from rookery.runs.arithmetic import machine
from rookery.runs.configure import configure
from rookery.runs.folder import CONFIG, SEEDS, RunLock, new_run, seeds_of
from rookery.runs.run import trusted_entry
from rookery.runs.seal import read_summed, seal_of, write_seal, write_summed
from rookery.runs.start_from import origins_of, sum_of
from rookery.stop import StopFlag
from rookery.storage.access import is_folder
from rookery.storage.arrays import Damaged
from rookery.supervisor.child import read_all
from rookery.training.autoscale import cores

LIMIT = 10_000
POLL_SECONDS = 0.2
STOPPED = (128 + signal.SIGTERM, -signal.SIGTERM)
"""How seeds end that were asked to stop: with a checkpoint, or before there was a run."""
START = (
    "import sys; from rookery.supervisor.child import die_with; "
    "die_with(int(sys.argv.pop(1))); from rookery.cli.app import main; main()"
)
"""What a seed's process runs: no seed outlives the process that started it."""


class SeedFailed(RookeryError):
    """One of several seeds did not finish."""


def parse_seeds(override: str) -> list[int]:
    """Return the seeds of a word such as seeds=0..9 or seeds=1,4,7."""
    text = override.removeprefix("seeds=").strip("[] ")
    span = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", text)
    if span:
        first, last = int(span[1]), int(span[2])
        if first <= last < first + LIMIT:
            return list(range(first, last + 1))
    elif re.fullmatch(r"\d{1,18}(\s*,\s*\d{1,18})*", text):
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    raise ConfigError(f"{override[:60]!r} names no seeds: write seeds=0..9 or seeds=1,4,7.")


def train_seeds(
    game: str | None,
    overrides: Sequence[str],
    config_file: Path | None,
    folder: Path | None,
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Train every seed, as many at a time as there are cores; return their summaries."""
    # All mistakes are told before the start.
    entry, chosen = configure(game, overrides, config_file)
    # Side by side, seeds fill the cores best with one process each.
    alone = ["workers=0"] if chosen.workers == "auto" else []
    listed = _list_of(seeds, *configure(game, [*overrides, *alone], config_file))
    parent = new_run(folder, entry.name)
    with closing(RunLock(parent)):
        write_summed(parent / SEEDS, listed)
        config = ["--config", str(config_file)] if config_file else []
        named = [game] if game else []
        commands = {}
        for seed in seeds:
            more = [f"seed={seed}", *alone, *config, "--run", str(parent / f"seed-{seed}")]
            commands[seed] = ["train", *named, *overrides, *more]
        found = _Batch(commands).run(_at_a_time(chosen.workers), parent)
    return {"run": str(parent), "seeds": found}


def resume_seeds(
    path: Path,
    overrides: Sequence[str],
    code: Sequence[str],
    game: str | None = None,
) -> dict[str, Any]:
    """Go on with every seed that is not finished, and begin those that had not begun.

    Returns their summaries.
    """
    with closing(RunLock(path)):
        begun = [int(one.name.removeprefix("seed-")) for one in seeds_of(path)]
        listed = _read_list(path)
        if listed is None:
            say(
                f"{path} has no {SEEDS}, so some seeds may never have begun: going on "
                f"with the {len(begun)} that are there."
            )
        missing = [seed for seed in (listed or {}).get("seeds", ()) if seed not in begun]
        if listed and missing:
            said = ", ".join(map(str, missing))
            say(f"starting the seeds that had not begun: {said}")
            _prepare(path, missing, listed, game)
        commands = {
            seed: ["resume", str(path / f"seed-{seed}"), *overrides, *code]
            for seed in sorted([*begun, *missing])
        }
        found = _Batch(commands).run(_at_a_time("auto"), path)
    return {"run": str(path), "seeds": found}


def _list_of(seeds: Sequence[int], entry: Entry, config: Config) -> dict[str, Any]:
    """Return which seeds there are and what each is asked to do."""
    agents = agents_of(entry, config)
    origins = {i: sum_of(one) for i, one in origins_of(config, agents).items()}
    seal = seal_of(config, [spec.id for spec in agents], origins, machine())
    return {"seeds": list(seeds), "config": to_toml(config), "seal": seal}


def _read_list(parent: Path) -> dict[str, Any] | None:
    """Return the list that was written at the start; None if there is none.

    Raises:
        ConfigError: if it is not what was written.
    """
    try:
        return read_summed(parent / SEEDS)
    except Damaged as error:
        raise ConfigError(
            f"{parent / SEEDS} is not what was written when the seeds began: put it back, "
            "or delete it to go on with the seeds that have begun."
        ) from error


def _prepare(
    parent: Path, seeds: Sequence[int], listed: Mapping[str, Any], game: str | None
) -> None:
    """Make the folders of seeds that had not begun: runs that were killed at once."""
    tree = tomllib.loads(listed["config"])
    settings = trusted_entry(parent, tree, game).settings
    for seed in seeds:
        folder = parent / f"seed-{seed}"
        if is_folder(folder):
            with closing(RunLock(folder)):
                shutil.rmtree(folder)  # it was killed before it was a run
        folder.mkdir()
        sealed = {**listed["seal"]["settings"], "seed": seed}
        write_seal(folder, {**listed["seal"], "settings": sealed})
        write_config(resolve({**tree, "seed": seed}, settings), folder / CONFIG)


def _at_a_time(workers: str | int) -> int:
    """Return how many runs fill the cores."""
    each = 1 if isinstance(workers, str) else workers + 1
    return max(1, cores() // each)


class _Batch:
    """Seeds that run side by side, each in a session of its own.

    So Ctrl-C reaches this process alone, which asks every seed to stop, once, and waits
    until all have saved what they have. A seed that fails leaves the others alone.
    """

    def __init__(self, commands: Mapping[int, list[str]]) -> None:
        self._count = len(commands)
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
                say(f"seed {seed} is done ({done})")
            elif not (one.is_asked and one.process.returncode in STOPPED):
                self._failed.append(f"seed {seed} failed: {one.complaint()}")
                say(self._failed[-1])
            one.close()

    def _say_stopped(self, parent: Path) -> None:
        say(f"Stopped. Go on: {command('resume', parent)}")
        if missing := self._count - len(seeds_of(parent)):
            said = "of the seeds had not begun; resuming starts them."
            say(f"{missing} {said}")


class _Seed:
    """The process of one seed; what it prints goes into memory, which no pipe limits."""

    def __init__(self, overrides: list[str]) -> None:
        self._printed, self._said = (os.memfd_create(name) for name in ("out", "err"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(os.getpid()), *overrides, "--json"],
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
