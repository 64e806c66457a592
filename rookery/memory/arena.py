"""All shared memory of a run: rows and states of every agent, snapshots and words.

Planned first, so that its size is known before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rookery.memory.block import Block, Plan, check_available
from rookery.memory.rows import Rows
from rookery.memory.states import Shapes, States
from rookery.memory.words import Words
from rookery.specs import AgentSpec

COMMIT = "commit"
GATE = "gate"
SNAPSHOT = "snapshot"


@dataclass(frozen=True)
class AgentMemory:
    """What one agent needs."""

    spec: AgentSpec
    slots: int
    state: Shapes | None
    """None if it has no state: a scripted agent."""


class Arena:
    """The blocks of a run."""

    def __init__(
        self, worlds: int, agents: Sequence[AgentMemory], snapshot: Shapes
    ) -> None:
        self._plans: dict[str, Plan] = {}
        names = [COMMIT, GATE, SNAPSHOT]
        for agent in agents:
            self._plans[f"rows {agent.spec.id}"] = Rows.plan(
                agent.spec, worlds, agent.slots
            )
            if agent.state is not None:
                self._plans[f"state {agent.spec.id}"] = States.plan(agent.state)
                names.append(f"version {agent.spec.id}")
        self._plans["snapshot"] = States.plan(snapshot)
        self._plans["words"] = Words.plan(names)

    @property
    def bytes(self) -> int:
        """How much memory all blocks take."""
        return sum(plan.bytes for plan in self._plans.values())

    def allocate(self) -> None:
        """Get the memory, all of it or none."""
        check_available(self.bytes)
        self._blocks: dict[str, Block] = {}
        try:
            for name, plan in self._plans.items():
                self._blocks[name] = Block.create(plan)
        except BaseException:
            self.close()
            raise
        self.words = Words(self._blocks["words"])

    def rows(self, agent: str) -> Rows:
        """Return one agent's rows."""
        return Rows(self._blocks[f"rows {agent}"])

    def states(self, agent: str) -> States:
        """Return the versions of one agent's state."""
        return States(self._blocks[f"state {agent}"], self.words, f"version {agent}")

    def snapshots(self) -> States:
        """Return the actor's snapshots; version k is that of border k."""
        return States(self._blocks["snapshot"], self.words, SNAPSHOT)

    def close(self) -> None:
        """Give the memory back."""
        for block in self._blocks.values():
            block.close()
