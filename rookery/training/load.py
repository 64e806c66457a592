"""How busy the machine is, as the run's own processes notice it.

Linux counts for every process how long it ran, and how long it waited for a core although
it could have run. From the two follows how many other busy processes share the cores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FULL_SPEED = 0.95
"""Above this, processes only wait for each other to leave a core now and then."""


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds that processes ran, and that they waited for a core."""

    ran: float = 0.0
    waited: float = 0.0

    def __add__(self, other: ProcessorTime) -> ProcessorTime:
        return ProcessorTime(self.ran + other.ran, self.waited + other.waited)

    @property
    def speed(self) -> float:
        """The part of the time in which they could have run that they did run."""
        return self.ran / (self.ran + self.waited) if self.ran else 1.0

    def neighbours(self, seconds: float, cores: int) -> float:
        """Estimate how many other busy processes share the cores.

        Busy processes get equal parts of the cores, so the speed of one says how many there
        are. As long as there are enough cores for all, others go unnoticed.

        Args:
            seconds: how long the processes were observed.
            cores: how many there are.
        """
        if self.speed > FULL_SPEED:
            return 0.0
        busy = (self.ran + self.waited) / seconds
        return max(0.0, cores / self.speed - busy)


class ProcessorClock:
    """Measures the processor time of processes from one call to the next."""

    def __init__(self) -> None:
        self._last: dict[int, ProcessorTime] = {}

    def lap(self, pids: Iterable[int]) -> ProcessorTime:
        """Return the time since the last call, of the processes that existed all along."""
        times = {pid: time for pid in pids if (time := _processor_time(pid)) is not None}
        lap = ProcessorTime()
        for pid in times.keys() & self._last.keys():
            now, before = times[pid], self._last[pid]
            lap += ProcessorTime(now.ran - before.ran, now.waited - before.waited)
        self._last = times
        return lap


def _processor_time(pid: int) -> ProcessorTime | None:
    """Return a process's time so far; None if it has ended, or if it is not counted."""
    try:
        ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return ProcessorTime(int(ran) / 1e9, int(waited) / 1e9)
    except (OSError, ValueError):
        return None
