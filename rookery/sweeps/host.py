"""One cell on another machine: trained on that machine's own disk, in a child process.

The object lives in a process on that machine, is called from where the sweep is, and knows
nothing of how the calls get there. Little is imported here, because it would take memory
beside every cell. The child dies with this process, however that dies; the folder of one
that was killed is deleted by the next one on the machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.storage.checkpoints import Ownership
from rookery.storage.files import write_whole
from rookery.sweeps.child import Child
from rookery.sweeps.transfer import Changes, Follower, Refused, apply

PREFIX = "rookery-cell-"
SWEEP_FOLDER, CODE_FOLDER, TASK = "sweep", "code", "task.json"
LEFT_BEHIND_SECONDS = 60.0
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Task:
    """What a machine needs to train a cell."""

    cell: str
    """The name of the cell."""
    sweep: Mapping[str, bytes]
    """The files of a sweep that has only this cell, by name."""
    changes: Changes
    """The cell's folder as it is; empty if the cell has not begun."""
    expected: Mapping[str, Any]
    """The facts of the machine that others must be like."""
    files: Mapping[str, tuple[bytes, str]] = field(default_factory=dict)
    """Users' files and their SHA-256, by path."""
    named: Mapping[str, list[str]] = field(default_factory=dict)
    """The code that the cell names."""


@dataclass(frozen=True)
class News:
    """What has happened to a cell since the last call."""

    changes: Changes = field(default_factory=Changes)
    """Of its folder."""
    events: tuple[dict[str, Any], ...] = ()
    """What the child has told."""
    code: int | None = None
    """The exit code of the child, once it has ended."""
    error: str = ""
    """The last line that it printed as an error, if it has ended."""


class CellHost:
    """Trains one cell on the machine it is on."""

    def begin(self, task: Task) -> News:
        """Write everything to this machine's disk, and start the child."""
        self._folder, self._lock = new_folder()
        sweep, code = self._folder / SWEEP_FOLDER, self._folder / CODE_FOLDER
        cell = sweep / task.cell
        cell.mkdir(parents=True)
        code.mkdir()
        for name, data in task.sweep.items():
            write_whole(inside(sweep, name), data)
        apply(cell, task.changes, Ownership())
        self._follower = Follower(cell)
        self._follower.changes()  # what is known already
        for name, (data, _) in task.files.items():
            path = inside(code, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
        sums = {name: checksum for name, (_, checksum) in task.files.items()}
        content = {
            "cell": task.cell,
            "expected": dict(task.expected),
            "sums": sums,
            "named": dict(task.named),
        }
        write_whole(self._folder / TASK, json.dumps(content).encode())
        self._child = Child("rookery.sweeps.one_cell", [str(self._folder)], code)
        return News()

    def news(self, seconds: float) -> News:
        """Return what is new, as soon as there is something, or after some seconds."""
        until = time.monotonic() + seconds
        checkpoints = self._follower.checkpoints()
        while True:
            code = self._child.process.poll()
            events = self._child.new_events()
            has_news = code is not None or events
            if has_news or self._follower.checkpoints() != checkpoints:
                break
            if time.monotonic() > until:
                break
            time.sleep(POLL_SECONDS)
        changes = self._follower.changes()
        if code is None:
            return News(changes, tuple(events))
        error = self._child.last_error()
        self._child.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)
        return News(changes, tuple(events), code, error)

    def stop(self) -> None:
        """Ask the child to save and to leave."""
        with suppress(ProcessLookupError):
            self._child.process.send_signal(signal.SIGTERM)


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder.

    Raises:
        Refused: if it is not in the folder.
    """
    if name.startswith("/") or ".." in Path(name).parts:
        raise Refused(f"{name!r:.80} has arrived, which is not inside of {folder}.")
    return folder / name


def describe_machine() -> dict[str, Any]:
    """Return the facts of the machine that this process is on."""
    child = Child("rookery.sweeps.machine", [], Path(tempfile.gettempdir()))
    try:
        child.process.wait()
        lines = child.output().splitlines()
        if child.process.returncode or not lines:
            error = child.last_error() or f"exit code {child.process.returncode}"
            raise RuntimeError(error)
        facts: dict[str, Any] = json.loads(lines[-1])
        return facts
    finally:
        child.close()


def new_folder() -> tuple[Path, int]:
    """Return a temporary folder and the descriptor of its lock.

    Folders whose processes were killed are deleted first.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            _delete_if_left_behind(old)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return folder, descriptor


def _delete_if_left_behind(folder: Path) -> None:
    """Delete a folder of ours that no process has locked; new ones may not be yet."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        is_old = time.time() - status.st_mtime > LEFT_BEHIND_SECONDS
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and is_old:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
