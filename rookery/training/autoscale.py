"""`workers=auto`: how many workers pay, decided by timing real rounds.

The first rounds are played in one process. Once enough of them are timed, one line says
what was decided and why. If the processes then turn out slower, they are given up again.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rookery.algorithms.base import Agent
from rookery.config.run import Config

AUTO = "workers=auto:"
LEAST_ROUNDS = 3
LEAST_SECONDS = 1.0
START_SECONDS = 6.0
"""What starting processes costs: everybody loads torch while rounds go on slower."""
OVERHEAD = 1.1
"""How much longer a round takes in company than the arithmetic says."""
WORTH = 1.1
"""How much faster it must become to be worth it."""


@dataclass(frozen=True)
class WorkerChoice:
    """How many workers, and why."""

    workers: int
    reason: str


@dataclass
class Autoscaler:
    """Times rounds, and decides."""

    config: Config
    agents: Sequence[Agent]
    _rounds: int = 0
    _played: list[float] = field(default_factory=list)
    _learned: list[float] = field(default_factory=list)
    _in_company: list[float] = field(default_factory=list)

    def add(self, played: float, learned: float) -> None:
        """Take in a round in one process; rounds before learning starts tell nothing."""
        self._rounds += 1
        if learned > 0:
            self._played.append(played)
            self._learned.append(learned)

    @property
    def has_enough(self) -> bool:
        """Whether enough rounds were timed."""
        timed = sum(self._played) + sum(self._learned)
        return len(self._played) >= LEAST_ROUNDS and timed >= LEAST_SECONDS

    def decide(self, rounds: int) -> WorkerChoice:
        """Decide how many workers to have, in a run of so many rounds."""
        learning = sum(agent.learns for agent in self.agents)
        play, learn = statistics.median(self._played), statistics.median(self._learned)
        schedule = self.config.schedule
        return choose(play, learn, schedule, cores(), learning, rounds - self._rounds)

    def add_in_company(self, seconds: float) -> None:
        """Take in a round of several processes."""
        self._in_company.append(seconds)

    @property
    def is_slower(self) -> bool:
        """Whether several processes turned out to be slower than one."""
        recent = self._in_company[-10:]
        alone = statistics.median(self._played) + statistics.median(self._learned)
        return len(self._in_company) % 10 == 0 and statistics.median(recent) > 1.02 * alone


def choose(
    play: float, learn: float, schedule: str, cores: int, agents: int, rounds_left: int
) -> WorkerChoice:
    """Return how many workers pay, from what a round costs in one process."""
    alone = play + learn
    best, fastest = 0, alone
    for workers in range(1, min(cores, agents) + 1):
        # Agents are not divided: of three, one of two workers has two.
        longest = learn * -(-agents // workers) / agents
        expected = expected_seconds(play, learn, longest, schedule, cores, workers)
        if expected < fastest * 0.98:  # no worker more than helps
            best, fastest = workers, expected
    times = f"playing takes {1e3 * play:.0f} ms of a round, learning {1e3 * learn:.0f} ms"
    if cores < 2:
        return WorkerChoice(0, f"{AUTO} one process, since there is one core")
    if not best or alone / fastest < WORTH:
        return WorkerChoice(0, f"{AUTO} one process, since {times}: too little to gain")
    if rounds_left * (alone - fastest) < START_SECONDS:
        return WorkerChoice(0, f"{AUTO} one process, since the run is short and {times}")
    hoped = f"side by side on {cores} cores a round should take {1e3 * fastest:.0f} ms"
    return WorkerChoice(best, f"{AUTO} {in_words(best)}, since {times}; {hoped}")


def in_words(workers: int) -> str:
    """Return a number of workers as one would say it."""
    if not workers:
        return "one process"
    return f"{workers} worker{'s' if workers > 1 else ''}"


def expected_seconds(
    play: float, learn: float, longest: float, schedule: str, cores: int, workers: int
) -> float:
    """Return about how long a round takes.

    Args:
        play: seconds of playing.
        learn: seconds of learning, all agents.
        longest: of them, those of the worker that has most to do.
        schedule: whether both can be done at the same time.
        cores: that there are.
        workers: that share out the learning.
    """
    if schedule == "sync":  # players and learners take turns
        return OVERHEAD * (play + max(longest, learn / cores))
    busy = (play + learn) / min(cores, workers + 1)
    return OVERHEAD * max(play, longest, busy)


def cores() -> int:
    """Return how many cores this process may use."""
    found = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        found = min(found, max(1, int(quota) // int(period)))
    return found
