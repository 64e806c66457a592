"""`workers=auto`: decides by timing real rounds how many processes are worthwhile.

The first rounds are played and learned in one process. Once enough of them have been
timed, one line reports the decision and the reason. Later rounds are judged in blocks:
rounds in several processes are compared with what the same work would take in one process
on the machine as it is now, and the number of processes changes only if several blocks in
a row agree. After several processes were given up, they are tried again, but the wait
doubles each time.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rookery.algorithms.base import Agent
from rookery.config.run import Config
from rookery.shm.limits import cgroup_cores
from rookery.training.assignment import assign_agents
from rookery.training.load import ProcessorTime
from rookery.training.round_model import (
    ONE,
    Machine,
    Processes,
    RoundCosts,
    RunShape,
    expected_seconds,
    fastest,
)

AUTO = "workers=auto:"
LEAST_ROUNDS = 3
LEAST_SECONDS = 1.0
"""How much is timed before the first decision."""
BLOCK_ROUNDS = 10
BLOCK_SECONDS = 5.0
"""How much is timed for each later judgement."""
START_SECONDS = 6.0
"""The cost of starting processes: each loads torch, and slows rounds down meanwhile."""
WORTHWHILE = 1.05
"""The least speedup for which processes are started."""
SLOWER = 1.05
"""How much slower than one process several must be to be given up."""
BLOCKS_TO_CHANGE = 3
"""Blocks in a row that must agree before the number of processes changes."""
BLOCKS_TO_RETRY = 12
"""The same after several processes were given up for the first time; it doubles."""
STAY, ONE_IS_BEST, OTHERS_ARE_BEST = "stay", "one is best", "others are best"
"""How a block is judged."""


@dataclass(frozen=True)
class TimedRound:
    """How long a round took, from boundary to boundary."""

    played: float
    """Seconds of playing."""
    learned: float
    """Seconds of learning, all agents; 0 if no update was made."""
    total: float
    processor: ProcessorTime = field(default_factory=ProcessorTime)
    """Of all processes that played or learned."""


@dataclass(frozen=True)
class Choice:
    """How many processes to use, and why."""

    processes: Processes
    reason: str


class Autoscaler:
    """Times rounds, and decides how many processes to use."""

    def __init__(
        self, config: Config, agents: Sequence[Agent], actors: Sequence[int] = (1,)
    ) -> None:
        """Plan for a run that can have so many actors."""
        learning = sum(agent.learns for agent in agents)

        def busiest(processes: Processes) -> float:
            spare = processes.actors + processes.workers <= cores()
            schedule, workers = config.schedule, processes.workers
            return assign_agents(agents, workers, schedule, spare).longest

        self.run = RunShape(config.schedule, learning, busiest, actors)
        self.now = ONE
        """The processes in use."""
        self.shares = actors[0]
        """In how many shares rounds in one process are played.

        In more for some rounds if several actors could be worthwhile: what it costs to
        split the worlds depends on the game, and is measured."""
        self._block: list[TimedRound] = []
        self._judgements: list[str] = []
        """What was best in each block since the last change: STAY, ONE_IS_BEST, …"""
        self._costs: RoundCosts | None = None
        """As measured in one process."""
        self._per_actor = 0.0 if len(actors) == 1 else None
        self._per_worker = 0.0
        """What each further actor or worker adds to the costs; None: not measured."""
        self._pool_cost = 0.0
        """Seconds of one core that the first rounds in several processes took."""
        self._has_decided = False
        self._to_retry = BLOCKS_TO_CHANGE

    def begin(self, processes: Processes) -> None:
        """Start timing rounds in so many processes."""
        if self.now != ONE and processes == ONE:
            self._to_retry = max(2 * self._to_retry, BLOCKS_TO_RETRY)
        self.now, self._pool_cost = processes, 0.0
        self._block.clear()
        self._judgements.clear()

    def add(self, timed: TimedRound) -> None:
        """Add a round; rounds without updates are not timed."""
        if timed.learned > 0:
            self._block.append(timed)

    def decide(self, rounds_left: int) -> Choice | None:
        """Return how many processes to use from now on.

        Args:
            rounds_left: how many rounds could be faster.

        Returns:
            None if nothing changes. The first decision is always returned.
        """
        if not self._is_complete:
            return None
        block, self._block = self._block, []
        machine = Machine(cores(), _neighbours(block))
        if self.now != ONE:
            return self._judge_pool(block, machine)
        costs = self._measure(block)
        choice = choose(costs, self.run, machine, rounds_left)
        if choice.processes.actors > 1 and self._per_actor is None:
            self.shares = self.run.actors[1]
            return None
        if not self._has_decided:
            self._has_decided = True
            return choice
        if choice.processes == ONE:
            return self._after(1, STAY)
        return self._after(self._to_retry, OTHERS_ARE_BEST, choice)

    def _measure(self, block: Sequence[TimedRound]) -> RoundCosts:
        """Return the costs of rounds in one process, with what splitting worlds adds."""
        costs = costs_of(block)
        fewest = self.run.actors[0]
        if self.shares > fewest:
            assert self._costs is not None
            added = costs.play - self._costs.play
            self._per_actor = max(0.0, added) / (self.shares - fewest)
            self.shares, costs = fewest, replace(costs, play=self._costs.play)
        per_actor, per_worker = self._per_actor or 0.0, self._per_worker
        self._costs = replace(costs, per_actor=per_actor, per_worker=per_worker)
        return self._costs

    @property
    def _is_complete(self) -> bool:
        """Whether enough rounds have been timed to judge them."""
        least = (BLOCK_ROUNDS, BLOCK_SECONDS)
        if not self._has_decided:
            least = (LEAST_ROUNDS, LEAST_SECONDS)
        seconds = sum(timed.total for timed in self._block)
        return len(self._block) >= least[0] and seconds >= least[1]

    def _after(
        self, blocks: int, judgement: str, choice: Choice | None = None
    ) -> Choice | None:
        """Return a choice once so many blocks in a row were judged alike.

        How many processes exactly would be best can differ from block to block.
        """
        self._judgements.append(judgement)
        return choice if self._judgements[-blocks:] == [judgement] * blocks else None

    def _judge_pool(self, block: Sequence[TimedRound], machine: Machine) -> Choice | None:
        """Compare rounds in several processes with the same work in one."""
        measured = statistics.median(timed.total for timed in block)
        costs = self._costs_now(block)
        single = expected_seconds(costs, ONE, self.run, machine)
        took = f"because a round takes {1e3 * measured:.0f} ms"
        if measured > SLOWER * single:
            should = f"in several, and should take about {1e3 * single:.0f} ms in one"
            choice = Choice(ONE, f"{AUTO} back to one process, {took} {should}")
            return self._after(BLOCKS_TO_CHANGE, ONE_IS_BEST, choice)
        best, expected = fastest(costs, self.run, machine)
        gain = expected_seconds(costs, self.now, self.run, machine) / expected
        if best in (ONE, self.now) or gain < WORTHWHILE:
            return self._after(1, STAY)
        should = f"and should take about {1e3 * measured / gain:.0f} ms"
        choice = Choice(best, f"{AUTO} {best} instead of {self.now}, {took}, {should}")
        return self._after(self._to_retry, OTHERS_ARE_BEST, choice)

    def _costs_now(self, block: Sequence[TimedRound]) -> RoundCosts:
        """Return the costs in one process of rounds that were timed in several."""
        assert self._costs is not None
        cost = statistics.mean(timed.processor.ran for timed in block)
        if not self._pool_cost:
            self._pool_cost = cost
            if self.now.workers > 1:
                added = costs_of(block).learn - self._costs.learn
                self._per_worker = max(0.0, added) / (self.now.workers - 1)
                self._costs = replace(self._costs, per_worker=self._per_worker)
        return self._costs.scaled(cost / self._pool_cost if cost else 1.0)


def costs_of(block: Sequence[TimedRound]) -> RoundCosts:
    """Return what rounds cost, without the time in which processes waited for a core."""
    speed = sum((timed.processor for timed in block), ProcessorTime()).speed
    play = statistics.median(timed.played for timed in block)
    learn = statistics.median(timed.learned for timed in block)
    total = statistics.median(timed.total for timed in block)
    return RoundCosts(play, learn, max(0.0, total - play - learn)).scaled(speed)


def _neighbours(block: Sequence[TimedRound]) -> float:
    processor = sum((timed.processor for timed in block), ProcessorTime())
    return processor.neighbours(sum(timed.total for timed in block), cores())


def choose(costs: RoundCosts, run: RunShape, machine: Machine, rounds_left: int) -> Choice:
    """Return how many processes to use, given a round's costs in one process.

    Args:
        costs: of a round.
        run: its schedule, agents and how many actors are possible.
        machine: the cores.
        rounds_left: how many rounds could be faster.
    """
    single = expected_seconds(costs, ONE, run, machine)
    best, expected = fastest(costs, run, machine)
    play, learn = (1e3 * x / machine.power(1) for x in (costs.play, costs.learn))
    times = f"a round takes {play:.0f} ms to play and {learn:.0f} ms to learn"
    if machine.cores < 2:
        return Choice(ONE, f"{AUTO} one process, because there is only one core")
    if single / expected < WORTHWHILE:
        reason = f"{times}, and more processes would hardly speed that up"
        return Choice(ONE, f"{AUTO} one process, because {reason}")
    if rounds_left * (single - expected) < START_SECONDS:
        reason = f"the run is too short to gain from more ({times})"
        return Choice(ONE, f"{AUTO} one process, because {reason}")
    where = f"on {machine.cores} cores"
    if machine.neighbours >= 0.5:
        where += f" shared with about {machine.neighbours:.0f} other busy processes"
    reason = f"{times}; in parallel {where} it should take {1e3 * expected:.0f} ms"
    return Choice(best, f"{AUTO} {best}, because {reason}")


def cores() -> int:
    """Return how many cores this process can use, with the limits of its control groups."""
    count, limit = len(os.sched_getaffinity(0)), cgroup_cores()
    return count if limit is None else min(count, max(1, int(limit)))
