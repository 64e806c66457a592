"""Checkpoints: folders of arrays, written whole or not at all, and verified when read.

A checkpoint is written into a temporary folder, every file is flushed to the disk, a
manifest with sizes and SHA-256 sums is added, and only then the folder gets its name. One
of the same number is whole under another name until then. Whoever saves next takes out
what a process that was killed has left. No
pickle: arrays are safetensors, the manifest is JSON, and neither names code.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.specs import Array
from rookery.storage.access import entries
from rookery.storage.arrays import CheckpointError as CheckpointError
from rookery.storage.arrays import (
    Damaged,
    load_arrays,
    opened,
    parse_json,
    read_header,
    size_of,
    sum_of,
    to_bytes,
)
from rookery.storage.files import sync_folder, write_whole

MANIFEST = "manifest.json"
MANIFEST_LIMIT = 2**20
LAYOUT = 2
NAME = re.compile(r"ckpt-(0|[1-9]\d{0,17})(-old)?")
PLAIN = re.compile(r"[a-z0-9-]{1,60}\.safetensors")
SUM = re.compile(r"[0-9a-f]{64}")

Files = Mapping[str, Mapping[str, Array]]
"""File name, without its ending, to named arrays."""
Check = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
"""Called with a manifest and with the shapes in every file, before arrays are read."""


def save_checkpoint(
    folder: Path, number: int, files: Files, about: Mapping[str, Any]
) -> Path:
    """Write checkpoint `number` into a folder of checkpoints and return its path.

    Raises:
        OSError: if it cannot be written, or does not read back as it was written; then
            nothing of it is left, and older ones are as they were.
    """
    target, partial = folder / f"ckpt-{number}", folder / f"partial-{number}"
    _tidy(folder)
    try:
        if not folder.exists():
            folder.mkdir()  # and not its parents: a run that is gone stays gone
        partial.mkdir()
        _write_files(partial, number, files, about)
        if target.exists():
            os.rename(target, folder / f"ckpt-{number}-old")
        os.rename(partial, target)
        sync_folder(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _read_back(target)
    _tidy(folder)
    return target


def _tidy(folder: Path) -> None:
    """Take out what is half written, and what has been replaced."""
    replaced = [
        path
        for path in folder.glob("ckpt-*-old")
        if path.with_name(path.name.removesuffix("-old")).exists()
    ]
    for path in [*folder.glob("partial-*"), *replaced]:
        shutil.rmtree(path, ignore_errors=True)


def prune(folder: Path, newest: Path, keep: int) -> None:
    """Keep a checkpoint and some before it, and no others.

    Those after it do not count: a run that has gone on from before them passes them again.
    """
    found = checkpoints_in(folder)
    older = found[found.index(newest) :]
    for path in [*found[: -len(older)], *older[keep:]]:
        shutil.rmtree(path)


def _write_files(folder: Path, number: int, files: Files, about: Mapping[str, Any]) -> None:
    """Write all files, and last the manifest that says what they are."""
    sums = {}
    for name, arrays in files.items():
        data = to_bytes(arrays)
        write_whole(folder / f"{name}.safetensors", data)
        sums[f"{name}.safetensors"] = [len(data), hashlib.sha256(data).hexdigest()]
    manifest = {"layout": LAYOUT, "round": number, "files": sums, **about}
    manifest["sum"] = sum_of_manifest(manifest)
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=2).encode())
    sync_folder(folder)


def sum_of_manifest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything in a manifest but the sum itself."""
    rest = {name: value for name, value in manifest.items() if name != "sum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _read_back(target: Path) -> None:
    """Compare what lies on the disk with what was to be written."""
    try:
        _verify(target, read_manifest(target))
    except CheckpointError as error:
        shutil.rmtree(target, ignore_errors=True)
        reason = f"it does not read back: {error}"
        raise OSError(errno.EIO, reason, str(target)) from error


def _verify(path: Path, manifest: Mapping[str, Any]) -> None:
    """Verify every byte of a checkpoint, a piece at a time."""
    for name, (size, wanted) in manifest["files"].items():
        with opened(path / name) as file:
            if size_of(file) != size or sum_of(file) != wanted:
                raise CheckpointError(_not_as_written(path / name))


def is_whole(path: Path) -> bool:
    """Whether every byte of a checkpoint is what was written; little of it is held."""
    try:
        _verify(path, read_manifest(path))
    except CheckpointError:
        return False
    return True


def _not_as_written(path: Path) -> str:
    return f"{path} is damaged: its bytes are not those that were written."


def load_checkpoint(
    path: Path, check: Check = lambda manifest, shapes: None
) -> tuple[dict[str, dict[str, Array]], dict[str, Any]]:
    """Return a checkpoint's arrays and manifest, every byte verified.

    Args:
        path: its folder.
        check: raises CheckpointError if it is not what the caller needs; called with the
            manifest and the shapes in every file, before any array is read.
    """
    manifest = read_manifest(path)
    names = list(manifest["files"])
    check(manifest, {_stem(name): _shapes_in(path, manifest, name) for name in names})
    return {_stem(name): _arrays(path, manifest, name) for name in names}, manifest


def _stem(name: str) -> str:
    return name.removesuffix(".safetensors")


def _shapes_in(path: Path, manifest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the shapes in a file, of which nothing else is read yet."""
    with opened(path / name) as file:
        try:
            if size_of(file) != manifest["files"][name][0]:
                raise CheckpointError(_not_as_written(path / name))
            return read_header(file)[0]
        except Damaged as error:
            raise CheckpointError(f"{path / name} is damaged ({error}).") from error


def _arrays(path: Path, manifest: Mapping[str, Any], name: str) -> dict[str, Array]:
    with opened(path / name) as file:
        try:
            data, arrays = load_arrays(file)
        except Damaged as error:
            raise CheckpointError(f"{path / name} is damaged ({error}).") from error
    if sum_of(io.BytesIO(data)) != manifest["files"][name][1]:
        raise CheckpointError(_not_as_written(path / name))
    return arrays


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is whole."""

    path: Path
    files: dict[str, dict[str, Array]]
    manifest: dict[str, Any]
    warnings: list[str]
    """A line for each newer one that is not."""


def newest_whole(folder: Path, check: Check = lambda manifest, shapes: None) -> Checkpoint:
    """Return the newest checkpoint that is whole.

    Raises:
        CheckpointError: if there is none.
    """
    problems: list[str] = []
    for path in checkpoints_in(folder):
        try:
            files, manifest = load_checkpoint(path, check)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        used = [f"{problem} {path.name} is used instead." for problem in problems]
        return Checkpoint(path, files, manifest, used)
    if problems:
        raise CheckpointError(
            f"no checkpoint can be used: {problems[0]} If that is not possible, delete "
            "the run and train it again."
        )
    raise CheckpointError(
        f"{folder} has no checkpoint: let the run go on for some rounds, or put back the "
        "checkpoints that it had."
    )


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what a checkpoint says of itself, if that is what was written.

    Raises:
        CheckpointError: if not.
    """
    if os.path.islink(path):
        raise CheckpointError(f"{path} is a link: put the checkpoint itself there.")
    with opened(path / MANIFEST) as file:
        data = file.read(MANIFEST_LIMIT + 1)
    try:
        if len(data) > MANIFEST_LIMIT:
            raise Damaged(f"it has more than {MANIFEST_LIMIT} bytes")
        manifest = parse_json(data)
        _check_manifest(manifest, path.name)
    except Damaged as error:
        raise CheckpointError(f"{path / MANIFEST} is damaged ({error}).") from error
    return dict(manifest)


def _check_manifest(manifest: Any, folder: str) -> None:
    if not isinstance(manifest, dict):
        raise Damaged("it is no manifest")
    if manifest.get("layout") != LAYOUT:
        raise Damaged("it is of another layout")
    if manifest.get("sum") != sum_of_manifest(manifest):
        raise Damaged("what it says is not what was written")
    number, files = manifest.get("round"), manifest.get("files")
    if type(number) is not int or folder.removesuffix("-old") != f"ckpt-{number}":
        raise Damaged("it is of another round than its folder")
    if not isinstance(files, dict) or not all(map(_is_sound, files.items())):
        raise Damaged("it names files that no checkpoint has")


def _is_sound(entry: tuple[str, Any]) -> bool:
    """Whether a file is named plainly, with a size and a sum."""
    name, about = entry
    if not PLAIN.fullmatch(name) or not isinstance(about, list) or len(about) != 2:
        return False
    size, wanted = about
    plain = type(size) is int and size >= 0 and isinstance(wanted, str)
    return plain and bool(SUM.fullmatch(wanted))


def checkpoints_in(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, the newest first."""
    named = [path for path in entries(folder) if NAME.fullmatch(path.name)]
    # One that was being replaced comes after the one that replaces it.
    return sorted(named, key=lambda path: (-number_of(path), path.name))


def number_of(path: Path) -> int:
    """Return the boundary that a checkpoint is of."""
    return int(path.name.split("-")[1])


def digest(arrays: Mapping[str, Array], rows: str) -> str:
    """Return the SHA-256 of named arrays and of a row hash."""
    chain = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        chain.update(f"{name} {little.dtype.str} {little.shape}".encode())
        chain.update(little.tobytes())
    chain.update(rows.encode())
    return chain.hexdigest()
