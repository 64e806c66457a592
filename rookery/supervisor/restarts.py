"""When a process that died is started again: pure rules, no processes.

Each restart waits twice as long as the one before, up to a limit of deaths. A process that
has got somewhere since its last death starts with a clean slate.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WAIT = 0.1
LONGEST_WAIT = 10.0


@dataclass
class Record:
    """What is known of one role."""

    deaths: int = 0
    """In a row, without progress in between."""
    attempt: int = 1


class Restarts:
    """Keeps the records of all roles."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._records: dict[str, Record] = {}

    def record(self, role: str) -> Record:
        """Return what is known of a role."""
        return self._records.setdefault(role, Record())

    def progressed(self, role: str) -> None:
        """Forget the deaths of a role that has got somewhere."""
        self.record(role).deaths = 0

    def died(self, role: str) -> float | None:
        """Return how many seconds to wait before the next start; None: no more."""
        one = self.record(role)
        one.deaths += 1
        one.attempt += 1
        if one.deaths > self._limit:
            return None
        return float(min(FIRST_WAIT * 2.0 ** (one.deaths - 1), LONGEST_WAIT))
