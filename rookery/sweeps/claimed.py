"""Changing the plan of a sweep: by one process at a time, on any machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rookery.runs.claim import Claim, InUse
from rookery.stop import StopFlag, Stopped

WAIT_SECONDS = 0.05


@contextmanager
def claimed(folder: Path, stop: StopFlag) -> Iterator[Claim]:
    """Wait until no other process holds a sweep, and hold it within this context.

    Raises:
        Stopped: if asked to stop while waiting.
    """
    while True:
        try:
            claim = Claim(folder)
            break
        except InUse:  # for a moment, or by a process elsewhere that is gone
            if stop.is_set:
                raise Stopped from None
            time.sleep(WAIT_SECONDS)
    with closing(claim):
        yield claim
