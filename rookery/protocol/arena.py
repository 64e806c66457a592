"""The arena: all shared memory of a run (rows, states, snapshots, reports, counters)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rookery.protocol.shares import Share, commit_counter, most_shares, snapshot_counter
from rookery.replay.rows import Rows
from rookery.shm.block import (
    FILES_PER_BLOCK,
    Block,
    BlockLayout,
    allow_open_files,
    check_available,
)
from rookery.shm.counters import Counters, beat_of, time_of, version_of
from rookery.shm.heartbeat import KINDS
from rookery.shm.reports import Reports
from rookery.shm.versions import Shapes, VersionedState
from rookery.specs import AgentSpec

COMMIT = "commit"
GATE = "gate"
SNAPSHOT = "snapshot"
HANDED = "handed"
"""The newest generation of processes that can begin."""
MATCHES = "matches"
"""How many boundaries, from 0, the actor has run evaluations, recordings and probes of.

A boundary at which nothing is due counts, too."""
ACTOR = "actor"
BOUNDARY_ARRAYS = ("life/turn", "life/steps", "life/hashes")
"""The arrays of a snapshot that are not per world, written when all shares are complete."""
REPORT_BYTES = 4096
LONGEST_NAME = 255
"""Bytes in a file name, on all common file systems."""


def actor_name(share: Share) -> str:
    """Return the role of the actor of a share."""
    return ACTOR if share.count == 1 else f"{ACTOR} {share.number}"


def worker_name(number: int) -> str:
    """Return the role of a worker."""
    return f"worker {number}"


def first_row(agent: str) -> str:
    """Return the name of the counter of the first turn that an agent has rows of.

    Above 0 after a resume without replays; below 0 if the agent came with rows of another
    run.
    """
    return f"first {agent}"


@dataclass(frozen=True)
class AgentMemory:
    """The memory that one agent needs."""

    spec: AgentSpec
    slots: int
    state: Shapes | None
    """None if it has no state: a scripted agent."""
    hidden: int = 0
    """Size of the hidden state of a recurrent agent."""


class Arena:
    """The blocks of a run, and typed access to what is in them.

    The one rule: everything is planned before anything is allocated, and allocated by main
    before any other process starts. The others attach to the same blocks, a worker only to
    those of its own agents.
    """

    def __init__(self, layouts: Mapping[str, BlockLayout]) -> None:
        self._layouts = layouts
        self._blocks: dict[str, Block] = {}

    @classmethod
    def planned(
        cls,
        worlds: int,
        agents: Sequence[AgentMemory],
        snapshot: Shapes,
        reports: int = 2,
        report_bytes: int = REPORT_BYTES,
        world_report_bytes: int = REPORT_BYTES,
    ) -> Arena:
        """Return an arena with all that a run needs, not yet allocated.

        Args:
            worlds: number of worlds.
            agents: the memory that each agent needs.
            snapshot: the arrays of the actor's snapshot.
            reports: how many rounds of reports are kept.
            report_bytes: the longest report of all actors together.
            world_report_bytes: the longest report of an actor, per world of its share.
        """
        layouts: dict[str, BlockLayout] = {}
        names = [COMMIT, GATE, SNAPSHOT, HANDED, MATCHES]
        # For any number of actors, since it can be changed on resume.
        actors = range(most_shares(worlds))
        names += [name(i) for i in actors for name in (commit_counter, snapshot_counter)]
        roles = [ACTOR, *(f"{ACTOR} {i}" for i in actors)]
        # Two more for matches: those of the last boundary, which come after its round, and
        # those being written. A run that is resumed after a kill reads all but the latter.
        sizes = {
            "actor": (reports, report_bytes),
            "shares": (worlds, world_report_bytes),
            "matches": (reports + 2, report_bytes),
        }
        workers = 0
        for agent in agents:
            names.append(first_row(agent.spec.id))
            layouts[f"rows {agent.spec.id}"] = Rows.layout(
                agent.spec, worlds, agent.slots, agent.hidden
            )
            if agent.state is not None:
                layouts[f"state {agent.spec.id}"] = VersionedState.layout(agent.state)
                sizes[f"learner {agent.spec.id}"] = (reports, REPORT_BYTES)
                names.append(version_of(agent.spec.id))
                roles.append(worker_name(workers))
                workers += 1
        for role in roles:
            names += [beat_of(role), *(time_of(role, kind) for kind in KINDS)]
        layouts["snapshot"] = VersionedState.layout(snapshot)
        layouts["reports"] = Reports.layout(sizes)
        layouts["words"] = Counters.layout(names)
        return cls(layouts)

    @property
    def bytes(self) -> int:
        """The size of all blocks together."""
        return sum(layout.bytes for layout in self._layouts.values())

    def sizes(self) -> dict[str, int]:
        """Return the bytes of all replays, of all states, and of the rest."""
        sizes = {"replays": 0, "states": 0, "the rest": 0}
        kinds = {"rows": "replays", "state": "states"}
        for name, layout in self._layouts.items():
            sizes[kinds.get(name.split()[0], "the rest")] += layout.bytes
        return sizes

    @property
    def largest_replay(self) -> int:
        """The bytes of the largest replay."""
        return max(
            layout.bytes for name, layout in self._layouts.items() if name[:4] == "rows"
        )

    def allocate(self, folder: Path | None = None) -> None:
        """Allocate all blocks or none: anonymous, or as files in a folder."""
        if folder is None:
            check_available(self.bytes)
            self._open(lambda name, layout: Block.create(layout))
        else:
            self._open(
                lambda name, layout: Block.create_file(layout, folder / _file_name(name))
            )

    def reopen(self, folder: Path) -> None:
        """Open the blocks of a run that has ended, however it ended, from its files."""
        self._open(lambda name, layout: Block.open_file(layout, folder / _file_name(name)))

    def describe(self, agents: Collection[str] | None = None) -> dict[str, Any]:
        """Return what another process needs to attach: descriptors and layouts.

        Args:
            agents: the agents of a worker, which gets the rows and states of these only;
                None for the actor, which gets everything.
        """
        return {
            name: {"descriptor": block.descriptor, "layout": block.layout.to_json()}
            for name, block in self._blocks.items()
            if agents is None or _belongs(name, agents)
        }

    @classmethod
    def attach(cls, described: Mapping[str, Any]) -> Arena:
        """Return the arena that main has described."""
        arena = cls(
            {
                name: BlockLayout.from_json(block["layout"])
                for name, block in described.items()
            }
        )
        arena._open(lambda name, layout: Block(layout, described[name]["descriptor"]))
        return arena

    def _open(self, get: Callable[[str, BlockLayout], Block]) -> None:
        allow_open_files(FILES_PER_BLOCK * len(self._layouts))
        try:
            for name, layout in self._layouts.items():
                self._blocks[name] = get(name, layout)
        except BaseException:
            self.close()
            raise
        self.counters = Counters(self._blocks["words"])

    def rows(self, agent: str, share: Share | None = None) -> Rows:
        """Return one agent's rows, with columns of all worlds or of those of a share."""
        worlds = slice(None) if share is None else share.slice
        return Rows(self._blocks[f"rows {agent}"], worlds)

    def states(self, agent: str) -> VersionedState:
        """Return the versions of one agent's state."""
        return VersionedState(
            self._blocks[f"state {agent}"], self.counters, version_of(agent)
        )

    def reports(self, agent: str) -> Reports:
        """Return the reports of one agent's learner."""
        return Reports(self._blocks["reports"], f"learner {agent}")

    def snapshots(self) -> VersionedState:
        """Return the snapshots; version k is that of boundary k."""
        return VersionedState(self._blocks["snapshot"], self.counters, SNAPSHOT)

    def share_snapshots(self, share: Share) -> VersionedState:
        """Return what the actor of a share writes of the snapshots: its worlds."""
        snapshots = self.snapshots()
        names = [name for name in snapshots.names if name not in BOUNDARY_ARRAYS]
        return snapshots.part(names, snapshot_counter(share.number), share.slice)

    def boundary_snapshots(self) -> VersionedState:
        """Return what is written of the snapshots when all shares are complete."""
        return self.snapshots().part(BOUNDARY_ARRAYS, SNAPSHOT)

    def begin_shares(self) -> None:
        """Have all shares begin at the newest snapshot, however worlds are divided.

        Turns committed for all worlds stay committed. Called while no process plays.
        """
        commit, snapshot = self.counters.load(COMMIT), self.counters.load(SNAPSHOT)
        for i in range(most_shares(len(self._blocks["reports"]["shares"]))):
            self.counters.note(commit_counter(i), commit)
            self.counters.note(snapshot_counter(i), snapshot)

    def actor_reports(self) -> Reports:
        """Return the reports of rounds by all actors together."""
        return Reports(self._blocks["reports"], "actor")

    def share_reports(self, share: Share) -> Reports:
        """Return the reports of rounds by the actor of a share; one is kept."""
        return Reports(self._blocks["reports"], "shares", share.slice)

    def match_reports(self) -> Reports:
        """Return the actor's reports of evaluations, recordings and probes."""
        return Reports(self._blocks["reports"], "matches")

    def close(self) -> None:
        """Release the memory."""
        for block in self._blocks.values():
            block.close()
        self._blocks.clear()


def _belongs(name: str, agents: Collection[str]) -> bool:
    kind, _, agent = name.partition(" ")
    return agent in agents if kind in ("rows", "state") else kind != "snapshot"


def _file_name(name: str) -> str:
    """Return the file name of a block, for agent ids with any characters."""
    kind, _, agent = name.partition(" ")
    if not agent:
        return kind
    file_name = f"{kind}-{agent.encode().hex()}"
    if len(file_name) <= LONGEST_NAME:
        return file_name
    return f"{kind}-sha256-{sha256(agent.encode()).hexdigest()}"
