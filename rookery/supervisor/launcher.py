"""Starting a process: it gets plain data and descriptors, and nothing else."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from rookery.stop import SIGNALS
from rookery.supervisor.child import DUMP_STACKS

ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
}
WAIT_SECONDS = 5.0
REPORT_START = '{"kind"'
"""How the report of an error begins."""
EntryPoint = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
"""A function of a module, called in the new process with its spec and its memory."""


class Child:
    """A process that was started."""

    def __init__(
        self, role: str, process: subprocess.Popen[bytes], error_file: int
    ) -> None:
        self.role, self.process, self._error_file = role, process, error_file
        self.pid = process.pid
        self.reason = ""
        """Why main killed it, if it did."""
        self._pidfd = os.pidfd_open(process.pid)

    @property
    def is_dead(self) -> bool:
        """Whether it has ended, for whatever reason."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def kill(self) -> None:
        """Kill it and wait until it is gone, but not forever: the system may block it."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(WAIT_SECONDS)

    def dump_stacks(self, seconds: float = 1.0) -> str:
        """Return the stacks of its threads, if it still responds."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, DUMP_STACKS)
        until = time.monotonic() + seconds
        while not (text := self._written()) and time.monotonic() < until:
            time.sleep(0.01)
        return text

    def _written(self) -> str:
        # With pread, since the child writes at the position that a read would move.
        size = os.fstat(self._error_file).st_size
        return os.pread(self._error_file, size, 0).decode(errors="replace")

    def code(self) -> int:
        """Return its exit code, or minus the signal that killed it."""
        return self.process.wait(WAIT_SECONDS)

    def error(self) -> dict[str, Any]:
        """Return the error that it reported; if it reported none, how it ended."""
        text = self._written()
        try:  # dumped stacks can precede it
            report: dict[str, Any] = json.loads(text[max(0, text.find(REPORT_START)) :])
        except json.JSONDecodeError:
            line = self.reason or f"it {ending(self.code())}"
            return {"kind": "death", "line": line, "traceback": text}
        return report

    def close(self) -> None:
        """Close its descriptors."""
        os.close(self._pidfd)
        os.close(self._error_file)


def start(
    role: str,
    entry_point: EntryPoint,
    spec: Mapping[str, Any],
    memory: Mapping[str, Mapping[str, Any]],
) -> Child:
    """Start a process that calls a function.

    Args:
        role: of the process.
        entry_point: the function, which the process imports by name.
        spec: plain data for it.
        memory: blocks for it, by name; the process gets their descriptors.

    Raises:
        OSError: if the system refuses another process.
    """
    task = {
        "module": entry_point.__module__,
        "function": entry_point.__name__,
        "spec": spec,
        "memory": memory,
        "path": sys.path,
    }
    shared = [block["descriptor"] for block in memory.values()]
    with ExitStack() as on_failure, ExitStack() as always:
        task_file = _memory_file(json.dumps(task).encode())
        always.callback(os.close, task_file)
        error_file = _memory_file(b"")
        on_failure.callback(os.close, error_file)
        process = _popen(task_file, error_file, shared)
        on_failure.callback(process.wait)
        on_failure.callback(process.kill)
        child = Child(role, process, error_file)
        on_failure.pop_all()  # from here on, they belong to the child
    return child


def _popen(
    task_file: int, error_file: int, shared: Sequence[int]
) -> subprocess.Popen[bytes]:
    arguments = [str(os.getpid()), str(task_file), str(error_file)]
    # Standard output is reserved for main. If main was started without standard error,
    # descriptor 2 may be any file of the user's.
    output = subprocess.DEVNULL if sys.__stderr__ is None else 2
    # Blocked in the child until it ignores them: a scheduler may signal all processes.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [*SIGNALS, DUMP_STACKS])
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "rookery.supervisor.child", *arguments],
            pass_fds=[task_file, error_file, *shared],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": python_path()},
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def python_path() -> str:
    """Return a PYTHONPATH with which the child finds this package."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([folder, before] if before else [folder])


def _memory_file(data: bytes) -> int:
    """Return the descriptor of an anonymous file with some bytes."""
    descriptor = os.memfd_create("rookery", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    return descriptor


def ending(code: int) -> str:
    """Return how a process ended, as text."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"
