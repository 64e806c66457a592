"""The nodes that cells are sent to, and which of them take cells."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rookery.sweeps.host import News, Task
from rookery.sweeps.tally import MOST_FALSE_STARTS, CannotStart, Say

NODES_SECONDS = 2.0
"""How often to look which nodes there are."""
PATIENCE_SECONDS = 300.0
"""How long to wait for nodes when all are lost."""
REST_SECONDS = 10.0
"""A node gets no cell for so long after a false start: it may be gone, unnoticed as yet."""


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


class Place:
    """A node, and what is known about it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.used: list[float] = []
        """The processors that each of the cells uses that are there now."""
        self.is_like = False
        """Whether a cell has started there, after comparing the bits."""
        self.false_starts = 0
        self.resting_until = 0.0
        self.why_left_out = ""

    def has_room(self, cpus: float) -> bool:
        """Whether it can take another cell; the first one shows whether its bits fit."""
        if self.why_left_out or time.monotonic() < self.resting_until:
            return False
        if not self.used:
            return True
        return self.is_like and sum(self.used) + cpus <= self.node.cpus


class Places:
    """All nodes of a cluster.

    Args:
        cluster: which has them.
        say: called with lines for the user.
    """

    def __init__(self, cluster: Cluster, say: Say) -> None:
        self._cluster, self._say = cluster, say
        self._places: dict[str, Place] = {}
        self._looked_at = -NODES_SECONDS
        self._without_since: float | None = None

    def emptiest(self, cpus: float) -> Place | None:
        """Return the place with the most room; None if none has room for a cell."""
        fitting = [place for place in self._places.values() if place.has_room(cpus)]
        room = {place: place.node.cpus - sum(place.used) for place in fitting}
        return max(fitting, key=room.__getitem__, default=None)

    def leave_out(self, place: Place, why: str) -> None:
        """Give a node no more cells."""
        if not place.why_left_out:
            place.why_left_out = why
            self._say(f"{place.node.name} is left out: {why}.")

    def count_false_start(self, place: Place, why: str) -> None:
        """Leave a node out if this has happened too often."""
        place.false_starts += 1
        place.resting_until = time.monotonic() + REST_SECONDS
        if place.false_starts >= MOST_FALSE_STARTS:
            self.leave_out(place, f"no cell starts there; of the last one {why}")

    def update(self, is_idle: bool) -> None:
        """Look from time to time which nodes have come and gone.

        Args:
            is_idle: whether no cell is on any node.

        Raises:
            CannotStart: if no cell is, and there is no node that can take one.
        """
        now = time.monotonic()
        if now - self._looked_at < NODES_SECONDS:
            return
        self._looked_at = now
        nodes = {node.id: node for node in self._cluster.nodes()}
        for gone in self._places.keys() - nodes.keys():
            del self._places[gone]  # its cells are lost, as their hosts will tell
        for new in nodes.keys() - self._places.keys():
            self._places[new] = Place(nodes[new])
        self._check(now, is_idle)

    def _check(self, now: float, is_idle: bool) -> None:
        """Check that there are nodes, or have been for a while."""
        if not is_idle or any(not x.why_left_out for x in self._places.values()):
            self._without_since = None
        elif self._places:
            raise CannotStart(
                "no node of the cluster can take cells, all are left out: start the sweep "
                "on a machine like them, or with the versions that they have."
            )
        elif self._without_since is None:
            self._without_since = now
            self._say("the cluster has no nodes with processors: waiting for some.")
        elif now - self._without_since > PATIENCE_SECONDS:
            raise CannotStart(
                f"the cluster has had no nodes for {PATIENCE_SECONDS:.0f} seconds: start "
                "some, and go on with the sweep; what has arrived is saved."
            )
