"""Time as main looks at its processes: a pause of main itself counts for little."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_LOOK = 1.0
"""From one look to the next no more is counted: main may have been busy, or paused."""


class Looks:
    """Counts seconds from look to look."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or (lambda: time.monotonic())
        self._last = self._clock()

    def passed(self) -> float:
        """Return the seconds since the last look that count."""
        now = self._clock()
        since, self._last = now - self._last, now
        return min(max(since, 0.0), LONGEST_LOOK)
