"""How busy the machine is with other programs.

Linux counts for every process how long it ran, and how long it waited for a core although
it could have run. From the two follows how many other busy processes share the cores. As
long as no process has to wait, it follows from how long the cores were busy altogether.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from rookery.shm.limits import cgroup_cores

FULL_SPEED = 0.95
"""Above this, processes only wait for each other to leave a core now and then."""
ASK_SECONDS = 0.2
"""How often is read how long the cores were busy."""


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds that processes ran, that they waited for a core, and that others ran."""

    ran: float = 0.0
    waited: float = 0.0
    others: float = 0.0
    """Of all other processes together, on the cores that these can use."""

    def __add__(self, other: ProcessorTime) -> ProcessorTime:
        return ProcessorTime(
            self.ran + other.ran, self.waited + other.waited, self.others + other.others
        )

    @property
    def speed(self) -> float:
        """The part of the time in which they could have run that they did run."""
        return self.ran / (self.ran + self.waited) if self.ran else 1.0

    def neighbours(self, seconds: float, cores: int) -> float:
        """Estimate how many other busy processes share the cores.

        Busy processes get equal parts of the cores, so the speed of one says how many there
        are. If there are enough cores for all, it is how much the others ran.

        Args:
            seconds: how long the processes were observed.
            cores: how many there are.
        """
        running = max(0.0, self.others / seconds)
        if self.speed > FULL_SPEED:
            return running
        busy = (self.ran + self.waited) / seconds
        return max(running, cores / self.speed - busy)


class ProcessorClock:
    """Measures the processor time of processes from one call to the next."""

    def __init__(self) -> None:
        self._last: dict[int, ProcessorTime] = {}
        self._cores = _cores_in_common()
        self._asked_at = self._busy = self._ran = 0.0
        """When the cores' time was last read, what it was, and how long we ran since."""

    def lap(self, pids: Iterable[int]) -> ProcessorTime:
        """Return the time since the last call, of the processes that existed all along."""
        times = {pid: time for pid in pids if (time := _processor_time(pid)) is not None}
        lap = ProcessorTime()
        for pid in times.keys() & self._last.keys():
            now, before = times[pid], self._last[pid]
            lap += ProcessorTime(now.ran - before.ran, now.waited - before.waited)
        is_new, self._last = times.keys() != self._last.keys(), times
        return replace(lap, others=self._others(lap.ran, is_new))

    def _others(self, ran: float, is_new: bool) -> float:
        """Return how long others ran since that was found out last; mostly 0.

        The system counts the time of cores in whole ticks, and reading it takes time.

        Args:
            ran: how long our processes have run since the last call.
            is_new: whether they are other processes than then.
        """
        now = time.monotonic()
        self._ran += ran
        if not is_new and now - self._asked_at < ASK_SECONDS:
            return 0.0
        busy = _busy_seconds(self._cores)
        others = 0.0 if is_new else busy - self._busy - self._ran
        self._asked_at, self._busy, self._ran = now, busy, 0.0
        return others


def _cores_in_common() -> set[int]:
    """Return the cores that this process shares with others.

    There are none if a container limits the time rather than the cores.
    """
    allowed, limit = os.sched_getaffinity(0), cgroup_cores()
    return set() if limit is not None and limit < len(allowed) else allowed


def _busy_seconds(cores: set[int]) -> float:
    """Return how long cores have been busy so far.

    Without processes of low priority, which make room for others.
    """
    times = enumerate(psutil.cpu_times(percpu=True) if cores else ())
    busy = (x.user + x.system + x.irq + x.softirq for i, x in times if i in cores)
    return float(sum(busy))


def _processor_time(pid: int) -> ProcessorTime | None:
    """Return a process's time so far; None if it has ended, or if it is not counted."""
    try:
        ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return ProcessorTime(int(ran) / 1e9, int(waited) / 1e9)
    except (OSError, ValueError):
        return None
