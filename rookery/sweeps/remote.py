"""Training a sweep on other machines that share no disk with this one.

Every cell is sent to a node, trained there, and its folder here is kept up to date with
what is saved there. So a cell whose node is lost goes on elsewhere from what has arrived.
This process holds the claims of all cells that it has sent away. How calls get to a node is
the business of a `Cluster`.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

from rookery.errors import RookeryError
from rookery.plugins import describe_error
from rookery.runs.claim import Claim, ClaimLost, FolderGone, InUse
from rookery.runs.folder import CHECKPOINTS, SWEEP
from rookery.stop import STOPPING, StopFlag, Stopped
from rookery.storage.checkpoints import delete_leftovers, sum_of_manifest
from rookery.supervisor.launcher import ending
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    forget_failures,
    is_done,
    record_failure,
    state_of,
)
from rookery.sweeps.cluster import Cluster, Host, Lost, Place, Places
from rookery.sweeps.code_files import code_for, names_for
from rookery.sweeps.host import News, Task
from rookery.sweeps.local import processes_of
from rookery.sweeps.machine import Facts, bits_for, facts
from rookery.sweeps.one_cell import UNLIKE
from rookery.sweeps.plan import Cell, Plan, content_of
from rookery.sweeps.tally import Outcome, Progress, Say, Tally
from rookery.sweeps.transfer import MEMORY, Changes, Follower, Refused, apply
from rookery.sweeps.work import START

POLL_SECONDS = 0.5
ARRIVAL_SECONDS = 30.0
"""How long before its end a sweep asks all cells to save; what they save must arrive."""


@dataclass(eq=False)
class _Running:
    """A cell that is on a node."""

    cell: Cell
    claim: Claim
    host: Host
    place: Place
    cpus: float
    has_answered: bool = False
    has_started: bool = False
    is_over: bool = False
    """Whether it is done or has failed."""
    is_refused: bool = False
    """Whether the node computes other bits."""
    is_stopping: bool = False


class RemoteSweep:
    """Trains all cells of a sweep that are not done, on the nodes of a cluster.

    Args:
        plan: of the sweep.
        stop: asks all cells to save and leave.
        progress: shows how far every cell is.
        say: called with lines for the user.
        warn: called with the cells' warnings; the same one of several cells only once.
        cluster: reaches the nodes.
    """

    def __init__(
        self,
        plan: Plan,
        stop: StopFlag,
        progress: Progress,
        say: Say,
        warn: Say,
        cluster: Cluster,
    ) -> None:
        self._plan, self._stop = plan, stop
        self._say, self._cluster = say, cluster
        self._tally = Tally(plan, progress, say, warn)
        self._waiting: deque[Cell] = deque()
        self._running: dict[Host, _Running] = {}
        self._places = Places(cluster, say)
        self._expected: dict[str, Facts] = {}

    def run(self) -> Outcome:
        """Train until all cells are done or have failed.

        Raises:
            Stopped: if asked to stop before that; what was saved has arrived.
            ConfigError: if a cell needs something that other machines do not have.
            CannotStart: if no node can take cells.
        """
        forget_failures(self._plan)
        for cell in self._plan.cells:
            if state_of(self._plan, cell) == DONE:
                self._tally.take_done(cell)
        left = list(self._tally.left.values())
        for cell in {cell.group.folder: cell for cell in left}.values():
            code_for(cell.config)
        self._waiting.extend(left)
        self._stop.saving_seconds = max(self._stop.saving_seconds, ARRIVAL_SECONDS)
        try:
            while self._waiting or self._running:
                if self._stop.is_set:
                    self._ask_to_stop()
                    if not self._running:
                        break
                else:
                    self._place_cells()
                self._look()
        finally:
            for running in list(self._running.values()):
                self._release(running)
        if self._stop.is_set and self._tally.left:
            raise Stopped
        return self._tally.outcome

    def _look(self) -> None:
        """Take in what has arrived, and show it."""
        if not self._running:
            time.sleep(POLL_SECONDS)
        for host, reply in self._cluster.replies(POLL_SECONDS):
            if host in self._running:
                self._take(self._running[host], reply)
        for running in list(self._running.values()):
            try:
                running.claim.renew()
            except (ClaimLost, FolderGone) as error:
                self._give_up(running, error)
        self._tally.show(running.cell for running in self._running.values())

    def _ask_to_stop(self) -> None:
        if self._stop.signal is None and not all(
            running.is_stopping for running in self._running.values()
        ):
            self._say(f"its time is over; {STOPPING}")
        for running in list(self._running.values()):
            if not running.has_answered:  # there is nothing to save yet
                self._release(running)
            elif not running.is_stopping:
                running.host.stop()
                running.is_stopping = True

    # Placing

    def _place_cells(self) -> None:
        """Give cells to nodes that have room, the emptiest first."""
        if not self._waiting:
            return
        self._places.update(is_idle=not self._running)
        while self._waiting:
            cpus = processes_of(self._waiting[0])
            place = self._places.emptiest(cpus)
            if place is None:
                return
            self._send(self._waiting.popleft(), place, min(cpus, place.node.cpus))

    def _send(self, cell: Cell, place: Place, cpus: float) -> None:
        """Take a cell, and send it to a node; if that is impossible, it has failed."""
        try:
            task = self._task(cell)
        except Exception as error:
            line = str(error) if isinstance(error, RookeryError) else describe_error(error)
            self._tally.fail(cell, line)
            return
        cell.folder.mkdir(parents=True, exist_ok=True)
        try:
            claim = Claim(cell.folder)
        except InUse:  # somebody else trains it
            return
        try:
            delete_leftovers(cell.folder / CHECKPOINTS)
            shutil.rmtree(cell.folder / MEMORY, ignore_errors=True)
            changes = Follower(cell.folder).changes()
            host = self._cluster.start(place.node, cpus, replace(task, changes=changes))
        except BaseException:
            claim.close()
            raise
        running = _Running(cell, claim, host, place, cpus)
        self._running[host] = running
        place.used.append(cpus)

    def _task(self, cell: Cell) -> Task:
        """Return what a node needs to train a cell, without the cell's folder."""
        files = code_for(cell.config)
        return Task(
            cell=cell.name,
            sweep={SWEEP: plan_of(cell)},
            changes=Changes(),
            expected=self._facts(cell),
            files={path: (file.data, file.sha256) for path, file in files.items()},
            named={k: list(v) for k, v in asdict(names_for(cell.config)).items()},
        )

    def _facts(self, cell: Cell) -> Facts:
        """Return what a node must be like to take a cell: like this machine."""
        group = cell.group.folder
        if group not in self._expected:
            self._expected[group] = facts(bits_for(cell.entry, cell.config))
        return self._expected[group]

    # Taking in

    def _take(self, running: _Running, reply: News | Lost) -> None:
        """Take in the reply of a node about one cell."""
        if isinstance(reply, Lost):
            self._bury(running, reply.why)
            return
        running.has_answered = True
        try:
            running.claim.check()
            apply(running.cell.folder, reply.changes, running.claim)
        except (ClaimLost, FolderGone) as error:
            self._give_up(running, error)
            return
        except (Refused, OSError) as error:
            line = str(error)
            if isinstance(error, OSError):
                line = f"cannot write {running.cell.folder} ({error.strerror})."
            self._tally.fail(running.cell, line)
            self._release(running)
            return
        for event in reply.events:
            self._note(running, event)
        if reply.code is None:
            return
        if running.is_over or running.is_refused or running.is_stopping:
            self._release(running)
            if running.is_refused:
                self._waiting.appendleft(running.cell)
        else:
            last = f": {reply.error}" if reply.error else ""
            self._bury(running, f"its process {ending(reply.code)}{last}")

    def _note(self, running: _Running, event: dict[str, Any]) -> None:
        """Take in what the process of a cell has told."""
        kind, cell = event["event"], running.cell
        if kind == START:
            running.has_started = running.place.is_like = True
            running.place.false_starts = 0
        elif kind == UNLIKE:
            running.is_refused = True
            self._places.leave_out(running.place, event["line"])
        elif kind == DONE and not is_done(cell):  # not everything has arrived
            return
        running.is_over |= kind in (DONE, FAILED)
        if kind == FAILED:  # written down on the node, and here not yet
            record_failure(self._plan, cell, event["line"])
        self._tally.take_event(cell, event)

    def _bury(self, running: _Running, why: str) -> None:
        """Put a cell back that was lost; it is tried again, but not forever."""
        cell, place = running.cell, running.place
        self._release(running)
        if self._stop.is_set:
            return
        if not running.has_started:
            self._places.count_false_start(place, why)
            self._waiting.appendleft(cell)
            return
        self._tally.take_death(cell, why)
        if cell.name in self._tally.left:
            self._waiting.appendleft(cell)

    def _give_up(self, running: _Running, error: Exception) -> None:
        """Leave a cell to the process that has taken it over."""
        self._say(f"{running.cell.label}: {error}")
        self._release(running)

    def _release(self, running: _Running) -> None:
        """End what is left of a cell on its node, and give its folder up."""
        del self._running[running.host]
        running.place.used.remove(running.cpus)
        running.host.end()
        running.claim.close()


def plan_of(cell: Cell) -> bytes:
    """Return the file with a plan of one cell."""
    content = content_of([cell.seed], [cell.group], cell.changes)
    return json.dumps({**content, "sum": sum_of_manifest(content)}).encode()
