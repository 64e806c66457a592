"""Standard streams: nothing else gets their descriptors, and printing never fails.

With standard output or error closed, the next file that is opened gets descriptor 1 or 2,
and what a game or a library prints is written into it: a lock, or memory that processes
share. So closed ones are opened on /dev/null before a run opens anything. And what cannot
be printed, on a full disk or to a reader that has left, is dropped: no line is worth a
run.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

NAMES = ("stdout", "stderr")
KEPT = ("encoding", "line_buffering", "write_through")
"""What a stream of ours has from the one it stands in for."""
_inside: list[None] = []
"""One entry per caller inside `guarded`: trainings may run in several threads."""


@contextmanager
def guarded() -> Iterator[None]:
    """Keep all standard descriptors open, and printing from failing.

    A stream that somebody put in place of Python's own, as notebooks do, is left alone.
    """
    open_closed()
    _inside.append(None)
    for name in NAMES:
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _forgiving(stream))
    try:
        yield
    finally:
        _inside.pop()
        for name in NAMES:
            stream = getattr(sys, name)
            if _outlet(stream) is not None:
                stream.flush()
                if not _inside:
                    setattr(sys, name, getattr(sys, f"__{name}__"))


def open_closed() -> None:
    """Open /dev/null in place of every standard descriptor that is closed."""
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(lowest, True)
    os.close(lowest)


def take_lost() -> str:
    """Return why standard output lost something since this was last asked; '' if nothing.

    A reader that left did so on purpose, and does not count.
    """
    outlet = _outlet(sys.stdout)
    if outlet is None:
        return ""
    sys.stdout.flush()
    reason, outlet.lost = outlet.lost, ""
    return reason


class _Outlet(io.RawIOBase):
    """Writes to a descriptor, or nowhere; drops what cannot be written."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self.lost = ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return super().fileno() if self._descriptor is None else self._descriptor

    def isatty(self) -> bool:
        return self._descriptor is not None and os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        if self._descriptor is None:
            return len(data)
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except BrokenPipeError:
                _point_at_null(self._descriptor)
                return len(data)
            except OSError as error:
                self.lost = error.strerror or str(error)
                return len(data)


def _point_at_null(descriptor: int) -> None:
    """Let a descriptor lead nowhere, so that no library's writes to it fail either."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor)
        os.close(null)


def _forgiving(stream: TextIO | None) -> TextIO:
    """Return a stream to the same place that never fails; nowhere if there is none.

    Characters that its encoding lacks are escaped.
    """
    outlet, options = _Outlet(None), dict[str, Any](encoding="utf-8")
    if stream is not None and not stream.closed:
        with suppress(OSError):
            stream.flush()
        outlet = _Outlet(stream.fileno())
        options = {name: getattr(stream, name) for name in KEPT}
    return io.TextIOWrapper(io.BufferedWriter(outlet), errors="backslashreplace", **options)


def _outlet(stream: Any) -> _Outlet | None:
    """Return what is below a stream of ours; None for others."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Outlet) else None
