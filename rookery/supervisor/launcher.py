"""Starting one process: plain data and descriptors go in, nothing else."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
}
WAIT_SECONDS = 5.0
OPENING = '{"kind"'
"""How a report of trouble begins."""


class Child:
    """A process that was started, and how to know that it is gone."""

    def __init__(self, role: str, process: subprocess.Popen[bytes], trouble: int) -> None:
        self.role, self.process, self._trouble = role, process, trouble
        self.pid = process.pid
        self.reason = ""
        """Why it was killed, if main did that."""
        self._pidfd = os.pidfd_open(process.pid)

    @property
    def is_dead(self) -> bool:
        """Whether it has ended, in whatever way."""
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return bool(ended.poll(0))

    def kill(self) -> None:
        """End it now, and wait for it; not for ever, since the system may hold it."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(WAIT_SECONDS)

    def dump_stacks(self, seconds: float = 1.0) -> str:
        """Return where it is in its code, if it still answers."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGUSR1)
        until = time.monotonic() + seconds
        while not (said := self._said()) and time.monotonic() < until:
            time.sleep(0.01)
        return said

    def _said(self) -> str:
        # Without moving its place in the file, which is where the child writes.
        size = os.fstat(self._trouble).st_size
        return os.pread(self._trouble, size, 0).decode(errors="replace")

    def code(self) -> int:
        """Return how it ended: its exit code, or minus the signal."""
        return self.process.wait(WAIT_SECONDS)

    def trouble(self) -> dict[str, Any]:
        """Return what it said went wrong; where it could not, that is said."""
        text = self._said()
        try:  # stacks may have been dumped before it
            found: dict[str, Any] = json.loads(text[max(0, text.find(OPENING)) :])
        except json.JSONDecodeError:
            line = self.reason or f"it {ending(self.code())}"
            return {"kind": "death", "line": line, "traceback": text}
        return found

    def close(self) -> None:
        """Let go of its descriptors."""
        os.close(self._pidfd)
        os.close(self._trouble)


def start(
    role: str, process_spec: Mapping[str, Any], memory: Mapping[str, Mapping[str, Any]]
) -> Child:
    """Start the process of a role; it gets the descriptors of its memory.

    Raises:
        OSError: if the system gives no process.
    """
    kind = role.split()[0]
    told = {"kind": kind, "brief": process_spec, "memory": memory, "path": sys.path}
    shared = [one["descriptor"] for one in memory.values()]
    with ExitStack() as left, ExitStack() as given:
        inside = _memory_file(json.dumps(told).encode())
        given.callback(os.close, inside)
        trouble = _memory_file(b"")
        left.callback(os.close, trouble)
        process = _popen(inside, trouble, shared)
        left.callback(process.wait)
        left.callback(process.kill)
        child = Child(role, process, trouble)
        left.pop_all()  # it is the child's from here on
    return child


def _popen(inside: int, trouble: int, shared: Sequence[int]) -> subprocess.Popen[bytes]:
    words = [str(os.getpid()), str(inside), str(trouble)]
    # Main's standard output is for main alone. If it was started without standard error,
    # descriptor 2 may be any file of the user's.
    said = subprocess.DEVNULL if sys.__stderr__ is None else 2
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "rookery.supervisor.child", *words],
        pass_fds=[inside, trouble, *shared],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        env=os.environ | ONE_THREAD | {"PYTHONPATH": _python_path()},
    )


def _python_path() -> str:
    """Return where this package lies, for a child that starts from nothing."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([here, before] if before else [here])


def _memory_file(data: bytes) -> int:
    """Return a descriptor of some bytes in memory."""
    descriptor = os.memfd_create("rookery", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    return descriptor


def ending(code: int) -> str:
    """Return in words how a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"
