"""Claims: which process may write to a folder, also on a network file system.

A lock of the operating system may hold on one machine only if the folder is on NFS. So a
claim is a file, `claim-N`, which only one process can create. It names its holder, and its
time of change is renewed while the holder works. A process that finds the newest claim
given up, or its holder dead, creates the next one. On the same machine the system knows
whether a holder is alive; elsewhere it counts as dead when its claim was not renewed for
LEASE_SECONDS.

A holder that was stopped for longer than that may be alive after all. It must find out
before it writes: `check` looks whether there is a newer claim. What it writes between the
look and its end does no harm, because its successor uses other names and files: partial
checkpoints have the token of the claim in their name, and logs are copied to new files.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rookery.errors import ConfigError, RookeryError
from rookery.printing import command
from rookery.storage.access import cannot_read, cannot_write
from rookery.storage.checkpoints import Ownership

NAME = re.compile(r"claim-([1-9]\d{0,17})(-ended)?")
LEASE_SECONDS = 60.0
RENEWAL_SECONDS = 10.0
UNWRITTEN_SECONDS = 5.0
"""After this time, the creator of an empty claim is taken for dead."""


class FolderGone(RookeryError):
    """The folder was deleted or renamed while a process held a claim on it."""


class InUse(ConfigError):
    """Another process holds the folder."""


class ClaimLost(RookeryError):
    """Another process has taken over the folder."""


@dataclass(frozen=True)
class Holder:
    """The process that made a claim, and where it runs."""

    token: str
    """Random, so that no two claims are alike."""
    host: str
    boot: str
    """The id of the machine's last start: process ids of different starts are unrelated."""
    namespace: int
    """The number space that its process id belongs to: containers have their own."""
    pid: int
    started: int
    """When it started, in ticks since the machine did."""

    @classmethod
    def this_process(cls) -> Holder:
        """Return a holder for a new claim of this process."""
        pid = os.getpid()
        return cls(
            token=secrets.token_hex(8),
            host=socket.gethostname(),
            boot=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            namespace=os.stat("/proc/self/ns/pid").st_ino,
            pid=pid,
            started=_start_of(pid) or 0,
        )

    def is_near(self, other: Holder) -> bool:
        """Whether both processes see each other's process id."""
        return (self.boot, self.namespace) == (other.boot, other.namespace)

    @property
    def is_alive(self) -> bool:
        """Whether it runs, asked by a process that is near."""
        return _start_of(self.pid) == self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _start_of(pid: int) -> int | None:
    """Return when a process started, in ticks; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if stat[0] in "ZX" else int(stat[19])


@dataclass(frozen=True)
class _Found:
    """The newest claim in a folder."""

    number: int
    path: Path
    has_ended: bool
    holder: Holder | None
    """None if it has ended, or is still being written."""
    renewed: float
    """By the clock of the file system."""


class Claim(Ownership):
    """The right to write to a folder, until it is closed or its process ends.

    Args:
        folder: which exists.

    Raises:
        InUse: if another process holds it.
        ConfigError: if it cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._me = folder, Holder.this_process()
        self.token = self._me.token
        self._renewed, self._is_closed = time.monotonic(), False
        try:
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise cannot_read(folder, error) from error
        try:
            self._path, self.predecessor = self._take()
        except BaseException as error:
            os.close(self._descriptor)
            if isinstance(error, OSError):
                raise cannot_write(folder, error) from error
            raise

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether it was taken over from a process on another machine.

        That may still run for all that this machine knows, or ended when its machine did.
        """
        return self.predecessor is not None and not self.predecessor.is_near(self._me)

    def _take(self) -> tuple[Path, Holder | None]:
        """Create the next claim; return it, and who held the last one if it is not ended.

        That process did not give its claim up: it has died, or at least seems to.
        """
        before = _newest(self._folder)
        if before and (why := self._why_held(before)):
            raise InUse(f"{self._folder} is in use by {why}")
        number = before.number + 1 if before else 1
        path = self._folder / f"claim-{number}"
        try:
            _create(path, asdict(self._me))
        except FileExistsError:
            raise InUse(f"{self._folder} is in use by {_ANOTHER}") from None
        if not self._is_mine(path):  # others were faster, and have gone further
            path.unlink(missing_ok=True)
            raise InUse(f"{self._folder} is in use by {_ANOTHER}")
        for old in _claims(self._folder):
            if _number(old) < number:
                old.unlink(missing_ok=True)
        return path, before.holder if before else None

    def _why_held(self, claim: _Found) -> str:
        """Return who holds a claim, and what to do; '' if nobody does."""
        if claim.has_ended:
            return ""
        if claim.holder is not None and claim.holder.is_near(self._me):
            return f"{claim.holder}: wait until it ends." if claim.holder.is_alive else ""
        lease = LEASE_SECONDS if claim.holder else UNWRITTEN_SECONDS
        left = lease - (_clock_of(self._folder, self._me.token) - claim.renewed)
        if left <= 0:
            return ""
        who = claim.holder or "another process"
        return f"{who}: wait until it ends, or {left:.0f} seconds if it no longer runs."

    def check(self) -> None:
        """Check that the folder still has its name, and that nobody has taken it over.

        Raises:
            FolderGone: if it was deleted or renamed: what is written under its old name
                would be half a run.
            ClaimLost: if another process holds it now.
            OSError: if that cannot be found out.
        """
        self.check_there()
        if not self._is_mine(self._path):
            claim = _newest(self._folder)
            now = (claim.holder if claim else None) or "another process"
            raise ClaimLost(
                f"{self._folder} was taken over by {now}, because this one had not "
                f"responded for {LEASE_SECONDS:.0f} seconds: it ends, and writes nothing "
                "more."
            )

    def check_there(self) -> None:
        """Check that the folder still has its name.

        Raises:
            FolderGone: if not.
        """
        with suppress(OSError):
            if os.path.samestat(os.stat(self._folder), os.fstat(self._descriptor)):
                return
        now = os.readlink(f"/proc/self/fd/{self._descriptor}")
        remedy = f"if it was renamed, continue there: {command('resume', now)}"
        if now.endswith(" (deleted)"):
            remedy = "its content cannot be saved; train again"
        raise FolderGone(
            f"{self._folder} was deleted or renamed during the run, so the run ends: "
            f"{remedy}"
        )

    def _is_mine(self, path: Path) -> bool:
        claim = _newest(self._folder)
        return claim is not None and claim.path == path and claim.holder == self._me

    def renew(self) -> None:
        """Show that the holder is alive, if the last time is a while ago.

        Raises:
            ClaimLost: if another process has taken over.
        """
        now = time.monotonic()
        if now - self._renewed >= RENEWAL_SECONDS:
            self._renewed = now
            with suppress(OSError):  # no claim is lost unless somebody takes it
                self.check()
                os.utime(self._path)  # the file server sets its own time

    def close(self) -> None:
        """Give the folder up, for the next process to take; once more does no harm."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            with suppress(OSError):
                # Not just deleted: numbers grow, or a slow process could claim an old one.
                if self._is_mine(self._path):
                    os.rename(self._path, f"{self._path}-ended")
        finally:
            os.close(self._descriptor)


