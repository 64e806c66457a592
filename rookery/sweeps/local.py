"""Training a sweep on this machine: as many processes as there are cores take cells.

This process starts them, shows how far they are, and starts another one if one dies. Each
is in a session of its own, so Ctrl-C reaches only this process, which asks every one to
stop, once, and waits until all have saved their cell.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isinf
from typing import Any, Protocol

from rookery.errors import RookeryError
from rookery.stop import UNFINISHED, StopFlag, Stopped
from rookery.supervisor.launcher import ending
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    STOPPED,
    forget_failures,
    record_failure,
    saved_round,
    state_of,
)
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.work import START, WARNING
from rookery.training.autoscale import cores

POLL_SECONDS = 0.1
MOST_FALSE_STARTS = 3
"""If so many processes in a row die before they take a cell, no more are started."""
CODE = (
    "import sys; from rookery.supervisor.child import die_with; "
    "die_with(int(sys.argv.pop(1))); from rookery.cli.app import main; main()"
)
"""What a process runs, which ends with the process that started it."""

Say = Callable[[str], None]


class Progress(Protocol):
    """Shows how far the cells are."""

    is_live: bool
    """Whether it is shown all the time, so that no lines are needed."""

    def show(self, running: Sequence[str], done: int) -> None:
        """Show the cells that are trained now, and how many are done."""


class CannotStart(RookeryError):
    """Processes end before they take a cell."""


@dataclass
class Outcome:
    """What has become of the cells of a sweep."""

    summaries: dict[str, Any] = field(default_factory=dict)
    """Of every cell that was finished now, by name."""
    failed: dict[str, str] = field(default_factory=dict)
    """One line for every cell that has failed, by name."""


class LocalSweep:
    """Trains all cells of a sweep that are not done, on this machine.

    Args:
        plan: of the sweep.
        stop: asks all processes to save and leave.
        progress: shows how far every cell is.
        say: called with lines for the user.
        warn: called with the cells' warnings; the same one of several cells only once.
    """

    def __init__(
        self, plan: Plan, stop: StopFlag, progress: Progress, say: Say, warn: Say
    ) -> None:
        self._plan, self._stop, self._progress = plan, stop, progress
        self._say, self._warn = say, warn
        self._cells = {cell.name: cell for cell in plan.cells}
        self._processes: list[_Process] = []
        self._deaths: Counter[tuple[str, int]] = Counter()
        self._done = self._false_starts = 0
        self._is_leaving = False
        """Whether a process was asked to stop, or its time was over: no more are started."""
        self._warnings: set[str] = set()
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Train until all cells are done or have failed.

        Raises:
            Stopped: if asked to stop before that; all cells are saved.
        """
        forget_failures(self._plan)
        left = [cell for cell in self._plan.cells if state_of(self._plan, cell) != DONE]
        self._done = len(self._cells) - len(left)
        at_a_time = min(len(left), cells_at_a_time(self._plan))
        try:
            self._processes = [self._start() for _ in range(at_a_time)]
            while self._processes:
                if self._stop.is_set:
                    self._ask_to_stop()
                self._collect()
                running = [process.cell for process in self._processes if process.cell]
                self._progress.show(running, self._done)
                time.sleep(POLL_SECONDS)
        finally:
            for process in self._processes:
                process.close()
        if (self._stop.is_set or self._is_leaving) and not self._is_over(left):
            raise Stopped
        return self.outcome

    def _is_over(self, cells: list[Cell]) -> bool:
        ended = self.outcome.summaries.keys() | self.outcome.failed.keys()
        return ended >= {cell.name for cell in cells}

    def _start(self) -> _Process:
        folder, code = str(self._plan.folder), self._plan.named.arguments()
        until = self._stop.until
        end = [] if isinf(until) else [f"--until={datetime.fromtimestamp(until, UTC)}"]
        return _Process(["sweep", "work", folder, *code, *end, "--json"])

    def _ask_to_stop(self) -> None:
        for process in self._processes:
            if not process.is_stopping:
                process.popen.send_signal(signal.SIGTERM)
                process.is_stopping = True

    def _collect(self) -> None:
        """Take in what processes have told, and replace those that have died."""
        for process in list(self._processes):
            code = process.popen.poll()
            for event in process.new_events():
                self._take(process, event)
            if code is None:
                continue
            self._processes.remove(process)
            self._is_leaving |= code == UNFINISHED
            if code not in (0, UNFINISHED) and not self._stop.is_set:
                self._bury(process, code)
                self._processes.append(self._start())
            process.close()

    def _take(self, process: _Process, event: dict[str, Any]) -> None:
        kind, name = event["event"], event["cell"]
        process.cell = name if kind in (START, WARNING) else None
        self._false_starts = 0
        if kind == DONE:
            self._done += 1
            self.outcome.summaries[name] = event["summary"]
        elif kind == FAILED:
            self.outcome.failed[name] = event["line"]
            self._say(f"{name} failed: {event['line']}")
        elif kind == WARNING and event["line"] not in self._warnings:
            self._warnings.add(event["line"])
            self._warn(f"{name}: {event['line']}")
        elif kind == STOPPED and "line" in event:
            self._say(f"{name}: {event['line']}")
        if kind == DONE and not self._progress.is_live:
            self._say(f"{name} is done ({self._done} of {len(self._cells)})")

    def _bury(self, process: _Process, code: int) -> None:
        """Say that a process has died; its cell is taken again, but not forever."""
        how = f"{ending(code)}{process.last_error()}"
        if process.cell is None:
            self._false_starts += 1
            if self._false_starts >= MOST_FALSE_STARTS:
                raise CannotStart(f"no process takes a cell; the last one {how}")
            return
        cell = self._cells[process.cell]
        key, limit = (cell.name, saved_round(cell)), cell.config.restarts.limit
        self._deaths[key] += 1
        if self._deaths[key] < limit:
            self._say(f"{cell.name}: its process {how}; it is continued.")
            return
        line = f"its process {how}, {limit} times without a new checkpoint in between"
        record_failure(self._plan, cell, line)
        self.outcome.failed[cell.name] = line
        self._say(f"{cell.name} failed: {line}")


