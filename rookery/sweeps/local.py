"""Training a sweep on this machine: as many processes as there are cores take cells.

This process starts them, shows how far they are, and starts another one if one dies. Each
is in a session of its own, so Ctrl-C reaches only this process, which asks every one to
stop, once, and waits until all have saved their cell.

Other processes, here or on other machines that share the folder, can train cells of the
same sweep at the same time, also by the same command: nobody takes a cell that another one
holds. Each command ends when all cells are done, no matter who has trained them: when it
has no cell left, it waits for those of the others, and takes the ones that they give up.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from rookery.errors import RookeryError
from rookery.runs.folder import MOST_NAMED
from rookery.stop import UNFINISHED, StopFlag, Stopped
from rookery.supervisor.launcher import ending
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    RUNNING,
    STOPPED,
    failures,
    forget_failures,
    record_failure,
    saved_round,
    state_of,
)
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.work import START, WARNING
from rookery.training.autoscale import cores

POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0
"""How often cells that other processes train are looked at."""
EVENT = b'{"event": '
"""How a line begins that tells of an event."""
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
        """Show the cells that are trained now, by name, and how many are done."""


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
        self._left = dict(self._cells)
        """Cells that are not known to be done or to have failed."""
        self._processes: list[_Process] = []
        self._deaths: Counter[tuple[str, int]] = Counter()
        self._done = self._false_starts = 0
        self._is_leaving = False
        """Whether a process has left before all was done, as if it had been stopped."""
        self._warnings: set[str] = set()
        self._looked = -math.inf
        self._has_told_of_others = False
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Train until all cells are done or have failed, whoever trains them.

        Raises:
            Stopped: if asked to stop before that; all cells are saved.
        """
        forget_failures(self._plan)
        try:
            while self._processes or self._has_more():
                if self._stop.is_set:
                    self._ask_to_stop()
                self._collect()
                running = [x.cell.name for x in self._processes if x.cell]
                self._progress.show(running, self._done)
                time.sleep(POLL_SECONDS)
        finally:
            for process in self._processes:
                process.close()
        if (self._stop.is_set or self._is_leaving) and self._left:
            raise Stopped
        return self.outcome

    def _has_more(self) -> bool:
        """Whether any cell is left; start processes for those that nobody trains."""
        if self._stop.is_set or self._is_leaving or not self._left:
            return False
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return True
        self._looked = now
        others: list[Cell] = []
        for cell in list(self._left.values()):
            state = state_of(self._plan, cell)
            if state == DONE:
                self._take_done(cell)
            elif state == FAILED:
                self._take_failed(cell, failures(self._plan).get(cell.name, ""))
            elif state == RUNNING:
                others.append(cell)
        free = min(len(self._left) - len(others), cells_at_a_time(self._plan))
        self._processes = [self._start() for _ in range(free)]
        if others and not free and not self._has_told_of_others:
            self._has_told_of_others = True
            names = ", ".join(cell.label for cell in others[:MOST_NAMED])
            more = ", …" if len(others) > MOST_NAMED else ""
            self._say(f"waiting for other processes, which train {names}{more}")
        return bool(self._left)

    def _take_done(self, cell: Cell) -> None:
        del self._left[cell.name]
        self._done += 1

    def _take_failed(self, cell: Cell, line: str) -> None:
        del self._left[cell.name]
        self.outcome.failed[cell.name] = line
        self._say(f"{cell.label} failed: {line}")

    def _start(self) -> _Process:
        folder, code = str(self._plan.folder), self._plan.named.arguments()
        until = self._stop.until
        end = [] if math.isinf(until) else [f"--until={datetime.fromtimestamp(until, UTC)}"]
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
        kind, cell = event["event"], self._left.get(event["cell"])
        if cell is None:
            return
        process.cell = cell if kind in (START, WARNING) else None
        self._false_starts = 0
        if kind == DONE:
            self._take_done(cell)
            self.outcome.summaries[cell.name] = event["summary"]
            if not self._progress.is_live:
                self._say(f"{cell.label} is done ({self._done} of {len(self._cells)})")
        elif kind == FAILED:
            self._take_failed(cell, event["line"])
        elif kind == WARNING and event["line"] not in self._warnings:
            self._warnings.add(event["line"])
            self._warn(f"{cell.label}: {event['line']}")
        elif kind == STOPPED and "line" in event:
            self._say(f"{cell.label}: {event['line']}")

    def _bury(self, process: _Process, code: int) -> None:
        """Say that a process has died; its cell is taken again, but not forever."""
        how = f"{ending(code)}{process.last_error()}"
        if process.cell is None:
            self._false_starts += 1
            if self._false_starts >= MOST_FALSE_STARTS:
                raise CannotStart(f"no process takes a cell; the last one {how}")
            return
        cell = process.cell
        key, limit = (cell.name, saved_round(cell)), cell.config.restarts.limit
        self._deaths[key] += 1
        if self._deaths[key] < limit:
            self._say(f"{cell.label}: its process {how}; it is continued.")
            return
        line = f"its process {how}, {limit} times without a new checkpoint in between"
        record_failure(self._plan, cell, line)
        self._take_failed(cell, line)


def cells_at_a_time(plan: Plan) -> int:
    """Return how many cells fill the cores."""
    if plan.cells[0].config.workers == "auto":  # each fills them on its own
        return 1
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
        self.cell: Cell | None = None
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
            if EVENT not in line:
                continue  # a game has printed it; it may also have begun an event's line
            try:
                event = json.loads(line[line.rindex(EVENT) :])
            except ValueError:
                continue
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
