"""Several seeds of one run, trained side by side in separate processes, in one folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rookery.api.cells_progress import CellsProgress
from rookery.api.seeds_plan import SeedsPlan, new_seeds
from rookery.config.messages import dotted
from rookery.config.run import Config
from rookery.config.toml import write_config
from rookery.errors import RookeryError
from rookery.games.registry import Entry
from rookery.printing import command, err
from rookery.runs.claim import Claim
from rookery.runs.folder import CONFIG, seeds_of
from rookery.runs.resume import probes_in
from rookery.runs.run import untrusted_algorithms
from rookery.stop import UNFINISHED, StopFlag, Stopped
from rookery.supervisor.child import read_all
from rookery.training.autoscale import cores

POLL_SECONDS = 0.2
WARNING = "warning: "
STOPPED = (UNFINISHED, 128 + signal.SIGTERM, -signal.SIGTERM)
"""Exit codes of seeds that were asked to stop: with a checkpoint, or before the start."""
START = (
    "import sys; from rookery.supervisor.child import die_with; "
    "die_with(int(sys.argv.pop(1))); from rookery.cli.app import main; main()"
)
"""The code of a seed's process, which ends with the process that started it."""

Say = Callable[[str], None]


class SeedFailed(RookeryError):
    """One of several seeds did not finish."""


def train_seeds(
    entry: Entry,
    config: Config,
    folder: Path | None,
    seeds: Sequence[int],
    batch: Batch,
) -> dict[str, Any]:
    """Train every seed, as many at a time as there are cores; return their summaries."""
    at_a_time = _at_a_time(config.workers, config.actors)
    # Side by side, seeds fill the cores best with one process each.
    workers = 0 if config.workers == "auto" else config.workers
    config = config.model_copy(update={"workers": workers})
    parent = new_seeds(entry, config, folder, seeds)
    with closing(Claim(parent)), tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / CONFIG
        write_config(config, file)
        commands = {
            seed: [
                *("train", entry.name, f"seed={seed}", *_code(config)),
                *("--config", str(file), "--run", str(parent / f"seed-{seed}")),
            ]
            for seed in seeds
        }
        summaries = batch.run(commands, at_a_time, parent, config.rounds)
    return {"run": str(parent), "seeds": summaries}


def algorithms_of(config: Config) -> dict[str, str]:
    """Return all algorithms and modules in a configuration, by the setting's name."""
    named: dict[str, str] = {"algorithm": config.algorithm}
    groups = {(): config} | {("agents", key): each for key, each in config.agents.items()}
    for path, group in groups.items():
        if "algorithm" in group.model_fields_set:
            named[dotted((*path, "algorithm"))] = group.algorithm
        if group.network.module is not None:
            named[dotted((*path, "network", "module"))] = group.network.module
    return named


def _code(config: Config) -> list[str]:
    """Return the overrides that name the user's code, which no file can name alone."""
    named = algorithms_of(config)
    custom = untrusted_algorithms(named.values(), ())
    overrides = [f"{key}={name}" for key, name in named.items() if name in custom]
    return [*overrides, *([f"probe.code={config.probe.code}"] if config.probe.code else [])]


def resume_seeds(
    path: Path,
    settings: Mapping[str, Any],
    game: str | None,
    algorithms: Sequence[str],
    batch: Batch,
) -> dict[str, Any]:
    """Resume every seed that is not finished, and start those that had not started.

    Returns their summaries.

    Args:
        path: the folder of the seeds.
        settings: to change in every seed, as a tree.
        game: its name, if it is not built in.
        algorithms: those that are not built in.
        batch: runs the seeds.
    """
    with closing(Claim(path)):
        probes = probes_in(settings)
        plan = SeedsPlan(path, game, algorithms, probes, batch.say)
        seeds = plan.prepare(settings)
        code = [f"--algorithm={name}" for name in algorithms]
        code += [f"--game={game}"] if game else []
        code += [f"probe.code={name}" for name in probes]
        commands = {seed: ["resume", str(path / f"seed-{seed}"), *code] for seed in seeds}
        tree = tomllib.loads((path / f"seed-{seeds[0]}" / CONFIG).read_text())
        rounds = int(tree.get("rounds", 0))
        summaries = batch.run(commands, _at_a_time("auto", "auto"), path, rounds)
    return {"run": str(path), "seeds": summaries}