def cells_at_a_time(plan: Plan) -> int:
    """Return how many cells fill the cores."""
    return max(1, cores() // processes_of(plan.cells[0]))


def processes_of(cell: Cell) -> int:
    """Return how many cores a cell uses."""
    config = cell.config
    if not isinstance(config.workers, int) or not config.workers:
        return 1
    return config.workers + (config.actors if isinstance(config.actors, int) else 1)


class _Process:
    """A process that takes cells; its output goes to memory, because a pipe could fill."""

    def __init__(self, arguments: list[str]) -> None:
        self._stdout, self._stderr = (os.memfd_create(name) for name in ("out", "err"))
        self.popen = subprocess.Popen(
            [sys.executable, "-P", "-c", CODE, str(os.getpid()), *arguments],
            stdout=self._stdout,
            stderr=self._stderr,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.is_stopping = False
        self.cell: str | None = None
        """The cell that it trains, as far as it has told."""
        self._position = 0

    def new_events(self) -> list[dict[str, Any]]:
        """Return what it has told since the last call."""
        # With pread, since the process writes at the position that a read would move.
        size = os.fstat(self._stdout).st_size - self._position
        data = os.pread(self._stdout, size, self._position)
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        events = []
        for line in complete.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a game has printed it
            if isinstance(event, dict) and "event" in event and "cell" in event:
                events.append(event)
        return events

    def last_error(self) -> str:
        """Return the last line that it printed on standard error, after a colon."""
        data = os.pread(self._stderr, os.fstat(self._stderr).st_size, 0)
        lines = data.decode(errors="replace").strip().splitlines()
        return f": {lines[-1].removeprefix('error: ')}" if lines else ""

    def close(self) -> None:
        """End the process, if it has not ended, and free its output."""
        self.popen.kill()
        self.popen.wait()
        os.close(self._stdout)
        os.close(self._stderr)
