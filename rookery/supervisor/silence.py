"""Noticing who hangs: pure rules, no processes.

Whoever works or waits gives signs of life all the time. Main counts silence in its own
looks, so that a machine that was paused kills nobody; and how long somebody may be silent
grows with how long it has been before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rookery.supervisor.looks import Looks

TIMES_LONGEST = 10.0
"""How many times the longest silence so far is still no reason to worry."""


@dataclass
class _Heard:
    beat: int
    silent: float = 0.0
    longest: float = 0.0


class Silence:
    """Times how long everybody has given no sign of life."""

    def __init__(
        self, least_seconds: float, clock: Callable[[], float] | None = None
    ) -> None:
        self._least, self._looks = least_seconds, Looks(clock)
        self._heard: dict[str, _Heard] = {}

    def look(self, beats: Mapping[str, int]) -> dict[str, float]:
        """Return who has been silent for too long, and for how many seconds.

        Args:
            beats: role to its count of signs of life.
        """
        passed = self._looks.passed()
        for role, beat in beats.items():
            self._take_in(role, beat, passed)
        return {role: self._heard[role].silent for role in beats if self._is_silent(role)}

    def _take_in(self, role: str, beat: int, passed: float) -> None:
        one = self._heard.setdefault(role, _Heard(beat))
        one.silent += passed
        if beat != one.beat:
            one.longest = max(one.longest, one.silent)
            one.beat, one.silent = beat, 0.0

    def _is_silent(self, role: str) -> bool:
        one = self._heard[role]
        return one.silent > max(self._least, TIMES_LONGEST * one.longest)

    def forget(self, role: str) -> None:
        """Begin anew with somebody who was replaced."""
        self._heard.pop(role, None)
