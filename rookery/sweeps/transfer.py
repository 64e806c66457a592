"""Keeping a copy of a run's folder, on another machine, up to date.

`Follower` reads what has changed in a folder while it is being written, and `apply` does
the same to the copy. Wherever it is interrupted, a run can be continued from the copy:
events are read first and written last, so that none tells of a checkpoint that the copy
does not have, and a checkpoint appears in the copy complete, by a rename. Nothing that
arrives is unpacked or imported; names that lead out of the folder are refused.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rookery.errors import RookeryError
from rookery.runs import claim
from rookery.runs.folder import CHECKPOINTS
from rookery.runs.log import EVENTS
from rookery.storage import checkpoints
from rookery.storage.checkpoints import MANIFEST, Ownership, delete_leftovers
from rookery.storage.files import append_whole, rename_durably, replace_whole, write_whole

MEMORY = "memory"
"""A run's memory files, which stay where they are."""
TRIES, WAIT_SECONDS = 20, 0.05


class Refused(RookeryError):
    """Something arrived that does not belong into the folder of a run."""


@dataclass(frozen=True)
class Piece:
    """Bytes of a file."""

    path: str
    """Relative to the run's folder, with slashes."""
    start: int
    """Where they belong in the file; with 0 they are the whole file."""
    data: bytes


@dataclass(frozen=True)
class Changes:
    """What is new in a folder, and the files that are gone."""

    pieces: Sequence[Piece] = ()
    gone: Sequence[str] = ()


@dataclass(frozen=True)
class _Seen:
    """A file as it was when it was read."""

    inode: int
    size: int
    changed: int


class Follower:
    """Reads what has changed in the folder of a run since it was read last.

    Args:
        folder: which may not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, _Seen] = {}

    def changes(self) -> Changes:
        """Return what is new since the last call; the first time, everything."""
        for tried in range(TRIES):
            try:
                return self._changes(is_last=tried == TRIES - 1)
            except FileNotFoundError:  # the run has replaced or deleted it since
                time.sleep(WAIT_SECONDS)
        return Changes()

    def checkpoints(self) -> list[str]:
        """Return the names of the checkpoints in the folder now."""
        return [p.name for p in checkpoints.checkpoints_in(self._folder / CHECKPOINTS)]

    def _changes(self, is_last: bool) -> Changes:
        seen: dict[str, _Seen] = {}
        pieces = []
        for path in self._paths(is_last):
            name = path.relative_to(self._folder).as_posix()
            seen[name], piece = _read(path, name, self._seen.get(name))
            if piece is not None:
                pieces.append(piece)
        gone = [name for name in self._seen if name not in seen]
        self._seen = seen
        return Changes(pieces, gone)

    def _paths(self, is_last: bool) -> Iterator[Path]:
        """Yield every file to copy; what depends on others comes before them."""
        if _is_regular(self._folder / EVENTS):
            yield self._folder / EVENTS
        for folder in checkpoints.checkpoints_in(self._folder / CHECKPOINTS):
            yield from _files_of_checkpoint(folder, is_last)
        for folder_name, folders, files in os.walk(self._folder):
            inside = Path(folder_name).relative_to(self._folder)
            folders[:] = [x for x in folders if _is_copied((*inside.parts, x, "_"))]
            for name in sorted(files):
                parts = (*inside.parts, name)
                path = self._folder.joinpath(*parts)
                is_other = parts[0] not in (CHECKPOINTS, EVENTS) and _is_copied(parts)
                if is_other and _is_regular(path):
                    yield path


def _files_of_checkpoint(folder: Path, is_last: bool) -> Iterator[Path]:
    """Yield the files of a checkpoint; none of one that is damaged or was replaced.

    Raises:
        FileNotFoundError: if the run deletes it now.
    """
    if not checkpoints.NAME.fullmatch(folder.name) or folder.name.endswith("-old"):
        return
    try:
        names = list(json.loads((folder / MANIFEST).read_bytes())["files"])
    except (ValueError, KeyError, TypeError):
        return
    except FileNotFoundError:
        if is_last:
            return
        raise
    paths = [folder / name for name in names if checkpoints.FILE_NAME.fullmatch(str(name))]
    missing = [path for path in paths if not _is_regular(path)]
    if missing and not is_last:
        raise FileNotFoundError
    if not missing:
        yield from [*paths, folder / MANIFEST]


def _read(path: Path, name: str, before: _Seen | None) -> tuple[_Seen, Piece | None]:
    """Return the state of a file, and its bytes that are new, if any."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        now = _Seen(status.st_ino, status.st_size, status.st_mtime_ns)
        if before == now:
            return before, None
        start = 0
        if before and _grows(name) and before.inode == now.inode:
            start = before.size if before.size <= now.size else 0
        file.seek(start)
        data = file.read(now.size - start)
    if name.endswith(".jsonl"):  # whole lines
        data = data[: data.rfind(b"\n") + 1]
    changed = now.changed if start + len(data) == now.size else 0  # read it again
    seen = _Seen(now.inode, start + len(data), changed)
    return seen, Piece(name, start, data) if data or not start else None


