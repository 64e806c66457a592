"""`workers=auto`: decides by timing real rounds how many workers are worthwhile.

The first rounds are played and learned in one process. Once enough of them have been
timed, one line reports the decision and the reason. If several processes then turn out
to be slower, the run goes back to one.
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
"""The cost of starting processes: each loads torch, and slows rounds down meanwhile."""
OVERHEAD = 1.1
"""Measured overhead of rounds in several processes over the ideal."""
WORTHWHILE = 1.1
"""The least speedup for which several processes are started."""


@dataclass(frozen=True)
class WorkerChoice:
    """How many workers to use, and why."""

    workers: int
    reason: str


@dataclass
class Autoscaler:
    """Times rounds, and decides how many workers to use."""

    config: Config
    agents: Sequence[Agent]
    _played: list[float] = field(default_factory=list)
    _learned: list[float] = field(default_factory=list)
    _pooled: list[float] = field(default_factory=list)

    def add(self, played: float, learned: float) -> None:
        """Add a round's times in one process; rounds without updates are not timed."""
        if learned > 0:
            self._played.append(played)
            self._learned.append(learned)

    @property
    def has_enough(self) -> bool:
        """Whether enough rounds have been timed to decide."""
        timed = sum(self._played) + sum(self._learned)
        return len(self._played) >= LEAST_ROUNDS and timed >= LEAST_SECONDS

    def decide(self, rounds_left: int) -> WorkerChoice:
        """Decide how many workers to use in so many rounds."""
        learning = sum(agent.learns for agent in self.agents)
        play, learn = statistics.median(self._played), statistics.median(self._learned)
        schedule = self.config.schedule
        return choose(play, learn, schedule, cores(), learning, rounds_left)

    def add_pooled(self, seconds: float) -> None:
        """Add a round's time in several processes."""
        self._pooled.append(seconds)

    @property
    def is_slower(self) -> bool:
        """Whether several processes are slower than one; judged every ten rounds."""
        recent = self._pooled[-10:]
        single = statistics.median(self._played) + statistics.median(self._learned)
        return len(self._pooled) % 10 == 0 and statistics.median(recent) > 1.02 * single


def choose(
    play: float, learn: float, schedule: str, cores: int, agents: int, rounds_left: int
) -> WorkerChoice:
    """Return how many workers to use, given a round's times in one process.

    Args:
        play: seconds of playing.
        learn: seconds of learning, all agents.
        schedule: the run's schedule.
        cores: how many the run can use.
        agents: how many learn.
        rounds_left: how many rounds could be faster.
    """
    single = play + learn
    best, fastest = 0, single
    for workers in range(1, min(cores, agents) + 1):
        # Agents are not divided: of three agents, one of two workers has two.
        longest = learn * -(-agents // workers) / agents
        expected = expected_seconds(play, learn, longest, schedule, cores, workers)
        if expected < fastest * 0.98:  # another worker must make a difference
            best, fastest = workers, expected
    times = f"a round takes {1e3 * play:.0f} ms to play and {1e3 * learn:.0f} ms to learn"
    if cores < 2:
        return WorkerChoice(0, f"{AUTO} one process, because there is only one core")
    if not best or single / fastest < WORTHWHILE:
        reason = f"{times}, and more processes would hardly speed that up"
        return WorkerChoice(0, f"{AUTO} one process, because {reason}")
    if rounds_left * (single - fastest) < START_SECONDS:
        reason = f"the run is too short to gain from more ({times})"
        return WorkerChoice(0, f"{AUTO} one process, because {reason}")
    reason = f"{times}; in parallel on {cores} cores it should take {1e3 * fastest:.0f} ms"
    return WorkerChoice(best, f"{AUTO} {processes_text(best)}, because {reason}")


def processes_text(workers: int) -> str:
    """Return the number of workers in words."""
    if not workers:
        return "one process"
    return f"{workers} worker{'s' if workers > 1 else ''}"


def expected_seconds(
    play: float, learn: float, longest: float, schedule: str, cores: int, workers: int
) -> float:
    """Return roughly how long a round takes.

    Args:
        play: seconds of playing.
        learn: seconds of learning, all agents.
        longest: seconds of learning of the worker with the most to do.
        schedule: decides whether rounds are played and learned at the same time.
        cores: how many the run can use.
        workers: how many processes divide the learning among them.
    """
    if schedule == "sync":  # a round is learned after it is played
        return OVERHEAD * (play + max(longest, learn / cores))
    busy = (play + learn) / min(cores, workers + 1)
    return OVERHEAD * max(play, longest, busy)


def cores() -> int:
    """Return how many cores this process can use, with the limits of its container."""
    count = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, max(1, int(quota) // int(period)))
    return count
