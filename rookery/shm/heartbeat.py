"""What a process says of itself while it works: signs of life, and where its time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rookery.shm.counters import Counters
from rookery.stop import StopFlag

KINDS = ("work", "wait", "protocol")


class Heartbeat:
    """The status words of one process; without words it only counts."""

    def __init__(
        self, counters: Counters | None = None, role: str = "", stop: StopFlag | None = None
    ) -> None:
        self._counters, self._role, self._stop = counters, role, stop or StopFlag()
        self._beats = 0
        self.nanoseconds = dict.fromkeys(KINDS, 0)

    def beat(self) -> None:
        """Give a sign of life; the work loop does so itself, and no thread for it.

        Raises:
            Stopped: if the run was asked to stop.
        """
        self._stop.check()
        self._beats += 1
        if self._counters is not None:
            self._counters.note(f"{self._role} beat", self._beats)

    @contextmanager
    def spending(self, kind: str) -> Iterator[None]:
        """Count the time of what is inside."""
        started = time.perf_counter_ns()
        try:
            yield
        finally:
            self.spend(kind, time.perf_counter_ns() - started)

    def spend(self, kind: str, nanoseconds: int) -> None:
        """Count some time."""
        self.nanoseconds[kind] += nanoseconds
        if self._counters is not None:
            self._counters.note(f"{self._role} {kind}", self.nanoseconds[kind])
