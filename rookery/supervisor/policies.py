"""When to restart a process, and when to treat it as hung: pure rules, no processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

FIRST_DELAY = 0.1
LONGEST_DELAY = 10.0
LONGEST_INTERVAL = 1.0
"""Seconds that count at most from one check to the next: main may have been paused."""
TIMES_LONGEST = 10.0
"""How many times its longest silence so far a process can be silent."""
STALL_SECONDS = 30.0
TIMES_SLOWEST = 10.0
"""How many times the slowest round so far a process can be without progress."""


@dataclass
class RestartRecord:
    """The restarts of one role."""

    deaths: int = 0
    """In a row, without progress in between."""
    attempt: int = 1


class RestartPolicy:
    """Decides when a process that died is restarted.

    Each restart is delayed twice as long as the one before, up to a limit of deaths.
    Progress resets the count.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._records: dict[str, RestartRecord] = {}

    def record(self, role: str) -> RestartRecord:
        """Return the record of a role."""
        return self._records.setdefault(role, RestartRecord())

    def add_progress(self, role: str) -> None:
        """Forget the deaths of a role, since it has made progress."""
        self.record(role).deaths = 0

    def add_death(self, role: str) -> float | None:
        """Count a death; return the seconds until the restart, None if it is given up."""
        record = self.record(role)
        record.deaths += 1
        record.attempt += 1
        if record.deaths > self._limit:
            return None
        return float(min(FIRST_DELAY * 2.0 ** (record.deaths - 1), LONGEST_DELAY))


class CheckTimer:
    """Measures the seconds between checks; a pause of main itself counts as one second."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or (lambda: time.monotonic())
        self._last = self._clock()

    def elapsed(self) -> float:
        """Return the seconds since the last call, at most `LONGEST_INTERVAL`."""
        now = self._clock()
        elapsed, self._last = now - self._last, now
        return min(max(elapsed, 0.0), LONGEST_INTERVAL)


@dataclass
class _Beats:
    count: int
    silent: float = 0.0
    longest: float = 0.0


class SilencePolicy:
    """Decides which processes hang: those that give no sign of life for too long.

    Processes give signs of life both while working and while waiting. How long a process
    can be silent depends on its longest silence so far.
    """

    def __init__(
        self, least_seconds: float, clock: Callable[[], float] | None = None
    ) -> None:
        self._least, self._timer = least_seconds, CheckTimer(clock)
        self._roles: dict[str, _Beats] = {}

    def check(self, beats: Mapping[str, int]) -> dict[str, float]:
        """Return the roles that have been silent for too long, and for how many seconds.

        Args:
            beats: role to its number of signs of life.
        """
        elapsed = self._timer.elapsed()
        for role, count in beats.items():
            self._update(role, count, elapsed)
        return {role: self._roles[role].silent for role in beats if self._hangs(role)}

    def _update(self, role: str, count: int, elapsed: float) -> None:
        beats = self._roles.setdefault(role, _Beats(count))
        beats.silent += elapsed
        if count != beats.count:
            beats.longest = max(beats.longest, beats.silent)
            beats.count, beats.silent = count, 0.0

    def _hangs(self, role: str) -> bool:
        beats = self._roles[role]
        return beats.silent > max(self._least, TIMES_LONGEST * beats.longest)

    def forget(self, role: str) -> None:
        """Forget the past of a role whose process is replaced."""
        self._roles.pop(role, None)


@dataclass
class _Progress:
    value: int
    seconds: float = 0.0
    is_reported: bool = False


@dataclass(frozen=True)
class Stall:
    """A process that makes no progress."""

    role: str
    seconds: float
    slowest: float
    """Seconds of the slowest round so far."""

    def __str__(self) -> str:
        return (
            f"the {self.role} has finished no round for {self.seconds:.0f} s (the slowest "
            f"so far took {self.slowest:.1f} s): it may hang."
        )


class StallPolicy:
    """Decides which processes to warn about: those that finish no round for too long.

    When a process waits for another, neither makes progress, so only those that are
    furthest behind are reported.
    """

    def __init__(
        self,
        least_seconds: float = STALL_SECONDS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._least, self._timer = least_seconds, CheckTimer(clock)
        self._roles: dict[str, _Progress] = {}
        self._slowest = 0.0

    def check(self, progress: Mapping[str, int]) -> list[Stall]:
        """Return the stalls to report; each is reported once.

        Args:
            progress: role to a number that grows by one per round.
        """
        elapsed = self._timer.elapsed()
        for role, value in progress.items():
            self._update(role, value, elapsed)
        furthest_behind = min(progress.values(), default=0)
        stalled = [role for role in progress if self._is_due(role, furthest_behind)]
        for role in stalled:
            self._roles[role].is_reported = True
        return [Stall(role, self._roles[role].seconds, self._slowest) for role in stalled]

    def _update(self, role: str, value: int, elapsed: float) -> None:
        progress = self._roles.setdefault(role, _Progress(value))
        progress.seconds += elapsed
        if value > progress.value:
            self._slowest = max(self._slowest, progress.seconds)
            self._roles[role] = _Progress(value)

    def _is_due(self, role: str, furthest_behind: int) -> bool:
        progress = self._roles[role]
        limit = max(self._least, TIMES_SLOWEST * self._slowest)
        is_last = progress.value == furthest_behind
        return is_last and progress.seconds > limit and not progress.is_reported
