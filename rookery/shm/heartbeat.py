"""Heartbeats: a process's signs of life, and how it spends its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rookery.shm.counters import Counters, beat_of, time_of
from rookery.stop import StopFlag

KINDS = ("work", "wait", "protocol")
"""What a process spends time on."""


class Heartbeat:
    """What the supervisor knows of a working process: signs of life, and times by kind.

    The one rule: the work loop itself beats, and no thread does it for the loop, so that a
    loop that hangs falls silent. Without counters, times are kept in this process only.
    """

    def __init__(
        self, counters: Counters | None = None, role: str = "", stop: StopFlag | None = None
    ) -> None:
        self._counters, self._role, self._stop = counters, role, stop or StopFlag()
        self._beats = 0
        self.nanoseconds = dict.fromkeys(KINDS, 0)

    def beat(self) -> None:
        """Give a sign of life.

        Raises:
            Stopped: if the run was asked to stop.
        """
        self._stop.check()
        self._beats += 1
        if self._counters is not None:
            self._counters.note(beat_of(self._role), self._beats)

    @contextmanager
    def spending(self, kind: str) -> Iterator[None]:
        """Add the time that the body takes."""
        started = time.perf_counter_ns()
        try:
            yield
        finally:
            self.spend(kind, time.perf_counter_ns() - started)

    def spend(self, kind: str, nanoseconds: int) -> None:
        """Add a time."""
        self.nanoseconds[kind] += nanoseconds
        if self._counters is not None:
            self._counters.note(time_of(self._role, kind), self.nanoseconds[kind])
