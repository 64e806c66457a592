"""Asking a run to stop: signals set a flag that is checked where stopping is safe.

An exception raised by a signal handler could interrupt any line, even one inside a library
that cannot recover from it. So the first signal only sets a flag; the second leaves at
once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what job schedulers send."""
STOPPING = "stopping: saving the last complete round; press Ctrl-C again to leave at once"


class Stopped(BaseException):
    """A run was asked to stop; raised at the next turn or update.

    Like KeyboardInterrupt, it is not an Exception, so that users' code does not catch it.
    """


LEAVING = (Stopped, KeyboardInterrupt)
"""Raised because the user wants to leave, not because of an error in any code."""


class StopFlag:
    """Whether a run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def check(self) -> None:
        """Raise `Stopped` if the run was asked to stop."""
        if self.signal is not None:
            raise Stopped

    def listening(self) -> AbstractContextManager[None]:
        """Within this context the first signal sets the flag, and the second interrupts."""
        return self._handling(self._ask)

    def leaving(self) -> AbstractContextManager[None]:
        """Within this context signals raise `Stopped` at once; for when nothing is lost."""
        return self._handling(self._leave)

    @contextmanager
    def _handling(self, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
        before = {number: signal.signal(number, handler) for number in SIGNALS}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        raise Stopped

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        # os.write instead of print, which the signal may have interrupted.
        start = "\n" if os.isatty(2) else ""
        with suppress(OSError):
            os.write(2, f"{start}{STOPPING}\n".encode())
