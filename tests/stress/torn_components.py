"""The product's components as `torn` puts them together, and bugs planted in them.

Every planted bug is a subclass of `Components` that only `torn` uses: the product itself is
never changed. A bug that needs luck to show gets a tiny delay where it hurts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rookery.config.run import Config, GameConfig
from rookery.protocol.arena import COMMIT, GATE, AgentMemory, Arena
from rookery.protocol.schedule import RoundSchedule, rounds_ahead
from rookery.replay.buffer import ReplayReader, slots_needed
from rookery.replay.rows import Rows
from rookery.shm.block import Block
from rookery.shm.counters import Counters, fence, version_of
from rookery.shm.versions import VersionedState
from rookery.specs import Array
from tests.stress import torn_data as data

Schedule = Literal["pipelined", "sync", "async"]
DELAY = 0.0003
"""Seconds by which a planted bug, or the observer, is slower than necessary."""
DAMAGE_EVERY = 16
"""Turns from one damaged row to the next."""


@dataclass(frozen=True)
class Case:
    """One run: with the product's components, or with a bug planted in them."""

    name: str
    schedule: Schedule
    rounds: int
    agents: int = 2
    worlds: int = 32
    turns: int = 4
    """Turns of a round."""
    window: int = 4
    """Turns that a learner reads."""
    stop_at_first: bool = False
    """Whether it ends with the first violation."""
    limit_seconds: float = 1800.0

    def config(self) -> Config:
        """Return the settings that the schedule of rounds depends on."""
        return Config(
            game=GameConfig(name="torn"),
            schedule=self.schedule,
            rounds=self.rounds,
            worlds=self.worlds,
            turns_per_round=self.turns,
        )

    @property
    def is_exact(self) -> bool:
        """Whether a round is played with exactly one version."""
        return self.schedule != "async"


class Components:
    """The product's own components, used as the product uses them."""

    learner_delay = main_delay = 0.0
    """Seconds that learners take for a batch, and main for a boundary."""
    observer_delay = DELAY
    """Seconds that the observer takes, so that it is overtaken now and then."""

    def slots(self, case: Case) -> int:
        """Return how many turns of an agent are kept."""
        return self.slots_ahead(case, rounds_ahead(case.config()))

    @staticmethod
    def slots_ahead(case: Case, ahead: int) -> int:
        """Return how many slots are needed to play `ahead` rounds ahead of learners."""
        capacity = case.window * case.worlds
        return slots_needed(capacity, case.worlds, case.turns, data.FRAMES, ahead)

    def arena(self, case: Case) -> Arena:
        """Return the shared memory of a run, not yet allocated."""
        slots = self.slots(case)
        agents = [
            AgentMemory(data.agent_spec(agent), slots, data.STATE)
            for agent in range(case.agents)
        ]
        reports = max(2, rounds_ahead(case.config()))
        return Arena.planned(case.worlds, agents, data.SNAPSHOT, reports)

    def rows(self, arena: Arena, agent: int) -> Rows:
        """Return an agent's rows for a reader."""
        return arena.rows(str(agent))

    def written_rows(self, arena: Arena, agent: int) -> Rows:
        """Return an agent's rows for the actor."""
        return arena.rows(str(agent))

    def states(self, arena: Arena, agent: int) -> VersionedState:
        """Return the versions of an agent's state."""
        return arena.states(str(agent))

    def schedule(self, case: Case, counters: Counters) -> RoundSchedule:
        """Return the rules for when a round may start."""
        return RoundSchedule(case.config(), counters, [str(i) for i in range(case.agents)])

    def commit(
        self, write: Callable[[], None], counters: Counters, rows: Sequence[Rows], turn: int
    ) -> None:
        """Write the rows of a turn, then commit it."""
        write()
        counters.store(COMMIT, turn + 1)

    def read_exact(
        self, states: VersionedState, version: int
    ) -> tuple[int, dict[str, Array]]:
        """Return the version that a round is to be played with."""
        return version, states.read(version)

    def check_untouched(self, reader: ReplayReader, counters: Counters) -> None:
        """Raise DamagedRow if rows may have been overwritten while they were read."""
        fence()
        reader.check_untouched(counters.load(COMMIT))


def reader_of(agent: int, rows: Rows, case: Case) -> ReplayReader:
    """Return a reader of an agent's rows that has not read any yet."""
    return ReplayReader(
        str(agent),
        rows,
        capacity=case.window * case.worlds,
        frames=data.FRAMES,
        n_step=data.N_STEP,
        discount=data.DISCOUNT,
    )


# Planted bugs.


class UnverifiedRows(Rows):
    """Rows that always pass as whole."""

    def is_whole(self, turn: int) -> bool:
        return True


def _unverified(arena: Arena, agent: int) -> Rows:
    return UnverifiedRows(arena._blocks[f"rows {agent}"])


def _states_of_kind(kind: type[VersionedState], arena: Arena, agent: int) -> VersionedState:
    """Return an agent's states as an instance of a faulty subclass."""
    return kind(arena._blocks[f"state {agent}"], arena.counters, version_of(str(agent)))


class CommitBeforeData(Components):
    """The commit is stored before the rows are written."""

    def commit(
        self, write: Callable[[], None], counters: Counters, rows: Sequence[Rows], turn: int
    ) -> None:
        counters.store(COMMIT, turn + 1)
        time.sleep(DELAY)
        write()


