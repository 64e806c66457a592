"""Writing that lasts: files and folders that are on the disk when a call returns."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

FORBIDDEN = {os.strerror(code) for code in (errno.EACCES, errno.EPERM, errno.EROFS)}


def remedy(reason: str) -> str:
    """Return what to do about something that cannot be written, by the system's reason."""
    if reason in FORBIDDEN:
        return "make the folder writable"
    return "free some space"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until a folder's entries are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_whole(path: Path, data: bytes) -> None:
    """Add to the end of a file, all of it or nothing.

    Half a line would hide all lines that come after it.
    """
    with path.open("ab", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        except OSError:
            with suppress(OSError):
                file.truncate(before)
            raise


def mend(path: Path) -> None:
    """Take out a last line that is cut off: what is added would be lost with it."""
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def replace_whole(path: Path, data: bytes) -> None:
    """Write a file under another name and give it its own when it is on the disk."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        write_whole(partial, data)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise


class Attempts:
    """Writes what a run can do without: the disk may be full, and training goes on.

    The first time that something cannot be written it says so, and then nothing until
    everything that failed has worked again.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._failing: dict[str, str] = {}

    def __call__(self, what: str, write: Callable[[], object]) -> bool:
        """Write something; return whether it worked."""
        try:
            write()
        except OSError as error:
            self.note(what, error.strerror or str(error))
            return False
        self.note(what, "")
        return True

    def note(self, what: str, reason: str) -> None:
        """Take down why something could not be written; '' if it could."""
        if not reason:
            self._failing.pop(what, None)
            return
        if not self._failing:
            self._say(
                f"cannot write {what} ({reason}): training goes on, and leaves out what "
                f"cannot be written; {remedy(reason)}."
            )
        self._failing[what] = reason

    def reason(self, what: str) -> str:
        """Return why something could not be written the last time; '' if it could."""
        return self._failing.get(what, "")
