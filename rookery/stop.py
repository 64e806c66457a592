"""Asking a run to stop: a flag that is looked at where stopping is safe.

An exception raised by a signal could land anywhere, also in the middle of a library that
then never finishes. So the first signal only sets a flag; the second leaves at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what schedulers send."""
STOPPING = "stopping: saving the last complete round; press Ctrl-C again to leave at once"


class Stopped(BaseException):
    """A run was asked to stop, and does so at the next turn or update.

    Like KeyboardInterrupt, it is no Exception: it passes through users' code.
    """


LEAVING = (Stopped, KeyboardInterrupt)
"""Raised because somebody wants to leave, and not because of a mistake in any code."""


class StopFlag:
    """Whether a run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def check(self) -> None:
        """Raise `Stopped` if it is time to."""
        if self.signal is not None:
            raise Stopped

    def listening(self) -> AbstractContextManager[None]:
        """Let signals set the flag; a second one interrupts at once."""
        return self._handling(self._ask)

    def leaving(self) -> AbstractContextManager[None]:
        """Let signals raise `Stopped` at once, as long as there is nothing to save."""
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
        # Not print: the signal may have come in the middle of one.
        start = "\n" if os.isatty(2) else ""
        with suppress(OSError):
            os.write(2, f"{start}{STOPPING}\n".encode())
