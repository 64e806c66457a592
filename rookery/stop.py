"""Asking a run to stop: signals and the clock set a flag, checked where stopping is safe.

An exception raised by a signal handler could interrupt any line, even one inside a library
that cannot recover from it. So signals only set a flag; a second Ctrl-C leaves at once.
Schedulers send SIGUSR1 or SIGTERM, often one after the other and to all processes of a job,
and mean: save, and leave.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Ctrl-C, and what job schedulers send."""
STOPPING = "stopping: saving the last complete round"
AGAIN = "press Ctrl-C again to leave at once"
UNFINISHED = 75
"""The exit code of a run that was stopped and saved, and is not finished.

The number is EX_TEMPFAIL of sysexits.h: not an error, but to be tried again.
"""
REGULARLY_SECONDS = 1.0


class Stopped(BaseException):
    """A run was asked to stop; raised at the next turn or update.

    Like KeyboardInterrupt, it is not an Exception, so that users' code does not catch it.
    """


LEAVING = (Stopped, KeyboardInterrupt)
"""Raised because the user wants to leave, not because of an error in any code."""


class StopFlag:
    """Whether a run was asked to stop, by a signal or because its time is over.

    Args:
        until: when it must have left, in seconds since 1970.
    """

    def __init__(self, until: float = math.inf) -> None:
        self.signal: int | None = None
        """The first signal that was received."""
        self.until = until
        self.saving_seconds = 0.0
        """How long saving may take, which has to be done by `until`."""
        self.regularly: Callable[[], None] = lambda: None
        """Called about once a second while a run works."""
        self._regularly_at = 0.0
        self._interrupts = 0

    @property
    def is_set(self) -> bool:
        """Whether the run was asked to stop."""
        return self.signal is not None or time.time() >= self.until - self.saving_seconds

    def check(self) -> None:
        """Raise `Stopped` if the run was asked to stop."""
        if self.signal is not None:
            raise Stopped
        now = time.monotonic()
        if now >= self._regularly_at:
            self._regularly_at = now + REGULARLY_SECONDS
            self.regularly()
            if self.is_set:
                _print(f"its time is over; {STOPPING}")
                raise Stopped

    def listening(self, to_the_end: bool = False) -> AbstractContextManager[None]:
        """Within this context signals set the flag, and a second Ctrl-C interrupts.

        Args:
            to_the_end: whether the process ends after this if the flag is set: then signals
                that come later are ignored, so that they do not change its exit code.
        """
        return self._handling(self._ask, to_the_end)

    def leaving(self) -> AbstractContextManager[None]:
        """Within this context signals raise `Stopped` at once; for when nothing is lost."""
        return self._handling(self._leave, False)

    @contextmanager
    def _handling(
        self, handler: Callable[[int, FrameType | None], None], to_the_end: bool
    ) -> Iterator[None]:
        before = {number: signal.signal(number, handler) for number in SIGNALS}
        try:
            yield
        finally:
            for number, old in before.items():
                is_leaving = to_the_end and self.is_set and number != signal.SIGINT
                # Not our handler, which Python removes some time before the process ends.
                signal.signal(number, signal.SIG_IGN if is_leaving else old)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        raise Stopped

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1:
            raise KeyboardInterrupt
        is_first = self.signal is None
        self.signal = self.signal or number
        if number == signal.SIGINT:
            _print(f"{STOPPING}; {AGAIN}")
        elif is_first:
            _print(STOPPING)


def _print(line: str) -> None:
    """Print a line with os.write: a signal may have interrupted another print."""
    start = "\n" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{start}{line}\n".encode())
