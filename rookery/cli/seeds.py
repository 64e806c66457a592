"""Several seeds of one run, trained side by side in separate processes, in one folder."""

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
from rookery.runs.agent_files import origin_checksum, origins_of
from rookery.runs.configure import configure
from rookery.runs.folder import CONFIG, SEEDS, RunLock, new_run, seeds_of
from rookery.runs.run import trusted_entry
from rookery.runs.seal import seal_of, write_seal
from rookery.stop import StopFlag
from rookery.storage.access import is_folder
from rookery.storage.arrays import Damaged
from rookery.storage.summed_json import read_with_checksum, write_with_checksum
from rookery.supervisor.child import read_all
from rookery.training.autoscale import cores

MAX_SEEDS = 10_000
POLL_SECONDS = 0.2
STOPPED = (128 + signal.SIGTERM, -signal.SIGTERM)
"""Exit codes of seeds that were asked to stop: with a checkpoint, or before the start."""
START = (
    "import sys; from rookery.supervisor.child import die_with; "
    "die_with(int(sys.argv.pop(1))); from rookery.cli.app import main; main()"
)
"""The code of a seed's process, which ends with the process that started it."""


class SeedFailed(RookeryError):
    """One of several seeds did not finish."""


def parse_seeds(override: str) -> list[int]:
    """Return the seeds in an override such as seeds=0..9 or seeds=1,4,7."""
    text = override.removeprefix("seeds=").strip("[] ")
    span = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", text)
    if span:
        first, last = int(span[1]), int(span[2])
        if first <= last < first + MAX_SEEDS:
            return list(range(first, last + 1))
    elif re.fullmatch(r"\d{1,18}(\s*,\s*\d{1,18})*", text):
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    raise ConfigError(
        f"{override[:60]!r} is not a list of seeds: write seeds=0..9 or seeds=1,4,7."
    )


