"""All shared memory of a run: rows, states and reports, snapshots and words.

Planned first, so that its size is known before anything is allocated. Main allocates it
before any other process starts; the others get the descriptors of the same blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rookery.replay.rows import Rows
from rookery.shm.block import Block, BlockLayout, check_available
from rookery.shm.counters import Counters
from rookery.shm.heartbeat import KINDS
from rookery.shm.reports import Reports
from rookery.shm.versions import Shapes, VersionedState
from rookery.specs import AgentSpec

COMMIT = "commit"
GATE = "gate"
SNAPSHOT = "snapshot"
HANDED = "handed"
"""The newest generation of processes that main has let begin."""
MATCHES = "matches"
"""The newest evaluation or recording that the actor has finished, + 1."""
ACTOR = "actor"
STATUS = ("beat", *KINDS)
"""What every process says of itself: signs of life, and nanoseconds by kind."""
REPORT_BYTES = 4096
LONGEST = 255
"""Bytes in the name of a file, on every usual disk."""


def worker_name(number: int) -> str:
    """Return the role of a worker."""
    return f"worker {number}"


def first_row(agent: str) -> str:
    """Return the word that says from which turn on there are rows of an agent.

    Not 0 after a resume without replays; below it for one that brought its replay along.
    """
    return f"first {agent}"


@dataclass(frozen=True)
class AgentMemory:
    """What one agent needs."""

    spec: AgentSpec
    slots: int
    state: Shapes | None
    """None if it has no state: a scripted agent."""
    hidden: int = 0
    """How many numbers it carries from turn to turn."""


class Arena:
    """The blocks of a run."""

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
    ) -> Arena:
        """Return everything that a run needs, planned and not yet allocated.

        Args:
            worlds: of the game.
            agents: what each agent needs.
            snapshot: the arrays of the actor's snapshot.
            reports: how many rounds of reports are kept.
            report_bytes: how long the actor's may be.
        """
        layouts: dict[str, BlockLayout] = {}
        names = [COMMIT, GATE, SNAPSHOT, HANDED, MATCHES]
        roles = [ACTOR]
        # Matches of the boundary before, at the end also those of the last one, and those
        # that are being written: who goes on after a kill reads all but these.
        told = {"actor": (reports, report_bytes), "matches": (reports + 2, report_bytes)}
        for agent in agents:
            names.append(first_row(agent.spec.id))
            layouts[f"rows {agent.spec.id}"] = Rows.layout(
                agent.spec, worlds, agent.slots, agent.hidden
            )
            if agent.state is not None:
                layouts[f"state {agent.spec.id}"] = VersionedState.layout(agent.state)
                told[f"learner {agent.spec.id}"] = (reports, REPORT_BYTES)
                names.append(f"version {agent.spec.id}")
                roles.append(worker_name(len(roles) - 1))
        names += [f"{role} {what}" for role in roles for what in STATUS]
        layouts["snapshot"] = VersionedState.layout(snapshot)
        layouts["reports"] = Reports.layout(told)
        layouts["words"] = Counters.layout(names)
        return cls(layouts)

    @property
    def bytes(self) -> int:
        """How much memory all blocks take."""
        return sum(layout.bytes for layout in self._layouts.values())

    def sizes(self) -> dict[str, int]:
        """Return how many bytes go to rows, to states, and to the rest."""
        found = {"replays": 0, "states": 0, "the rest": 0}
        kinds = {"rows": "replays", "state": "states"}
        for name, layout in self._layouts.items():
            found[kinds.get(name.split()[0], "the rest")] += layout.bytes
        return found

    @property
    def largest_replay(self) -> int:
        """How many bytes the rows of the agent with the most take."""
        return max(
            layout.bytes for name, layout in self._layouts.items() if name[:4] == "rows"
        )

    def allocate(self, folder: Path | None = None) -> None:
        """Get the memory, all of it or none: anonymous, or as files in a folder."""
        if folder is None:
            check_available(self.bytes)
            self._open(lambda name, layout: Block.create(layout))
        else:
            self._open(lambda name, layout: Block.create_file(layout, folder / _file(name)))

    def reopen(self, folder: Path) -> None:
        """Open the files of a run that has ended, however it did."""
        self._open(lambda name, layout: Block.open_file(layout, folder / _file(name)))

    def describe(self, agents: Collection[str] | None = None) -> dict[str, Any]:
        """Return what another process needs to attach: descriptors and layouts.

        A worker is given rows and states of its own agents and of nobody else.
        """
        return {
            name: {"descriptor": block.descriptor, "layout": block.layout.to_json()}
            for name, block in self._blocks.items()
            if agents is None or _belongs(name, agents)
        }

    @classmethod
    def attach(cls, described: Mapping[str, Any]) -> Arena:
        """Return the arena that another process has described."""
        arena = cls(
            {name: BlockLayout.from_json(one["layout"]) for name, one in described.items()}
        )
        arena._open(lambda name, layout: Block(layout, described[name]["descriptor"]))
        return arena

    def _open(self, get: Callable[[str, BlockLayout], Block]) -> None:
        try:
            for name, layout in self._layouts.items():
                self._blocks[name] = get(name, layout)
        except BaseException:
            self.close()
            raise
        self.counters = Counters(self._blocks["words"])

    def rows(self, agent: str) -> Rows:
        """Return one agent's rows."""
        return Rows(self._blocks[f"rows {agent}"])

    def states(self, agent: str) -> VersionedState:
        """Return the versions of one agent's state."""
        return VersionedState(
            self._blocks[f"state {agent}"], self.counters, f"version {agent}"
        )

    def reports(self, agent: str) -> Reports:
        """Return what the learner of one agent says of its rounds."""
        return Reports(self._blocks["reports"], f"learner {agent}")

    def snapshots(self) -> VersionedState:
        """Return the actor's snapshots; version k is that of boundary k."""
        return VersionedState(self._blocks["snapshot"], self.counters, SNAPSHOT)

    def actor_reports(self) -> Reports:
        """Return what the actor says of its rounds."""
        return Reports(self._blocks["reports"], "actor")

    def match_reports(self) -> Reports:
        """Return what the actor says of evaluations, counted one by one."""
        return Reports(self._blocks["reports"], "matches")

    def close(self) -> None:
        """Give the memory back."""
        for block in self._blocks.values():
            block.close()


def _belongs(name: str, agents: Collection[str]) -> bool:
    kind, _, agent = name.partition(" ")
    return agent in agents if kind in ("rows", "state") else kind != "snapshot"


def _file(name: str) -> str:
    """Return a file's name for a block; an agent may be called anything."""
    kind, _, agent = name.partition(" ")
    if not agent:
        return kind
    plain = f"{kind}-{agent.encode().hex()}"
    if len(plain) <= LONGEST:
        return plain
    return f"{kind}-sha256-{sha256(agent.encode()).hexdigest()}"
