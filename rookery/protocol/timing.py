"""What protocol calls cost, for `rookery bench speedup`: each call is timed.

Measured in CPU time, since a call can be interrupted for long when processes share a core.
Off by default, because timing itself takes time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rookery.replay.rows import Rows
from rookery.shm.counters import Counters
from rookery.shm.heartbeat import Heartbeat
from rookery.shm.reports import Reports
from rookery.shm.versions import VersionedState

CALLS = (
    (Counters, ("store", "load")),
    (Rows, ("seal", "is_whole")),
    (VersionedState, ("publish", "read", "newest")),
    (Reports, ("write",)),
)


def time_protocol(heartbeat: Heartbeat) -> None:
    """Have every protocol call of this process add its CPU time to the heartbeat."""
    inside = [False]
    for owner, names in CALLS:
        for name in names:
            setattr(owner, name, _timed(getattr(owner, name), heartbeat, inside))


def _timed(
    method: Callable[..., Any], heartbeat: Heartbeat, inside: list[bool]
) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if inside[0]:  # already counted by the outer call
            return method(*arguments)
        inside[0] = True
        started = time.thread_time_ns()
        try:
            return method(*arguments)
        finally:
            inside[0] = False
            heartbeat.spend("protocol", time.thread_time_ns() - started)

    return call