def _grows(name: str) -> bool:
    """Whether a file is only ever appended to, or replaced."""
    return name.endswith(".jsonl") or name.startswith("tensorboard/")


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _is_copied(parts: Sequence[str]) -> bool:
    """Whether a file belongs to a copy: claims, memory and temporary files do not."""
    is_temporary = any(x.startswith(".") or x.endswith(".partial") for x in parts)
    return not (is_temporary or parts[0] == MEMORY or claim.NAME.fullmatch(parts[0]))


def apply(folder: Path, changes: Changes, owner: Ownership) -> None:
    """Change the copy of a run's folder.

    Args:
        folder: of the copy, which exists.
        changes: as read by a `Follower`.
        owner: of the copy.

    Raises:
        Refused: if a name leads out of the folder, or bytes do not continue a file;
            nothing is written.
        OSError: if it cannot be written.
    """
    for piece in changes.pieces:
        _check(folder, piece.path)
        target = folder / piece.path
        if piece.start and (not target.exists() or target.stat().st_size != piece.start):
            raise Refused(f"bytes of {piece.path} have arrived that do not continue it.")
    for name in changes.gone:
        _check(folder, name)
    owner.check()
    arriving: dict[str, list[Piece]] = {}
    for piece in changes.pieces:
        parts = PurePosixPath(piece.path).parts
        if parts[0] == CHECKPOINTS:
            arriving.setdefault(parts[1], []).append(piece)
        elif piece.path != EVENTS:
            _write(folder, piece)
    for name, pieces in arriving.items():
        _put_checkpoint(folder / CHECKPOINTS, name, pieces, owner)
    owner.check()
    for piece in changes.pieces:
        if piece.path == EVENTS:
            _write(folder, piece)
    _delete(folder, changes.gone, kept=arriving)


def _check(folder: Path, name: str) -> None:
    """Check that a name is that of a file of a run, inside of the run's folder."""
    parts = PurePosixPath(name).parts
    is_plain = "/".join(parts) == name and "\0" not in name and bool(parts)
    if not is_plain or parts[0] == "/" or not _is_copied(parts):
        raise Refused(f"{name!r:.80} has arrived, which is no file of a run.")
    if parts[0] == CHECKPOINTS and not _is_checkpoint_file(parts):
        raise Refused(f"{name!r:.80} has arrived, which is no file of a checkpoint.")
    for length in range(1, len(parts) + 1):
        if folder.joinpath(*parts[:length]).is_symlink():
            raise Refused(f"{folder / name} is a link, and a run must not contain links.")


def _is_checkpoint_file(parts: Sequence[str]) -> bool:
    if len(parts) != 3 or not checkpoints.NAME.fullmatch(parts[1]):
        return False
    return parts[2] == MANIFEST or bool(checkpoints.FILE_NAME.fullmatch(parts[2]))


def _write(folder: Path, piece: Piece) -> None:
    target = folder / piece.path
    if piece.start:
        append_whole(target, piece.data)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(target, piece.data)


def _put_checkpoint(
    folder: Path, name: str, pieces: Sequence[Piece], owner: Ownership
) -> None:
    """Write a checkpoint, complete, by a rename."""
    folder.mkdir(exist_ok=True)
    target, partial = folder / name, folder / f"partial-{name}-{owner.token}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        for piece in pieces:
            write_whole(partial / PurePosixPath(piece.path).name, piece.data)
        owner.check()
        if target.exists():
            os.rename(target, folder / f"{name}-old")
        rename_durably(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    delete_leftovers(folder)


def _delete(folder: Path, names: Sequence[str], kept: Container[str]) -> None:
    """Delete files that are gone, and whole checkpoints except those to be kept."""
    for name in names:
        parts = PurePosixPath(name).parts
        if parts[0] == CHECKPOINTS and parts[1] not in kept:
            shutil.rmtree(folder.joinpath(*parts[:2]), ignore_errors=True)
        elif parts[0] != CHECKPOINTS:
            (folder / name).unlink(missing_ok=True)