class CommitBeforeDataUnverified(CommitBeforeData):
    """The same, and rows are not verified."""

    def rows(self, arena: Arena, agent: int) -> Rows:
        return _unverified(arena, agent)


class NewerVersion(Components):
    """A round is played with the newest version instead of the exact one."""

    def read_exact(
        self, states: VersionedState, version: int
    ) -> tuple[int, dict[str, Array]]:
        time.sleep(DELAY)
        return states.newest(data.NAMES)


class InPlace(Components):
    """A state has a single slot, and every version overwrites the one before."""

    def states(self, arena: Arena, agent: int) -> VersionedState:
        class OneSlot(VersionedState):
            def __init__(self, block: Block, counters: Counters, counter: str) -> None:
                super().__init__(block, counters, counter)
                self._slots[1] = self._slots[0]

        return _states_of_kind(OneSlot, arena, agent)


class TooFewSlots(Components):
    """There are slots for the window, but none for the round being played."""

    learner_delay = DELAY

    def slots(self, case: Case) -> int:
        return self.slots_ahead(case, ahead=0)


class TooFewSlotsUnchecked(TooFewSlots):
    """The same, and rows overwritten while they were read are used."""

    def check_untouched(self, reader: ReplayReader, counters: Counters) -> None:
        pass


class MovedVersion(Components):
    """A copy is accepted although the version moved while it was made."""

    def states(self, arena: Arena, agent: int) -> VersionedState:
        class Unchecked(VersionedState):
            def newest(self, names: Collection[str]) -> tuple[int, dict[str, Array]]:
                version = self.version
                slot = self._slots[version % 2]
                return version, {name: slot[name].copy() for name in names}

        return _states_of_kind(Unchecked, arena, agent)


class DamagedMemory(Components):
    """Not a bug: memory is damaged now and then, and the product must refuse it."""

    def commit(
        self, write: Callable[[], None], counters: Counters, rows: Sequence[Rows], turn: int
    ) -> None:
        write()
        if turn % DAMAGE_EVERY == DAMAGE_EVERY - 1:
            for agent_rows in rows:
                agent_rows.parts["view"][turn % agent_rows.slots, :, 0] ^= 1 << 40
        counters.store(COMMIT, turn + 1)


class NoChecksum(DamagedMemory):
    """Memory is damaged, and rows are not verified."""

    def rows(self, arena: Arena, agent: int) -> Rows:
        return _unverified(arena, agent)


class VersionBeforeData(Components):
    """The version is stored before its slot is written."""

    def states(self, arena: Arena, agent: int) -> VersionedState:
        class Hasty(VersionedState):
            def publish(self, version: int, arrays: Mapping[str, Array]) -> None:
                self._counters.store(self._counter, version + 1)
                time.sleep(DELAY)
                super().publish(version, arrays)

        return _states_of_kind(Hasty, arena, agent)


class BoundaryIgnored(Components):
    """A round is played before the boundary before it is complete."""

    def schedule(self, case: Case, counters: Counters) -> RoundSchedule:
        class Eager(RoundSchedule):
            def await_playing(self, number: int) -> None:
                self._until(GATE, number)

        return Eager(case.config(), counters, [str(i) for i in range(case.agents)])


class GateIgnored(Components):
    """Rounds start before main, which is still reading a boundary, has opened the gate."""

    main_delay = 20 * DELAY

    def schedule(self, case: Case, counters: Counters) -> RoundSchedule:
        class Unruly(RoundSchedule):
            def _until(self, name: str, value: int) -> None:
                if name != GATE:
                    super()._until(name, value)

        return Unruly(case.config(), counters, [str(i) for i in range(case.agents)])


class ForeignRows(Components):
    """The rows of two agents are swapped."""

    def written_rows(self, arena: Arena, agent: int) -> Rows:
        return super().written_rows(arena, agent ^ 1)


class OverwrittenRows(Components):
    """Rows are used although they may have been overwritten while they were read."""

    observer_delay = 20 * DELAY

    def check_untouched(self, reader: ReplayReader, counters: Counters) -> None:
        pass


NO_BUG = "none"
DAMAGED = "damaged memory"
BUGS: dict[str, tuple[type[Components], Schedule]] = {
    "commit before data": (CommitBeforeData, "sync"),
    "commit before data, rows not verified": (CommitBeforeDataUnverified, "sync"),
    "newer version taken": (NewerVersion, "pipelined"),
    "weights in place": (InPlace, "pipelined"),
    "too few slots": (TooFewSlots, "pipelined"),
    "too few slots, overwritten rows accepted": (TooFewSlotsUnchecked, "pipelined"),
    "copy accepted although the version moved": (MovedVersion, "async"),
    "missing checksum": (NoChecksum, "pipelined"),
    "version before its slot": (VersionBeforeData, "pipelined"),
    "boundary not awaited": (BoundaryIgnored, "pipelined"),
    "gate ignored": (GateIgnored, "pipelined"),
    "foreign rows": (ForeignRows, "pipelined"),
    "overwritten rows accepted": (OverwrittenRows, "async"),
}
"""Every planted bug, and the schedule in which it does harm."""


def planted(name: str, rounds: int, stop_at_first: bool = False) -> Case:
    """Return the case of a planted bug, in the schedule in which it does harm."""
    return Case(name, BUGS[name][1], rounds, stop_at_first=stop_at_first)


def components_of(name: str) -> Components:
    """Return the components of a case, by its name."""
    if name in BUGS:
        return BUGS[name][0]()
    return DamagedMemory() if name == DAMAGED else Components()
