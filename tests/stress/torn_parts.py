"""The product's own parts as `torn` puts them together, and what is counted of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rookery.config.run import Config, GameConfig
from rookery.protocol.arena import COMMIT, AgentMemory, Arena
from rookery.protocol.schedule import RoundSchedule, rounds_ahead
from rookery.replay.buffer import ReplayReader, slots_needed
from rookery.replay.rows import Rows
from rookery.shm.counters import Counters, fence
from rookery.shm.versions import VersionedState
from rookery.specs import Array
from tests.stress import torn_stamps as stamps

Schedule = Literal["pipelined", "sync", "async"]
NAP = 0.0003
"""Seconds by which a planted bug, or an honest onlooker, is slower than it need be."""
WRONG = ("torn", "stale", "foreign", "missing", "version")
"""What was used and should not have been; of `version`, another one than was due."""
VIOLATIONS = (*WRONG, "refused", "died")
KINDS = (*VIOLATIONS, "looked", "thrown away")
"""Refused: the product found it out itself. Thrown away: overtaken, as is allowed."""


@dataclass(frozen=True)
class Case:
    """One run: the product's parts, or some with a bug planted in them."""

    name: str
    schedule: Schedule
    rounds: int
    agents: int = 2
    worlds: int = 32
    turns: int = 4
    """Turns of a round."""
    window: int = 4
    """Turns that a learner looks at."""
    until_found: bool = False
    """Whether it ends as soon as something is found to be wrong."""
    limit_seconds: float = 1800.0

    def config(self) -> Config:
        """Return the settings that borders are made of."""
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


class Findings:
    """What one process has seen, by kind, where main can read it whatever happens."""

    def __init__(self, counters: Counters, role: str) -> None:
        self._counters, self._role = counters, role
        self._counts: Counter[str] = Counter()

    def add(self, kind: str | None, times: int = 1) -> None:
        """Count what was found; None is nothing."""
        if kind is not None:
            self._counts[kind] += times
            self._counters.note(f"{self._role} {kind}", self._counts[kind])


class Parts:
    """The product's own parts, used as the product uses them."""

    learn_nap = record_nap = 0.0
    """Seconds that learners dawdle over a batch, and main over a border."""
    look_nap = NAP
    """Seconds that the onlooker dawdles; it shall be overtaken, now and then."""

    def slots(self, case: Case) -> int:
        """Return how many turns of an agent are kept."""
        ahead = rounds_ahead(case.config())
        return self.slots_ahead(case, ahead)

    @staticmethod
    def slots_ahead(case: Case, ahead: int) -> int:
        """Return how many slots there must be, for so many rounds of playing ahead."""
        capacity = case.window * case.worlds
        return slots_needed(capacity, case.worlds, case.turns, stamps.FRAMES, ahead)

    def arena(self, case: Case) -> Arena:
        """Return the memory of a run."""
        slots = self.slots(case)
        agents = [
            AgentMemory(stamps.spec_of(agent), slots, stamps.STATE)
            for agent in range(case.agents)
        ]
        reports = max(2, rounds_ahead(case.config()))
        return Arena.planned(case.worlds, agents, stamps.SNAPSHOT, reports)

    def rows(self, arena: Arena, agent: int) -> Rows:
        """Return an agent's rows, for whoever reads them."""
        return arena.rows(str(agent))

    def written(self, arena: Arena, agent: int) -> Rows:
        """Return an agent's rows, for the actor."""
        return arena.rows(str(agent))

    def states(self, arena: Arena, agent: int) -> VersionedState:
        """Return the versions of an agent's state."""
        return arena.states(str(agent))

    def schedule(self, case: Case, counters: Counters) -> RoundSchedule:
        """Return when rounds start."""
        return RoundSchedule(case.config(), counters, [str(i) for i in range(case.agents)])

    def commit(
        self, write: Callable[[], None], counters: Counters, rows: Sequence[Rows], turn: int
    ) -> None:
        """Write the rows of a turn, and commit it."""
        write()
        counters.store(COMMIT, turn + 1)

    def exact(self, states: VersionedState, version: int) -> tuple[int, dict[str, Array]]:
        """Return the version that is due."""
        return version, states.read(version)

    def check(self, reader: ReplayReader, counters: Counters) -> None:
        """See that what was read was not overtaken meanwhile."""
        fence()
        reader.check_untouched(counters.load(COMMIT))


def reader_of(agent: int, rows: Rows, case: Case) -> ReplayReader:
    """Return a reader that has taken in nothing yet."""
    return ReplayReader(
        str(agent),
        rows,
        capacity=case.window * case.worlds,
        frames=stamps.FRAMES,
        n_step=stamps.N_STEP,
        discount=stamps.DISCOUNT,
    )


class Slowly(tuple[str, ...]):
    """Names of arrays; whoever goes through them dawdles in the middle.

    So a copy takes long, and is often overtaken, without a change to what makes it.
    """

    times = 0
    """How often somebody has gone through."""

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        for place, name in enumerate(super().__iter__()):
            if place == len(self) // 2:
                time.sleep(NAP)
            yield name
