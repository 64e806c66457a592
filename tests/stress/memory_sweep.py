"""Turns and states in shared memory, killed before every instruction of committing them.

    python -m tests.stress.memory_sweep CASE

A separate process without torch, because it forks thousands of times.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from rookery.protocol.arena import COMMIT, AgentMemory, Arena
from rookery.replay.buffer import ReplayWriter
from rookery.shm.counters import version_of
from rookery.specs import AgentSpec, Part
from tests.stress.kill_sweep import sweep, turning_points

WORLDS, SLOTS, TURN, VERSION = 2, 5, 7, 6
AGENTS = ("magpie", "crow")
PARTS = {"view": Part((2, 2), np.dtype(np.uint8)), "self": Part((1,), np.dtype("f4"))}
STATE = {"weights": ((4,), np.float32), "moments": ((4,), np.float32)}
MODULES = ("rookery", "tests.stress", "__main__")


class Memory:
    """The memory of a run; subclasses define the operation."""

    modules = MODULES

    def __init__(self) -> None:
        agents = [
            AgentMemory(
                AgentSpec(name, "bird", PARTS, ("x", "y"), masked=True), SLOTS, STATE
            )
            for name in AGENTS
        ]
        self.arena = Arena.planned(WORLDS, agents, {"turn": ((1,), np.int64)})
        self.arena.allocate()
        self._maps = [block._map for block in self.arena._blocks.values()]
        self.begin()
        self._before = self.left()
        self.operation()
        self._after = self.left()
        self.reset()

    def begin(self) -> None:
        raise NotImplementedError

    def operation(self) -> None:
        raise NotImplementedError

    def left(self) -> tuple[bytes, ...]:
        return tuple(bytes(memory) for memory in self._maps)

    def reset(self) -> None:
        for memory, data in zip(self._maps, self._before, strict=True):
            memory[:] = data

    def repeated(self, killed: bool) -> list[str]:
        """Repeat the operation after a kill, as the next process does, and compare."""
        if killed:
            self.operation()
        same = self.left() == self._after
        return [] if same else ["repeated after the kill, the result differs"]


class Turn(Memory):
    """Committing a turn of two agents, in a ring that has wrapped around."""

    def begin(self) -> None:
        self._writers = [ReplayWriter(self.arena.rows(name)) for name in AGENTS]
        for turn in range(TURN):
            self.play(turn)

    def operation(self) -> None:
        """Continue from the last commit, as a restarted actor does."""
        for turn in range(self.arena.counters.load(COMMIT), TURN + 1):
            self.play(turn)

    def play(self, turn: int) -> None:
        for agent in range(len(AGENTS)):
            self.write(turn, agent)
        self.commit(turn)

    def write(self, turn: int, agent: int) -> None:
        writer, ages = self._writers[agent], np.arange(WORLDS) + turn
        number, yes = 10 * turn + agent + 1, np.ones(WORLDS, bool)
        parts = {name: np.full((WORLDS, *p.shape), number) for name, p in PARTS.items()}
        writer.write_observation(turn, parts, yes, np.ones((WORLDS, 2), bool), ages)
        writer.write_action(turn, np.full(WORLDS, turn % 2), 0.5, turn // 3)
        writer.write_outcome(turn, ages + 0.25, ~yes, yes)

    def commit(self, turn: int) -> None:
        self.arena.counters.store(COMMIT, turn + 1)

    def audit(self, *, killed: bool) -> list[str]:
        commit = self.arena.counters.load(COMMIT)
        allowed = (TURN, TURN + 1) if killed else (TURN + 1,)
        problems = [] if commit in allowed else [f"the commit is {commit}"]
        problems += [
            f"row {turn} of {name} is damaged, the commit is {commit}"
            for name in AGENTS
            for turn in range(commit - SLOTS + 1, commit)
            if not self.arena.rows(name).is_whole(turn)
        ]
        return problems + self.repeated(killed)


class CommitFirst(Turn):
    """Planted: the turn is committed, and then written."""

    def play(self, turn: int) -> None:
        self.commit(turn)
        for agent in range(len(AGENTS)):
            self.write(turn, agent)


class CommitBetween(Turn):
    """Planted: the turn is committed when the first agent's row is written."""

    def play(self, turn: int) -> None:
        self.write(turn, 0)
        self.commit(turn)
        self.write(turn, 1)


class State(Memory):
    """Publishing the next version of a state, with the report of its round."""

    def begin(self) -> None:
        self.states, self.reports = self.arena.states("crow"), self.arena.reports("crow")
        for version in range(VERSION):
            self.publish(version)

    def operation(self) -> None:
        """Publish what is missing, as a restarted learner does."""
        for version in range(self.states.version + 1, VERSION + 1):
            self.publish(version)

    def publish(self, version: int) -> None:
        self.reports.write(version, {"metrics": {"loss": version}})
        self.states.publish(version, arrays_of(version))

    def audit(self, *, killed: bool) -> list[str]:
        version = self.states.version
        allowed = (VERSION - 1, VERSION) if killed else (VERSION,)
        problems = [] if version in allowed else [f"the version is {version}"]
        for arrays in (self.states.read(version), self.states.newest(STATE)[1]):
            if not same(arrays, arrays_of(version)):
                problems.append(f"version {version} is not whole")
        if self.reports.read(version) != {"metrics": {"loss": version}}:
            problems.append(f"the report of version {version} is not whole")
        return problems + self.repeated(killed)


class VersionFirst(State):
    """Planted: the version is stored, and then the slot is written."""

    def publish(self, version: int) -> None:
        self.reports.write(version, {"metrics": {"loss": version}})
        self.arena.counters.store(version_of("crow"), version + 1)
        for name, target in self.states.read_slot(version % 2).items():
            target[...] = arrays_of(version)[name]


class OneSlot(State):
    """Planted: every version overwrites the one before."""

    def publish(self, version: int) -> None:
        for name, target in self.states.read_slot((version + 1) % 2).items():
            target[...] = arrays_of(version)[name]
        super().publish(version)


class ReportLast(State):
    """Planted: the report is written after its round has been published."""

    def publish(self, version: int) -> None:
        self.states.publish(version, arrays_of(version))
        self.reports.write(version, {"metrics": {"loss": version}})


def arrays_of(version: int) -> dict[str, np.ndarray]:
    return {name: np.full(4, version + i, "f4") for i, name in enumerate(STATE, 1)}


def same(arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(arrays[name], expected[name]) for name in STATE)


SOUND = (Turn, State)
PLANTED = (CommitFirst, CommitBetween, VersionFirst, OneSlot, ReportLast)
CASES = {kind.__name__: kind for kind in SOUND + PLANTED}

if __name__ == "__main__":
    case = CASES[sys.argv[1]]()
    points = turning_points(case) if isinstance(case, PLANTED) else None
    print(json.dumps(vars(sweep(case, points))))
