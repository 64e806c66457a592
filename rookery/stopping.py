"""Asking a run to stop: a flag that is looked at where stopping is safe.

An exception raised by a signal could land anywhere, also in the middle of a library that
then never finishes. So the first signal only sets a flag; the second leaves at once.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what schedulers send."""


class Stopped(Exception):
    """A run was asked to stop, and does so before its next turn."""


class StopFlag:
    """Whether a run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def check(self) -> None:
        """Raise `Stopped` if it is time to."""
        if self.signal is not None:
            raise Stopped

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let signals set the flag; a second one interrupts at once."""
        before = {number: signal.signal(number, self._ask) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