def _at_a_time(workers: str | int, actors: str | int) -> int:
    """Return how many runs fill the cores."""
    processes = 1
    if isinstance(workers, int) and workers:
        processes = workers + (actors if isinstance(actors, int) else 1)
    return max(1, cores() // processes)


class Batch:
    """Seeds that run side by side, each in a separate process session.

    So Ctrl-C reaches only this process, which asks every seed to stop, once, and waits
    until all have saved their state. A seed that fails does not affect the others.

    Args:
        stop: asks all seeds to stop.
        quiet: whether to show no progress.
        say: called with lines for the user.
        warn: called with the seeds' warnings; the same one of several seeds only once.
    """

    def __init__(self, stop: StopFlag, quiet: bool, say: Say, warn: Say) -> None:
        self._stop, self._quiet, self.say, self._warn = stop, quiet, say, warn
        self._waiting: dict[int, list[str]] = {}
        self._running: dict[int, _Seed] = {}
        self._failed: list[str] = []
        self._warnings: set[str] = set()
        self._summaries: dict[str, Any] = {}

    def run(
        self, commands: Mapping[int, list[str]], at_a_time: int, parent: Path, rounds: int
    ) -> dict[str, Any]:
        """Run the commands of all seeds, some at a time; return the JSON that each printed.

        Raises:
            Stopped: if they were asked to stop, and all have saved their state.
            SeedFailed: if some failed.
        """
        self._waiting = dict(commands)
        folders = {f"seed {seed}": parent / f"seed-{seed}" for seed in commands}
        totals = dict.fromkeys(folders, rounds)
        try:
            with CellsProgress(err, folders, totals, self._quiet, "seeds") as progress:
                while self._running or self._waiting:
                    if self._stop.is_set:
                        self._ask_to_stop()
                    while self._waiting and len(self._running) < at_a_time:
                        seed = next(iter(self._waiting))
                        self._running[seed] = _Seed(self._waiting.pop(seed))
                    self._collect(len(commands), progress.is_live)
                    running = [f"seed {seed}" for seed in self._running]
                    progress.show(running, len(self._summaries))
                    time.sleep(POLL_SECONDS)
        finally:
            for process in self._running.values():
                process.close()
        if self._stop.is_set and len(self._summaries) < len(commands):
            self._say_stopped(parent, len(commands))
            raise Stopped
        if self._failed:
            raise SeedFailed("; ".join(self._failed))
        return dict(sorted(self._summaries.items(), key=lambda item: int(item[0])))

    def _ask_to_stop(self) -> None:
        self._waiting.clear()
        for seed in self._running.values():
            if not seed.is_stopping:  # a second signal would end it at once
                seed.process.send_signal(signal.SIGTERM)
                seed.is_stopping = True

    def _collect(self, count: int, is_shown: bool) -> None:
        """Take in what has ended; say so, unless the progress that is shown does."""
        for number, seed in list(self._running.items()):
            code = seed.process.poll()
            self._pass_on_warnings(number, seed)
            if code is None:
                continue
            del self._running[number]
            if code == 0:
                self._summaries[str(number)] = seed.summary()
                if not is_shown:
                    self.say(f"seed {number} is done ({len(self._summaries)} of {count})")
            elif not (seed.is_stopping and code in STOPPED):
                self._failed.append(f"seed {number} failed: {seed.error()}")
                self.say(self._failed[-1])
            seed.close()

    def _pass_on_warnings(self, number: int, seed: _Seed) -> None:
        for line in seed.new_errors():
            if line.startswith(WARNING) and line not in self._warnings:
                self._warnings.add(line)
                self._warn(f"seed {number}: {line.removeprefix(WARNING)}")

    def _say_stopped(self, parent: Path, count: int) -> None:
        self.say(f"Stopped. Resume: {command('resume', parent)}")
        if missing := count - len(seeds_of(parent)):
            self.say(f"{missing} of the seeds had not started; resuming starts them.")


class _Seed:
    """The process of one seed; its output goes to memory, because a pipe could fill up."""

    def __init__(self, arguments: list[str]) -> None:
        self._stdout, self._stderr = (os.memfd_create(name) for name in ("out", "err"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(os.getpid()), *arguments, "--json"],
            stdout=self._stdout,
            stderr=self._stderr,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.is_stopping = False
        self._lines_read = 0

    def summary(self) -> Any:
        """Return the JSON object it printed last; a game may have printed before it."""
        text = "\n" + read_all(self._stdout).decode()
        return json.loads(text[text.rindex("\n{\n") :])

    def new_errors(self) -> list[str]:
        """Return the lines that it printed on standard error since the last call."""
        # With pread, since the process writes at the position that a read would move.
        data = os.pread(self._stderr, os.fstat(self._stderr).st_size, 0)
        lines = data.decode(errors="replace").split("\n")[:-1]
        new, self._lines_read = lines[self._lines_read :], len(lines)
        return new

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
