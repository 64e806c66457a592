"""How long a round would take with other numbers of processes, from measured costs.

Costs are seconds of one core. Other programs on the machine slow a run down, but do not
change its costs, so that measurements of different times can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass

CROWDED = 1.15
"""How much longer the same work takes if there are more busy processes than cores."""
HAND_OVER_SECONDS = 0.002
"""How long a round in several processes takes at least: they wait for each other twice."""


@dataclass(frozen=True)
class Processes:
    """How many processes play, and how many learn."""

    actors: int = 1
    workers: int = 0
    """0: playing and learning take turns in one process."""

    def __str__(self) -> str:
        if not self.workers:
            return "one process"
        workers = f"{self.workers} worker{'s' if self.workers > 1 else ''}"
        return workers if self.actors == 1 else f"{self.actors} actors and {workers}"


ONE = Processes()


@dataclass(frozen=True)
class RoundCosts:
    """Seconds of one core that a round takes, in one process."""

    play: float
    learn: float
    """All agents."""
    other: float = 0.0
    """Recording the round."""
    per_actor: float = 0.0
    """What each further actor adds to playing: a turn of fewer worlds is not free."""
    per_worker: float = 0.0
    """What each further worker adds to learning: fewer agents are stacked."""

    def playing(self, actors: int) -> float:
        """Return what playing costs all actors together."""
        return self.play + (actors - 1) * self.per_actor

    def learning(self, workers: int) -> float:
        """Return what learning costs all workers together."""
        return self.learn + (workers - 1) * self.per_worker

    def scaled(self, factor: float) -> RoundCosts:
        """Return all costs times a factor."""
        return RoundCosts(*(factor * cost for cost in astuple(self)))


@dataclass(frozen=True)
class Machine:
    """The cores that a run can use, and with how many busy processes it shares them."""

    cores: int
    neighbours: float = 0.0

    def power(self, processes: int) -> float:
        """Return how many cores so many busy processes get together."""
        fair = self.cores * processes / (processes + self.neighbours)
        return min(processes, fair)

    def slowest(self, processes: int) -> float:
        """Return the part of a core that the slowest of equally busy processes gets.

        A round is too short to move them around until all have had the same.
        """
        if processes == 1:
            return self.power(1)
        return 1 / math.ceil((processes + round(self.neighbours)) / self.cores)

    def crowding(self, processes: int) -> float:
        """Return how much longer work takes because processes outnumber the cores."""
        return CROWDED if processes + round(self.neighbours) > self.cores else 1.0


@dataclass(frozen=True)
class RunShape:
    """What the time of a round depends on, besides its costs and the machine."""

    schedule: str
    workers: int
    """How many workers can have something to do."""
    busiest: Callable[[Processes], float]
    """Returns the part of all learning that the worker with the most to do has."""
    actors: Sequence[int] = (1,)
    """How many actors there can be."""

    def candidates(self, cores: int) -> Iterator[Processes]:
        """Return all numbers of processes with at most one more than there are cores."""
        for actors in self.actors:
            for workers in range(1, self.workers + 1):
                if actors + workers <= cores + 1:
                    yield Processes(actors, workers)


def expected_seconds(
    costs: RoundCosts, processes: Processes, run: RunShape, machine: Machine
) -> float:
    """Return roughly how long a round takes."""
    actors, workers = processes.actors, processes.workers
    lone = machine.power(1)
    if not workers:
        return (costs.play + costs.learn + costs.other) / lone
    playing, learning = costs.playing(actors), costs.learning(workers)
    share = playing / actors / machine.slowest(actors)
    longest = learning * run.busiest(processes) / lone
    if run.schedule == "sync":  # a round is learned after it is played
        played = max(share, machine.crowding(actors) * playing / machine.power(actors))
        learned = max(
            longest, machine.crowding(workers) * learning / machine.power(workers)
        )
        return played + learned + HAND_OVER_SECONDS
    count, work = actors + workers, playing + learning + costs.other
    busy = machine.crowding(count) * work / machine.power(count)
    return max(busy, share, longest, costs.other / lone) + HAND_OVER_SECONDS


def fastest(costs: RoundCosts, run: RunShape, machine: Machine) -> tuple[Processes, float]:
    """Return the best number of processes and the expected seconds of a round.

    One more process must make a difference.
    """
    best, least = ONE, expected_seconds(costs, ONE, run, machine)
    for processes in sorted(run.candidates(machine.cores), key=_count):
        expected = expected_seconds(costs, processes, run, machine)
        if expected < 0.98 * least:
            best, least = processes, expected
    return best, least


def _count(processes: Processes) -> tuple[int, int]:
    return processes.actors + processes.workers, processes.actors
