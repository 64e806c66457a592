"""Standard streams: no other file gets their descriptors, and printing never fails.

If standard output or error is closed, the next file to be opened gets descriptor 1 or 2,
and whatever a game or a library prints ends up in it: in a lock file, or in memory that
processes share. So closed descriptors are opened on /dev/null before a run opens anything.
Output that cannot be written, because the disk is full or the reader has left, is dropped:
it must not end a run.
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
"""Properties that a replaced stream passes on to its replacement."""
_inside: list[None] = []
"""One entry per caller inside `guarded`, since runs can train in several threads."""


@contextmanager
def guarded() -> Iterator[None]:
    """Keep all standard descriptors open, and printing from raising.

    Streams that are not Python's own, as in notebooks, are left alone.
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
    """Return why output was lost since the last call; '' if none was.

    A reader that has left did so on purpose, and does not count.
    """
    outlet = _outlet(sys.stdout)
    if outlet is None:
        return ""
    sys.stdout.flush()
    reason, outlet.lost = outlet.lost, ""
    return reason


class _Outlet(io.RawIOBase):
    """Writes to a descriptor, or nowhere; output that cannot be written is dropped."""

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
    """Point a descriptor at /dev/null, so that writes by libraries do not fail either."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor)
        os.close(null)


def _forgiving(stream: TextIO | None) -> TextIO:
    """Return a stream to the same file that never fails; to nowhere if there is none.

    Characters that the encoding does not have are escaped.
    """
    outlet, options = _Outlet(None), dict[str, Any](encoding="utf-8")
    if stream is not None and not stream.closed:
        with suppress(OSError):
            stream.flush()
        outlet = _Outlet(stream.fileno())
        options = {name: getattr(stream, name) for name in KEPT}
    return io.TextIOWrapper(io.BufferedWriter(outlet), errors="backslashreplace", **options)


def _outlet(stream: Any) -> _Outlet | None:
    """Return the outlet of a stream that `_forgiving` made; None for any other."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Outlet) else None
