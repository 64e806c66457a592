"""Kill the main process of a run in a chosen phase, and look for what is left of the run.

Processes are found in /proc instead of in the run's own records: descendants of main, and
processes that name main or the run folder on their command line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import PROC, find_children

ENTRY = "rookery.supervisor.child"
PATIENCE = 100.0
"""Seconds after which a phase counts as never reached."""


def is_alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def descendants(pid: int) -> set[int]:
    """Return the children of a process, their children, and so on."""
    children = {child.pid for child in find_children(pid)}
    return children.union(*map(descendants, children))


def processes_naming(main: int, folder: Path) -> set[int]:
    """Return the processes whose command line names main or the run folder."""
    pids = set()
    for name in filter(str.isdigit, os.listdir(PROC)):
        try:
            command = (PROC / name / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        arguments = command.decode(errors="replace").split("\0")
        after = arguments[arguments.index(ENTRY) + 1 :] if ENTRY in arguments else []
        if after[:1] == [str(main)] or str(folder) in arguments:
            pids.add(int(name))
    return pids


@dataclass
class Death:
    """A kill of main, and what was left of the run."""

    phase: str
    others: int
    """Other processes of the run that were alive when main was killed."""
    main_seconds: float
    """Until main was gone; the kernel holds a process that waits for the disk."""
    seconds: float
    """From then on until all others were gone."""
    left: list[int]
    """Processes still alive after a second."""
    shared: list[str]
    """Names in /dev/shm that appeared or disappeared."""


class Victim:
    """A run whose main process is killed repeatedly."""

    def __init__(self, folder: Path, training: list[str]) -> None:
        self.folder, self._training = folder, training
        self._stderr = folder.with_suffix(".stderr")
        self._main: subprocess.Popen[bytes] | None = None
        self._began = 0

    def start(self) -> None:
        """Start the run, or resume it."""
        arguments = ["resume", str(self.folder)] if self.can_resume else self._training
        self._began = len(self.lines("metrics.jsonl"))
        with self._stderr.open("w") as stderr:
            self._main = subprocess.Popen(
                [sys.executable, "-m", "rookery", *arguments],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The process id of main."""
        assert self._main is not None
        return self._main.pid

    @property
    def can_resume(self) -> bool:
        """Whether the run exists; it can be resumed from its first second."""
        return (self.folder / "config.toml").exists()

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the complete lines of a log of the run."""
        path = self.folder / name
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    @property
    def rounds(self) -> list[int]:
        """The rounds in the log."""
        return [line["round"] for line in self.lines("metrics.jsonl")]

    def wait_until(self, condition: Callable[[], Any]) -> None:
        """Wait until a condition is true while main is running."""
        assert self._main is not None
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self._main.poll() is None, f"it ended: {self._stderr.read_text()}"
            assert time.monotonic() < deadline, f"it did not happen within {PATIENCE} s"
            time.sleep(0.002)

    def kill(self, phase: str, group: bool = False) -> Death:
        """Kill main now; return what is left of the run after at most a second."""
        assert self._main is not None
        shared = set(os.listdir("/dev/shm"))
        others = descendants(self.pid)
        began = time.monotonic()
        (os.killpg if group else os.kill)(self.pid, signal.SIGKILL)
        self._main.wait()
        gone = time.monotonic()
        while left := [pid for pid in self._all(others) if is_alive(pid)]:
            if time.monotonic() - gone > 1.0:
                break
        seconds = time.monotonic() - gone
        changed = shared.symmetric_difference(os.listdir("/dev/shm"))
        return Death(phase, len(others), gone - began, seconds, left, sorted(changed))

    def _all(self, others: set[int]) -> set[int]:
        """Return the processes of the run, including those that have just started."""
        return others | processes_naming(self.pid, self.folder)

    def finish(self) -> None:
        """Run to the end."""
        self.start()
        assert self._main is not None
        assert self._main.wait() == 0, self._stderr.read_text()

    def close(self) -> None:
        """Kill main if it is still running."""
        if self._main is not None and self._main.poll() is None:
            self._main.kill()
            self._main.wait()

    # Phases.

    def await_start(self) -> None:
        """Main runs our code, and the run does not exist yet."""
        self.wait_until(lambda: str(self.folder) in self._arguments())

    def _arguments(self) -> list[str]:
        return (PROC / str(self.pid) / "cmdline").read_bytes().decode().split("\0")

    def await_children(self) -> None:
        """The first child has been started; others follow."""
        self.wait_until(lambda: find_children(self.pid))

    def await_rounds(self, count: int) -> None:
        """This many rounds have been logged since main was started."""
        path = self.folder / "metrics.jsonl"
        self.wait_until(
            lambda: path.exists() and path.read_bytes().count(b"\n") >= self._began + count
        )

    def await_saving(self) -> None:
        """A checkpoint is being written."""
        checkpoints = self.folder / "checkpoints"
        before = {path.name for path in checkpoints.glob("partial-*")}
        self.wait_until(
            lambda: any(p.name not in before for p in checkpoints.glob("partial-*"))
        )

    def await_evaluation(self, every: int) -> None:
        """A boundary with an evaluation has been passed, and it is not in the log yet."""

        def is_due() -> bool:
            last = self.rounds[-1] if self.rounds else 0
            logged = {line["round"] for line in self.lines("evaluations.jsonl")}
            return last > 0 and last % every == 0 and last not in logged

        self.await_rounds(1)
        self.wait_until(is_due)