def train_seeds(
    game: str | None,
    overrides: Sequence[str],
    config_file: Path | None,
    folder: Path | None,
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Train every seed, as many at a time as there are cores; return their summaries."""
    # First, so that all errors are reported before the start.
    entry, config = configure(game, overrides, config_file)
    # Side by side, seeds fill the cores best with one process each.
    workers = ["workers=0"] if config.workers == "auto" else []
    plan = _plan(seeds, *configure(game, [*overrides, *workers], config_file))
    parent = new_run(folder, entry.name)
    with closing(RunLock(parent)):
        write_with_checksum(parent / SEEDS, plan)
        arguments = ["train", *([game] if game else []), *overrides]
        options = ["--config", str(config_file)] if config_file else []
        commands = {
            seed: [
                *arguments,
                f"seed={seed}",
                *workers,
                *options,
                "--run",
                str(parent / f"seed-{seed}"),
            ]
            for seed in seeds
        }
        summaries = _Batch(commands).run(_at_a_time(config.workers), parent)
    return {"run": str(parent), "seeds": summaries}


def resume_seeds(
    path: Path,
    overrides: Sequence[str],
    code: Sequence[str],
    game: str | None = None,
) -> dict[str, Any]:
    """Resume every seed that is not finished, and start those that had not started.

    Returns their summaries.
    """
    with closing(RunLock(path)):
        started = [int(folder.name.removeprefix("seed-")) for folder in seeds_of(path)]
        plan = _read_plan(path)
        if plan is None:
            say(
                f"{path} has no {SEEDS}, so some seeds may never have started: resuming "
                f"the {len(started)} that have."
            )
        missing = [seed for seed in (plan or {}).get("seeds", ()) if seed not in started]
        if plan and missing:
            say(f"starting the remaining seeds: {', '.join(map(str, missing))}")
            _prepare(path, missing, plan, game)
        commands = {
            seed: ["resume", str(path / f"seed-{seed}"), *overrides, *code]
            for seed in sorted([*started, *missing])
        }
        summaries = _Batch(commands).run(_at_a_time("auto"), path)
    return {"run": str(path), "seeds": summaries}


def _plan(seeds: Sequence[int], entry: Entry, config: Config) -> dict[str, Any]:
    """Return the list of seeds with their common configuration and seal."""
    agents = agents_of(entry, config)
    origins = {
        agent: origin_checksum(origin)
        for agent, origin in origins_of(config, agents).items()
    }
    seal = seal_of(config, [spec.id for spec in agents], origins)
    return {"seeds": list(seeds), "config": to_toml(config), "seal": seal}


def _read_plan(parent: Path) -> dict[str, Any] | None:
    """Return the plan that was written at the start; None if there is none.

    Raises:
        ConfigError: if the file was changed or damaged.
    """
    try:
        return read_with_checksum(parent / SEEDS)
    except Damaged as error:
        raise ConfigError(
            f"{parent / SEEDS} is not what was written when the seeds started: put it "
            "back, or delete it to resume the seeds that have started."
        ) from error


def _prepare(
    parent: Path, seeds: Sequence[int], plan: Mapping[str, Any], game: str | None
) -> None:
    """Create the folders of seeds that had not started, like those of runs just started."""
    tree = tomllib.loads(plan["config"])
    settings = trusted_entry(parent, tree, game).settings
    for seed in seeds:
        folder = parent / f"seed-{seed}"
        if is_folder(folder):
            with closing(RunLock(folder)):
                shutil.rmtree(folder)  # killed before it became a run
        folder.mkdir()
        sealed = {**plan["seal"]["settings"], "seed": seed}
        write_seal(folder, {**plan["seal"], "settings": sealed})
        write_config(resolve({**tree, "seed": seed}, settings), folder / CONFIG)


def _at_a_time(workers: str | int) -> int:
    """Return how many runs fill the cores."""
    processes = 1 if isinstance(workers, str) else workers + 1
    return max(1, cores() // processes)


class _Batch:
    """Seeds that run side by side, each in a separate process session.

    So Ctrl-C reaches only this process, which asks every seed to stop, once, and waits
    until all have saved their state. A seed that fails does not affect the others.
    """

    def __init__(self, commands: Mapping[int, list[str]]) -> None:
        self._count = len(commands)
        self._waiting = dict(commands)
        self._running: dict[int, _Seed] = {}
        self._stop = StopFlag()
        self._failed: list[str] = []
        self._summaries: dict[str, Any] = {}

    def run(self, at_a_time: int, parent: Path) -> dict[str, Any]:
        """Run all seeds, some at a time; return the JSON object that each printed."""
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
            for process in self._running.values():
                process.close()
        if self._stop.signal is not None and len(self._summaries) < self._count:
            self._say_stopped(parent)
            sys.exit(128 + self._stop.signal)
        if self._failed:
            raise SeedFailed("; ".join(self._failed))
        return dict(sorted(self._summaries.items(), key=lambda item: int(item[0])))

    def _ask_to_stop(self) -> None:
        self._waiting.clear()
        for seed in self._running.values():
            if not seed.is_stopping:  # a second signal would end it at once
                seed.process.send_signal(signal.SIGTERM)
                seed.is_stopping = True

    def _collect(self) -> None:
        for number, seed in list(self._running.items()):
            code = seed.process.poll()
            if code is None:
                continue
            del self._running[number]
            if code == 0:
                self._summaries[str(number)] = seed.summary()
                say(f"seed {number} is done ({len(self._summaries)} of {self._count})")
            elif not (seed.is_stopping and code in STOPPED):
                self._failed.append(f"seed {number} failed: {seed.error()}")
                say(self._failed[-1])
            seed.close()

    def _say_stopped(self, parent: Path) -> None:
        say(f"Stopped. Resume: {command('resume', parent)}")
        if missing := self._count - len(seeds_of(parent)):
            say(f"{missing} of the seeds had not started; resuming starts them.")


class _Seed:
    """The process of one seed; its output goes to memory, because a pipe could fill up."""

    def __init__(self, arguments: list[str]) -> None:
        self._stdout, self._stderr = (os.memfd_create(name) for name in ("out", "err"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(os.getpid()), *arguments, "--json"],
            stdout=self._stdout,
            stderr=self._stderr,
            start_new_session=True,
        )
        self.is_stopping = False

    def summary(self) -> Any:
        """Return the JSON object it printed last; a game may have printed before it."""
        text = "\n" + read_all(self._stdout).decode()
        return json.loads(text[text.rindex("\n{\n") :])

    def error(self) -> str:
        """Return the last line that it printed on standard error."""
        lines = read_all(self._stderr).decode().strip().splitlines()
        return (lines or ["no message"])[-1].removeprefix("error: ")

    def close(self) -> None:
        """End the process, if it has not ended, and free its output."""
        self.process.kill()
        self.process.wait()
        os.close(self._stdout)
        os.close(self._stderr)
