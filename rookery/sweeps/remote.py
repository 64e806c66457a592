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
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from rookery.runs.claim import Claim, ClaimLost, FolderGone, InUse
from rookery.runs.folder import CHECKPOINTS
from rookery.stop import STOPPING, StopFlag, Stopped
from rookery.storage.checkpoints import delete_leftovers, sum_of_manifest
from rookery.supervisor.launcher import ending
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    STOPPED,
    forget_failures,
    is_done,
    record_failure,
    saved_round,
    state_of,
)
from rookery.sweeps.code_files import code_for, names_for
from rookery.sweeps.host import News, Task
from rookery.sweeps.local import CannotStart, Outcome, Progress, Say, processes_of
from rookery.sweeps.machine import Facts, bits_for, facts
from rookery.sweeps.one_cell import UNLIKE
from rookery.sweeps.plan import LAYOUT, SWEEP, Cell, Plan
from rookery.sweeps.transfer import MEMORY, Follower, Refused, apply
from rookery.sweeps.work import START, WARNING

POLL_SECONDS = 0.5
NODES_SECONDS = 2.0
"""How often to look which nodes there are."""
PATIENCE_SECONDS = 300.0
"""How long to wait for nodes when all are lost."""
ARRIVAL_SECONDS = 30.0
"""How long before its end a sweep asks all cells to save; what they save must arrive."""
MOST_FALSE_STARTS = 3
"""A node on which so many cells in a row end before they have started gets no more."""


@dataclass(frozen=True)
class Node:
    """A machine that can train cells."""

    id: str
    name: str
    """For messages."""
    cpus: float


@dataclass(frozen=True)
class Lost:
    """The answer of a node that has none."""

    why: str


class Host(Hashable, Protocol):
    """A cell on its way or on a node; see `host.CellHost`."""

    def stop(self) -> None:
        """Ask it to save and to leave."""

    def end(self) -> None:
        """End it at once; nothing more arrives from it."""


class Cluster(Protocol):
    """Reaches the nodes."""

    def nodes(self) -> Sequence[Node]:
        """Return the nodes that are there now."""

    def start(self, node: Node, cpus: float, task: Task) -> Host:
        """Send a cell to a node, to be trained on so many of its processors."""

    def replies(self, seconds: float) -> Sequence[tuple[Host, News | Lost]]:
        """Return what has arrived; wait for the first, but not longer than this."""


@dataclass
class _Running:
    """A cell that is on a node."""

    cell: Cell
    claim: Claim
    host: Host
    place: _Place
    cpus: float
    has_answered: bool = False
    has_started: bool = False
    is_over: bool = False
    """Whether it is done, has failed, or is to be trained elsewhere."""
    is_stopping: bool = False


