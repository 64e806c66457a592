"""Durable writes: a file is on disk, and complete, when a call returns."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

from psutil import pid_exists

FORBIDDEN = {os.strerror(code) for code in (errno.EACCES, errno.EPERM, errno.EROFS)}


def remedy(reason: str) -> str:
    """Return what to do about a failed write, given the system's reason."""
    if reason in FORBIDDEN:
        return "make the folder writable"
    return "free some space"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk; after a crash it can be cut off."""
    with path.open("wb") as file:
        file.write(data)
        _sync(file)


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for writing that replaces `path` at the end of the block.

    A reader, or a crash at any time, sees either the old file or the complete new one. If
    the block raises, the old file stays and the temporary one is deleted.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    # Left behind by a killed process with the same id, or a link planted in its place.
    partial.unlink(missing_ok=True)
    _remove_leftovers(path)
    try:
        with partial.open("xb") as file:
            yield file
            _sync(file)
        rename_durably(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def _remove_leftovers(path: Path) -> None:
    """Delete what processes that were killed had written of a file."""
    for leftover in path.parent.glob(f".{escape(path.name)}.*.partial"):
        pid = leftover.name.removesuffix(".partial").rpartition(".")[2]
        if pid.isdigit() and not pid_exists(int(pid)):
            leftover.unlink(missing_ok=True)


def delete_partial_files(folder: Path, name: str) -> None:
    """Delete what killed processes had written of files whose names match a pattern.

    Only for a caller that knows that no other process writes there: a process that has
    just been killed, or another one with its id, can still seem to exist.
    """
    for partial in folder.glob(f".{name}.*.partial"):
        partial.unlink(missing_ok=True)


def replace_whole(path: Path, data: bytes) -> None:
    """Write or replace a file atomically."""
    with atomic_write(path) as file:
        file.write(data)


def rename_durably(source: Path, target: Path) -> None:
    """Rename a file or a folder within its folder, and wait until that is on disk."""
    os.rename(source, target)
    sync_folder(target.parent)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until a folder's entries are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_whole(path: Path, data: bytes) -> None:
    """Append data to a file, all of it or nothing.

    Half a line would make the lines after it unreadable.
    """
    descriptor = _open_to_append(path)
    try:
        _append(descriptor, data)
    finally:
        os.close(descriptor)


def _open_to_append(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)


def _append(descriptor: int, data: bytes) -> None:
    before = os.fstat(descriptor).st_size
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, before)
        raise


class AppendedFile:
    """A file that stays open while data is appended to it, all of it or nothing.

    If another process replaces the file, what is appended does not reach the new one.

    Args:
        path: of the file, which is created when something is appended.
        check: called before the path is opened; raises if this process must not write.
    """

    def __init__(self, path: Path, check: Callable[[], None]) -> None:
        self._path, self._check = path, check
        self._descriptor: int | None = None

    def append(self, data: bytes) -> None:
        """Append data."""
        if self._descriptor is None or not os.fstat(self._descriptor).st_nlink:
            self.close()  # the file was deleted, or replaced
            self._check()
            self._descriptor = _open_to_append(self._path)
        _append(self._descriptor, data)

    def close(self) -> None:
        """Close the file; the next data is appended to the one that has its path then."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    __del__ = close


def mend(path: Path) -> None:
    """Copy a file without an incomplete last line, which would spoil the next one.

    A process that has the old file open no longer reaches the new one.
    """
    if path.exists():
        data = path.read_bytes()
        replace_whole(path, data[: data.rfind(b"\n") + 1])


class Attempts:
    """Performs writes that a run can do without, so that a full disk does not stop it.

    The first failure is reported; after that nothing is, until every write that failed
    has succeeded again.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._failing: dict[str, str] = {}

    def __call__(self, name: str, write: Callable[[], object]) -> bool:
        """Call `write`, which writes the file or files `name`; return its success."""
        try:
            write()
        except OSError as error:
            self.note(name, error.strerror or str(error))
            return False
        self.note(name, "")
        return True

    def note(self, name: str, reason: str) -> None:
        """Record why `name` could not be written; '' if it could."""
        if not reason:
            self._failing.pop(name, None)
            return
        is_first = not self._failing
        self._failing[name] = reason  # first, because reporting it is a write, too
        if is_first:
            self._say(
                f"cannot write {name} ({reason}): training continues without saving what "
                f"cannot be written; {remedy(reason)}."
            )

    def reason(self, name: str) -> str:
        """Return why `name` could not be written the last time; '' if it could."""
        return self._failing.get(name, "")
