"""Noticing who has stopped getting on: pure rules, no processes.

Everybody has a word that grows by one per round. Where one process waits for another, both
stand still, so only those who are furthest behind are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rookery.supervisor.looks import Looks

LEAST_SECONDS = 30.0
TIMES_SLOWEST = 10.0
"""How many of the slowest rounds so far may pass without one."""


@dataclass
class _Standing:
    value: int
    seconds: float = 0.0
    is_told: bool = False


@dataclass(frozen=True)
class Stall:
    """Somebody who has not got on."""

    role: str
    seconds: float
    slowest: float
    """Seconds of the slowest round so far."""

    def __str__(self) -> str:
        return (
            f"the {self.role} has finished no round for {self.seconds:.0f} s (the slowest "
            f"so far took {self.slowest:.1f} s): it may hang."
        )


class Stalls:
    """Times how long everybody has stood still."""

    def __init__(
        self,
        least_seconds: float = LEAST_SECONDS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._least, self._looks = least_seconds, Looks(clock)
        self._roles: dict[str, _Standing] = {}
        self._slowest = 0.0

    def look(self, reached: Mapping[str, int]) -> list[Stall]:
        """Return who has stood still for too long, each once until it gets on.

        Args:
            reached: role to its word that grows by one per round.
        """
        passed = self._looks.passed()
        for role, value in reached.items():
            self._take_in(role, value, passed)
        behind = min(reached.values(), default=0)
        return [self._tell(role) for role in reached if self._is_due(role, behind)]

    def _take_in(self, role: str, value: int, passed: float) -> None:
        one = self._roles.setdefault(role, _Standing(value))
        one.seconds += passed
        if value > one.value:
            self._slowest = max(self._slowest, one.seconds)
            self._roles[role] = _Standing(value)

    def _is_due(self, role: str, behind: int) -> bool:
        one = self._roles[role]
        limit = max(self._least, TIMES_SLOWEST * self._slowest)
        return one.value == behind and one.seconds > limit and not one.is_told

    def _tell(self, role: str) -> Stall:
        one = self._roles[role]
        one.is_told = True
        return Stall(role, one.seconds, self._slowest)
