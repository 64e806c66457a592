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

import math
import os
import signal
import sys
import time
from datetime import UTC, datetime
from typing import Any

from rookery.runs.folder import MOST_NAMED
from rookery.stop import UNFINISHED, StopFlag, Stopped
from rookery.supervisor.launcher import ending
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    PRUNED,
    RUNNING,
    failures,
    forget_failures,
    state_of,
)
from rookery.sweeps.child import Child
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.tally import (
    MOST_FALSE_STARTS,
    CannotStart,
    Outcome,
    Progress,
    Say,
    Tally,
)
from rookery.sweeps.work import START, WARNING
from rookery.training.autoscale import cores

POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0
"""How often cells that other processes train are looked at."""


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
        self._plan, self._stop, self._say = plan, stop, say
        self._tally = Tally(plan, progress, say, warn)
        self._processes: list[_Process] = []
        self._false_starts = 0
        self._is_leaving = False
        """Whether a process has left before all was done, as if it had been stopped."""
        self._looked = -math.inf
        self._has_told_of_others = False

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
                self._tally.show(x.cell for x in self._processes if x.cell)
                time.sleep(POLL_SECONDS)
        finally:
            for process in self._processes:
                process.close()
        if (self._stop.is_set or self._is_leaving) and self._tally.left:
            raise Stopped
        return self._tally.outcome

    def _has_more(self) -> bool:
        """Whether any cell is left; start processes for those that nobody trains."""
        left = self._tally.left
        if self._stop.is_set or self._is_leaving or not left:
            return False
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return True
        self._looked = now
        self._look_for_trials()
        left = self._tally.left
        others: list[Cell] = []
        for cell in list(left.values()):
            state = state_of(self._plan, cell)
            if state in (DONE, PRUNED):
                self._tally.take_done(cell)
            elif state == FAILED:
                self._tally.take_failed(cell, failures(self._plan).get(cell.name, ""))
            elif state == RUNNING:
                others.append(cell)
        free = min(len(left) - len(others), cells_at_a_time(self._plan))
        self._processes = [self._start() for _ in range(free)]
        if others and not free and not self._has_told_of_others:
            self._has_told_of_others = True
            names = ", ".join(cell.label for cell in others[:MOST_NAMED])
            more = ", …" if len(others) > MOST_NAMED else ""
            self._say(f"waiting for other processes, which train {names}{more}")
        return bool(left)

    def _look_for_trials(self) -> None:
        """In a search, look which settings are known now, and how many trials there are."""
        if self._plan.search is not None:
            self._plan = Plan(self._plan.folder, self._plan.named)
            self._tally.replan(self._plan)

    def _start(self) -> _Process:
        folder, code = str(self._plan.folder), self._plan.named.arguments()
        until = self._stop.until
        end = [] if math.isinf(until) else [f"--until={datetime.fromtimestamp(until, UTC)}"]
        return _Process(["sweep", "work", folder, *code, *end, "--json"])

    def _ask_to_stop(self) -> None:
        for process in self._processes:
            if not process.is_stopping:
                process.process.send_signal(signal.SIGTERM)
                process.is_stopping = True

    def _collect(self) -> None:
        """Take in what processes have told, and replace those that have died."""
        for process in list(self._processes):
            code = process.process.poll()
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
        cell = self._tally.left.get(event["cell"])
        if cell is None:
            return
        process.cell = cell if event["event"] in (START, WARNING) else None
        self._false_starts = 0
        self._tally.take_event(cell, event)

    def _bury(self, process: _Process, code: int) -> None:
        """Take in that a process has died; its cell is taken again, but not forever."""
        error = process.last_error()
        how = f"{ending(code)}{error and f': {error}'}"
        if process.cell is not None:
            self._tally.take_death(process.cell, f"its process {how}")
            return
        self._false_starts += 1
        if self._false_starts >= MOST_FALSE_STARTS:
            raise CannotStart(f"no process takes a cell; the last one {how}")


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


class _Process(Child):
    """A process that takes cells."""

    def __init__(self, arguments: list[str]) -> None:
        path = os.pathsep.join(filter(None, sys.path))  # users' games may be anywhere
        super().__init__("rookery.cli.app", arguments, path=path)
        self.is_stopping = False
        self.cell: Cell | None = None
        """The cell that it trains, as far as it has told."""