class _Place:
    """A node, and what is known about it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.running: list[_Running] = []
        self.is_like = False
        """Whether a cell has started there, after comparing the bits."""
        self.false_starts = 0
        self.why_left_out = ""

    def has_room(self, cpus: float) -> bool:
        """Whether it can take another cell; the first one shows whether its bits fit."""
        if self.why_left_out or not self.running:
            return not self.why_left_out
        used = sum(running.cpus for running in self.running)
        return self.is_like and used + cpus <= self.node.cpus


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
        self._plan, self._stop, self._progress = plan, stop, progress
        self._say, self._warn, self._cluster = say, warn, cluster
        self._waiting: deque[Cell] = deque()
        self._running: dict[Host, _Running] = {}
        self._places: dict[str, _Place] = {}
        self._looked_at = 0.0
        self._alone_since: float | None = None
        self._expected: dict[str, Facts] = {}
        self._deaths: Counter[tuple[str, int]] = Counter()
        self._warnings: set[str] = set()
        self._done = 0
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Train until all cells are done or have failed.

        Raises:
            Stopped: if asked to stop before that; what was saved has arrived.
            ConfigError: if a cell needs something that other machines do not have.
            CannotStart: if no node can take cells.
        """
        forget_failures(self._plan)
        left = [cell for cell in self._plan.cells if state_of(self._plan, cell) != DONE]
        for cell in {cell.group.folder: cell for cell in left}.values():
            code_for(cell.config)
        self._done = len(self._plan.cells) - len(left)
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
        if self._stop.is_set and not self._is_over(left):
            raise Stopped
        return self.outcome

    def _is_over(self, cells: Sequence[Cell]) -> bool:
        ended = self.outcome.summaries.keys() | self.outcome.failed.keys()
        return ended >= {cell.name for cell in cells}

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
        names = [running.cell.name for running in self._running.values()]
        self._progress.show(names, self._done)

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
        self._update_places()
        while self._waiting:
            cell = self._waiting[0]
            cpus = processes_of(cell)
            fitting = [x for x in self._places.values() if x.has_room(cpus)]
            if not fitting:
                return
            place = max(fitting, key=lambda x: x.node.cpus - len(x.running))
            self._waiting.popleft()
            self._send(cell, place, min(cpus, place.node.cpus))

    def _update_places(self) -> None:
        """Look which nodes have come and gone.

        Raises:
            CannotStart: if there is none that can take cells.
        """
        now = time.monotonic()
        if now - self._looked_at < NODES_SECONDS:
            return
        self._looked_at = now
        nodes = {node.id: node for node in self._cluster.nodes()}
        for gone in self._places.keys() - nodes.keys():
            del self._places[gone]  # its cells are lost, as their hosts will tell
        for new in nodes.keys() - self._places.keys():
            self._places[new] = _Place(nodes[new])
        if self._running or any(not x.why_left_out for x in self._places.values()):
            self._alone_since = None
            return
        if self._places:
            raise CannotStart(
                "no node of the cluster can take cells, all are left out: start the sweep "
                "on a machine like them, or with the versions that they have."
            )
        if self._alone_since is None:
            self._alone_since = now
            self._say("the cluster has no nodes with free processors: waiting for some.")
        elif now - self._alone_since > PATIENCE_SECONDS:
            raise CannotStart(
                f"the cluster has had no nodes for {PATIENCE_SECONDS:.0f} seconds: start "
                "some, and go on with the sweep; what has arrived is saved."
            )

    def _send(self, cell: Cell, place: _Place, cpus: float) -> None:
        """Take a cell, and send it to a node."""
        cell.folder.mkdir(parents=True, exist_ok=True)
        try:
            claim = Claim(cell.folder)
        except InUse:  # somebody else trains it
            return
        try:
            delete_leftovers(cell.folder / CHECKPOINTS)
            shutil.rmtree(cell.folder / MEMORY, ignore_errors=True)
            host = self._cluster.start(place.node, cpus, self._task(cell))
        except BaseException:
            claim.close()
            raise
        running = _Running(cell, claim, host, place, cpus)
        self._running[host] = running
        place.running.append(running)

    def _task(self, cell: Cell) -> Task:
        files = code_for(cell.config)
        return Task(
            cell=cell.name,
            sweep={SWEEP: plan_of(cell)},
            changes=Follower(cell.folder).changes(),
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
            self._fail(running, line)
            self._release(running)
            return
        for event in reply.events:
            self._note(running, event)
        if reply.code is None:
            return
        if running.is_over or running.is_stopping:
            self._release(running)
        else:
            error = f": {reply.error}" if reply.error else ""
            self._bury(running, f"its process {ending(reply.code)}{error}")

    def _note(self, running: _Running, event: dict[str, Any]) -> None:
        """Take in what the process of a cell has told."""
        kind, cell = event["event"], running.cell
        if kind == START:
            running.has_started = running.place.is_like = True
            running.place.false_starts = 0
        elif kind == UNLIKE:
            running.is_over = True
            self._waiting.appendleft(cell)
            self._leave_out(running.place, event["line"])
        elif kind == DONE and is_done(cell):
            running.is_over = True
            self._done += 1
            summary = {**event["summary"], "run": str(cell.folder)}
            self.outcome.summaries[cell.name] = summary
            if not self._progress.is_live:
                total = len(self._plan.cells)
                self._say(f"{cell.name} is done ({self._done} of {total})")
        elif kind == FAILED:
            self._fail(running, event["line"])
        elif kind == WARNING and event["line"] not in self._warnings:
            self._warnings.add(event["line"])
            self._warn(f"{cell.name}: {event['line']}")
        elif kind == STOPPED and "line" in event:
            self._say(f"{cell.name}: {event['line']}")

    def _leave_out(self, place: _Place, why: str) -> None:
        if not place.why_left_out:
            place.why_left_out = why
            self._say(f"{place.node.name} is left out: {why}.")

    def _bury(self, running: _Running, why: str) -> None:
        """Put a cell back that was lost; it is tried again, but not forever."""
        cell, place = running.cell, running.place
        self._release(running)
        if self._stop.is_set:
            return
        if not running.has_started:
            place.false_starts += 1
            if place.false_starts >= MOST_FALSE_STARTS:
                self._leave_out(place, f"no cell starts there; of the last one {why}")
            self._waiting.appendleft(cell)
            return
        key, limit = (cell.name, saved_round(cell)), cell.config.restarts.limit
        self._deaths[key] += 1
        if self._deaths[key] >= limit:
            line = f"{why}, {limit} times without a new checkpoint in between"
            self._fail(running, line)
            return
        self._waiting.appendleft(cell)
        self._say(f"{cell.name}: {why}; it is continued from round {key[1]}.")

    def _fail(self, running: _Running, line: str) -> None:
        running.is_over = True
        record_failure(self._plan, running.cell, line)
        self.outcome.failed[running.cell.name] = line
        self._say(f"{running.cell.name} failed: {line}")

    def _give_up(self, running: _Running, error: Exception) -> None:
        """Leave a cell to the process that has taken it over."""
        self._say(f"{running.cell.name}: {error}")
        self._release(running)

    def _release(self, running: _Running) -> None:
        """End what is left of a cell on its node, and give its folder up."""
        del self._running[running.host]
        running.place.running.remove(running)
        running.host.end()
        running.claim.close()


def plan_of(cell: Cell) -> bytes:
    """Return the file with a plan of one cell."""
    groups = [asdict(cell.group)]
    content = {"layout": LAYOUT, "seeds": [cell.seed], "groups": groups}
    return json.dumps({**content, "sum": sum_of_manifest(content)}).encode()
