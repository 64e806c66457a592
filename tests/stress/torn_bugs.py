"""Protocol bugs, planted in the product's parts to see that `torn` finds each of them.

A bug that needs luck to show gets a tiny delay where it hurts. The product itself is never
changed: every bug is a subclass used by `torn` alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from rookery.protocol.arena import COMMIT, GATE, Arena
from rookery.protocol.schedule import RoundSchedule
from rookery.replay.buffer import ReplayReader
from rookery.replay.rows import Rows
from rookery.shm.block import Block
from rookery.shm.counters import Counters, version_of
from rookery.shm.versions import VersionedState
from rookery.specs import Array
from tests.stress.torn_parts import NAP, Case, Parts, Schedule
from tests.stress.torn_stamps import NAMES

DAMAGE_EVERY = 16
"""Turns from one damaged row to the next."""


class Unverified(Rows):
    """Rows that are taken for whole, whatever they hold."""

    def is_whole(self, turn: int) -> bool:
        return True


class CommitBeforeData(Parts):
    """The commit word is stored before the rows are written."""

    def commit(
        self, write: Callable[[], None], counters: Counters, rows: Sequence[Rows], turn: int
    ) -> None:
        counters.store(COMMIT, turn + 1)
        time.sleep(NAP)
        write()


class CommitBeforeDataUnseen(CommitBeforeData):
    """The same, and rows are not verified."""

    def rows(self, arena: Arena, agent: int) -> Rows:
        return _unverified(arena, agent)


class NewerVersion(Parts):
    """The newest version is taken where an exact one is due."""

    def exact(self, states: VersionedState, version: int) -> tuple[int, dict[str, Array]]:
        time.sleep(NAP)
        return states.newest(NAMES)


class InPlace(Parts):
    """A state has one slot, and every version is written over the one before."""

    def states(self, arena: Arena, agent: int) -> VersionedState:
        class OneSlot(VersionedState):
            def __init__(self, block: Block, counters: Counters, counter: str) -> None:
                super().__init__(block, counters, counter)
                self._slots[1] = self._slots[0]

        return _of_kind(OneSlot, arena, agent)


class GuardTooSmall(Parts):
    """There are slots for the window, and none for the round being played."""

    learn_nap = NAP

    def slots(self, case: Case) -> int:
        return self.slots_ahead(case, ahead=0)


class GuardTooSmallUnseen(GuardTooSmall):
    """The same, and nobody looks whether rows were overwritten while they were read."""

    def check(self, reader: ReplayReader, counters: Counters) -> None:
        pass


class MovedWord(Parts):
    """A copy is accepted although the word moved while it was made."""

    def states(self, arena: Arena, agent: int) -> VersionedState:
        class Trusting(VersionedState):
            def newest(self, names: Collection[str]) -> tuple[int, dict[str, Array]]:
                version = self.version
                slot = self._slots[version % 2]
                return version, {name: slot[name].copy() for name in names}

        return _of_kind(Trusting, arena, agent)


class Damaged(Parts):
    """No bug: now and then memory is damaged, and the product must refuse it."""

    def commit(
        self, write: Callable[[], None], counters: Counters, rows: Sequence[Rows], turn: int
    ) -> None:
        write()
        if turn % DAMAGE_EVERY == DAMAGE_EVERY - 1:
            for one in rows:
                one.parts["sight"][turn % one.slots, :, 0] ^= 1 << 40
        counters.store(COMMIT, turn + 1)


class NoChecksum(Damaged):
    """Memory is damaged, and rows are not verified."""

    def rows(self, arena: Arena, agent: int) -> Rows:
        return _unverified(arena, agent)


class WordFirst(Parts):
    """The version word is stored before its slot is written."""

    def states(self, arena: Arena, agent: int) -> VersionedState:
        class Hasty(VersionedState):
            def publish(self, version: int, arrays: Mapping[str, Array]) -> None:
                self._counters.store(self._counter, version + 1)
                time.sleep(NAP)
                super().publish(version, arrays)

        return _of_kind(Hasty, arena, agent)


class BorderIgnored(Parts):
    """A round is played before the border behind it is complete."""

    def schedule(self, case: Case, counters: Counters) -> RoundSchedule:
        class Eager(RoundSchedule):
            def await_playing(self, number: int) -> None:
                self._until(GATE, number)

        return Eager(case.config(), counters, [str(i) for i in range(case.agents)])


class GateIgnored(Parts):
    """Rounds start that main, which still reads a border, has not allowed."""

    record_nap = 20 * NAP

    def schedule(self, case: Case, counters: Counters) -> RoundSchedule:
        class Unruly(RoundSchedule):
            def _until(self, name: str, value: int) -> None:
                if name != GATE:
                    super()._until(name, value)

        return Unruly(case.config(), counters, [str(i) for i in range(case.agents)])


class ForeignRows(Parts):
    """The rows of two agents are swapped."""

    def written(self, arena: Arena, agent: int) -> Rows:
        return super().written(arena, agent ^ 1)


class NobodyLooks(Parts):
    """Rows are used although they may have been overwritten while they were read."""

    look_nap = 20 * NAP

    def check(self, reader: ReplayReader, counters: Counters) -> None:
        pass


def _unverified(arena: Arena, agent: int) -> Rows:
    return Unverified(arena._blocks[f"rows {agent}"])


def _of_kind(kind: type[VersionedState], arena: Arena, agent: int) -> VersionedState:
    """Return an agent's states, as a variant of the class."""
    return kind(arena._blocks[f"state {agent}"], arena.counters, version_of(str(agent)))


HONEST = "none"
DAMAGED = "damaged memory"
BUGS: dict[str, tuple[type[Parts], Schedule]] = {
    "commit before data": (CommitBeforeData, "sync"),
    "commit before data, rows not verified": (CommitBeforeDataUnseen, "sync"),
    "a newer version taken": (NewerVersion, "pipelined"),
    "in-place weights": (InPlace, "pipelined"),
    "guard too small": (GuardTooSmall, "pipelined"),
    "guard too small, and nobody looks": (GuardTooSmallUnseen, "pipelined"),
    "copy accepted although the word moved": (MovedWord, "async"),
    "missing checksum": (NoChecksum, "pipelined"),
    "version word before its slot": (WordFirst, "pipelined"),
    "border not awaited": (BorderIgnored, "pipelined"),
    "gate ignored": (GateIgnored, "pipelined"),
    "foreign rows": (ForeignRows, "pipelined"),
    "overwritten rows accepted": (NobodyLooks, "async"),
}
"""Every planted bug, and the schedule in which it hurts."""


def parts_of(name: str) -> Parts:
    """Return the parts of a case."""
    if name in BUGS:
        return BUGS[name][0]()
    return Damaged() if name == DAMAGED else Parts()
