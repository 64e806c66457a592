"""Killing main in chosen moments of a run, and looking for what is left of it.

Processes are found in /proc, and not by what the run says of itself: whoever descends from
main, names it as parent on its command line, or has the run's folder there.
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


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not collected does not."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def descendants(pid: int) -> set[int]:
    """Return the children of a process, and theirs."""
    found = {child.pid for child in find_children(pid)}
    return found.union(*map(descendants, found))


def marked(main: int, folder: Path) -> set[int]:
    """Return the processes whose command line says that they belong to a run."""
    found = set()
    for name in filter(str.isdigit, os.listdir(PROC)):
        try:
            command = (PROC / name / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        words = command.decode(errors="replace").split("\0")
        after = words[words.index(ENTRY) + 1 :] if ENTRY in words else []
        if after[:1] == [str(main)] or str(folder) in words:
            found.add(int(name))
    return found


@dataclass
class Death:
    """How main was killed, and what was left."""

    phase: str
    others: int
    """Processes of the run that lived when it was killed, main left out."""
    main_seconds: float
    """Until main was gone; one that waits for the disk is held by the system."""
    seconds: float
    """From then on until none of them lived."""
    left: list[int]
    """Who still lived after a while."""
    shared: list[str]
    """What there is in /dev/shm that was not there before, or no longer."""


class Victim:
    """A run whose main is killed again and again."""

    def __init__(self, folder: Path, training: list[str]) -> None:
        self.folder, self._training = folder, training
        self._said = folder.with_suffix(".said")
        self._main: subprocess.Popen[bytes] | None = None
        self._began = 0

    def start(self) -> None:
        """Begin the run, or go on with it."""
        words = ["resume", str(self.folder)] if self.can_resume else self._training
        self._began = len(self.lines("metrics.jsonl"))
        with self._said.open("w") as said:
            self._main = subprocess.Popen(
                [sys.executable, "-m", "rookery", *words],
                stdout=subprocess.DEVNULL,
                stderr=said,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """Main's."""
        assert self._main is not None
        return self._main.pid

    @property
    def can_resume(self) -> bool:
        """Whether there is a run: it can be resumed from its first second."""
        return (self.folder / "config.toml").exists()

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the whole lines of a file of the run."""
        path = self.folder / name
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    @property
    def rounds(self) -> list[int]:
        """The rounds that were written down."""
        return [line["round"] for line in self.lines("metrics.jsonl")]

    def wait_until(self, condition: Callable[[], Any]) -> None:
        """Wait for a moment."""
        assert self._main is not None
        until = time.monotonic() + PATIENCE
        while not condition():
            assert self._main.poll() is None, f"it ended: {self._said.read_text()}"
            assert time.monotonic() < until, "what was waited for did not happen"
            time.sleep(0.002)

    def kill(self, phase: str, group: bool = False) -> Death:
        """Kill main now; return what was left of the run within a second."""
        assert self._main is not None
        shared = set(os.listdir("/dev/shm"))
        known = descendants(self.pid)
        began = time.monotonic()
        (os.killpg if group else os.kill)(self.pid, signal.SIGKILL)
        self._main.wait()
        gone = time.monotonic()
        while left := [pid for pid in self._all(known) if alive(pid)]:
            if time.monotonic() - gone > 1.0:
                break
        seconds = time.monotonic() - gone
        changed = shared.symmetric_difference(os.listdir("/dev/shm"))
        return Death(phase, len(known), gone - began, seconds, left, sorted(changed))

    def _all(self, known: set[int]) -> set[int]:
        """Return whoever belongs to the run; some may have been started meanwhile."""
        return known | marked(self.pid, self.folder)

    def finish(self) -> None:
        """Let the run end by itself."""
        self.start()
        assert self._main is not None
        assert self._main.wait() == 0, self._said.read_text()

    def close(self) -> None:
        """Let nothing run on, whatever a test has found."""
        if self._main is not None and self._main.poll() is None:
            self._main.kill()
            self._main.wait()

    # Moments.

    def await_start(self) -> None:
        """Main runs our code, and there is no run yet."""
        self.wait_until(lambda: str(self.folder) in self._counters())

    def _counters(self) -> list[str]:
        return (PROC / str(self.pid) / "cmdline").read_bytes().decode().split("\0")

    def await_children(self) -> None:
        """The first child has been started; others are to follow."""
        self.wait_until(lambda: find_children(self.pid))

    def await_rounds(self, more: int) -> None:
        """Some rounds more have been written down, since it was last begun."""
        path = self.folder / "metrics.jsonl"
        self.wait_until(
            lambda: path.exists() and path.read_bytes().count(b"\n") >= self._began + more
        )

    def await_saving(self) -> None:
        """A checkpoint is being written, and is not whole."""
        checkpoints = self.folder / "checkpoints"
        before = {path.name for path in checkpoints.glob("partial-*")}
        self.wait_until(
            lambda: any(p.name not in before for p in checkpoints.glob("partial-*"))
        )

    def await_evaluation(self, every: int) -> None:
        """A border with an evaluation has been passed, and it is not written down."""

        def is_due() -> bool:
            last = self.rounds[-1] if self.rounds else 0
            known = {line["round"] for line in self.lines("evaluations.jsonl")}
            return last > 0 and last % every == 0 and last not in known

        self.await_rounds(1)
        self.wait_until(is_due)