_ANOTHER = "another process: wait until it ends."


def is_held(folder: Path) -> bool:
    """Whether a process holds a claim on a folder, as far as can be told from outside."""
    try:
        claim = _newest(folder)
    except FileNotFoundError:
        return False
    if claim is None or claim.has_ended:
        return False
    me = Holder.this_process()
    if claim.holder is not None and claim.holder.is_near(me):
        return claim.holder.is_alive
    return time.time() - claim.renewed < LEASE_SECONDS


def _claims(folder: Path) -> list[Path]:
    return [folder / name for name in os.listdir(folder) if NAME.fullmatch(name)]


def _number(path: Path) -> int:
    return int(path.name.split("-")[1])


def _newest(folder: Path) -> _Found | None:
    """Return the claim with the highest number in a folder."""
    for path in sorted(_claims(folder), key=_number, reverse=True):
        number = _number(path)
        if path.name.endswith("-ended"):
            return _Found(number, path, True, None, 0.0)
        try:  # opening it asks the file server, whereas stat may answer from a cache
            with path.open("rb") as file:
                renewed, data = os.fstat(file.fileno()).st_mtime, file.read(4096)
        except (
            FileNotFoundError
        ):  # given up since it was listed, or replaced by a newer one
            return _newest(folder)
        return _Found(number, path, False, _parse(data), renewed)
    return None


def _parse(data: bytes) -> Holder | None:
    """Return the holder that a claim names; None if it is incomplete."""
    try:
        content = json.loads(data)
        return Holder(**{field.name: content[field.name] for field in fields(Holder)})
    except (ValueError, KeyError, TypeError):
        return None


def _create(path: Path, content: Mapping[str, Any]) -> None:
    """Create a claim, if no other process has; as NFS promises only for this call."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, json.dumps(content).encode())
        os.fsync(descriptor)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def _clock_of(folder: Path, token: str) -> float:
    """Return the time by the file server's clock, which may differ from this machine's."""
    path = folder / f".clock-{token}"
    try:
        path.touch()
        return path.stat().st_mtime
    finally:
        path.unlink(missing_ok=True)
