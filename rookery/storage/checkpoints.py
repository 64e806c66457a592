"""Checkpoints: folders of arrays, written atomically and verified when read.

A checkpoint is written into a temporary folder; every file is synced to disk, a manifest
with sizes and SHA-256 sums is added, and only then the folder is renamed. A checkpoint of
the same number is renamed first and deleted last. The next save deletes what a killed
process has left behind. Arrays are safetensors files and the manifest is JSON: neither can
contain code.
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

from rookery.errors import ArrayFileError
from rookery.specs import Array
from rookery.storage.access import entries
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
from rookery.storage.files import rename_durably, sync_folder, write_whole

MANIFEST = "manifest.json"
MANIFEST_LIMIT = 2**20
LAYOUT = 2
NAME = re.compile(r"ckpt-(0|[1-9]\d{0,17})(-old)?")
FILE_NAME = re.compile(r"[a-z0-9-]{1,60}\.safetensors")
SUM = re.compile(r"[0-9a-f]{64}")

Files = Mapping[str, Mapping[str, Array]]
"""File name, without its ending, to named arrays."""
Check = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
"""Called with a manifest and the shapes in every file, before arrays are read."""


class Ownership:
    """The right to write to a folder; here that of somebody who shares it with nobody."""

    token = "0"
    """Names what this owner writes, and nobody else."""

    def check(self) -> None:
        """Raise an exception if the right was lost."""

    def renew(self) -> None:
        """Show that the owner is alive."""


def save_checkpoint(
    folder: Path,
    number: int,
    files: Files,
    metadata: Mapping[str, Any],
    owner: Ownership | None = None,
) -> Path:
    """Write checkpoint `number` into a folder of checkpoints and return its path.

    Raises:
        OSError: if it cannot be written, or does not read back as it was written; then
            nothing of it is left, and older checkpoints are unchanged.
    """
    owner = owner or Ownership()
    target, partial = folder / f"ckpt-{number}", folder / f"partial-{number}-{owner.token}"
    owner.check()
    delete_leftovers(folder)
    try:
        if not folder.exists():
            folder.mkdir()  # not its parents: a deleted run is not created again
        partial.mkdir()
        _write_files(partial, number, files, metadata, owner)
        owner.check()
        if target.exists():
            os.rename(target, folder / f"ckpt-{number}-old")
        rename_durably(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _read_back(target)
    owner.check()
    delete_leftovers(folder)
    return target


def delete_leftovers(folder: Path) -> None:
    """Delete incomplete checkpoints, and those that have been replaced.

    A process that lost its right to write after it had looked cannot rename an incomplete
    checkpoint of its own any more.
    """
    replaced = [
        path
        for path in folder.glob("ckpt-*-old")
        if path.with_name(path.name.removesuffix("-old")).exists()
    ]
    for path in [*folder.glob("partial-*"), *replaced]:
        shutil.rmtree(path, ignore_errors=True)


def prune(folder: Path, newest: Path, keep: int) -> None:
    """Delete all checkpoints except `newest` and the ones before it, `keep` in total.

    Later ones are deleted too: a run that resumed before them will reach them again.
    """
    checkpoints = checkpoints_in(folder)
    position = checkpoints.index(newest)
    for path in [*checkpoints[:position], *checkpoints[position + keep :]]:
        shutil.rmtree(path)


def _write_files(
    folder: Path,
    number: int,
    files: Files,
    metadata: Mapping[str, Any],
    owner: Ownership,
) -> None:
    """Write all files, and the manifest last."""
    sums = {}
    for name, arrays in files.items():
        owner.renew()  # writing may take minutes
        data = to_bytes(arrays)
        write_whole(folder / f"{name}.safetensors", data)
        sums[f"{name}.safetensors"] = [len(data), hashlib.sha256(data).hexdigest()]
    manifest = {"layout": LAYOUT, "round": number, "files": sums, **metadata}
    manifest["sum"] = sum_of_manifest(manifest)
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=2).encode())
    sync_folder(folder)


def sum_of_manifest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything in a manifest except the sum itself."""
    rest = {name: value for name, value in manifest.items() if name != "sum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _read_back(target: Path) -> None:
    """Verify the files on disk; delete the checkpoint if they are not as written."""
    try:
        _verify(target, read_manifest(target))
    except ArrayFileError as error:
        shutil.rmtree(target, ignore_errors=True)
        reason = f"it does not read back: {error}"
        raise OSError(errno.EIO, reason, str(target)) from error


def _verify(path: Path, manifest: Mapping[str, Any]) -> None:
    """Verify every byte of a checkpoint, in pieces."""
    for name, (size, expected) in manifest["files"].items():
        with opened(path / name) as file:
            if size_of(file) != size or sum_of(file) != expected:
                raise ArrayFileError(_not_as_written(path / name))


def is_whole(path: Path) -> bool:
    """Whether every byte of a checkpoint is as written; it is read in pieces."""
    try:
        _verify(path, read_manifest(path))
    except ArrayFileError:
        return False
    return True


def _not_as_written(path: Path) -> str:
    return f"{path} is damaged: its bytes are not as written."


def load_checkpoint(
    path: Path, check: Check = lambda manifest, shapes: None
) -> tuple[dict[str, dict[str, Array]], dict[str, Any]]:
    """Return a checkpoint's arrays and manifest, every byte verified.

    Args:
        path: the checkpoint's folder.
        check: called with the manifest and the shapes in every file before any array is
            read; raises ArrayFileError if the checkpoint is not what the caller needs.
    """
    manifest = read_manifest(path)
    names = list(manifest["files"])
    check(manifest, {_stem(name): _shapes_in(path, manifest, name) for name in names})
    return {_stem(name): _arrays(path, manifest, name) for name in names}, manifest


def _stem(name: str) -> str:
    return name.removesuffix(".safetensors")


def _shapes_in(path: Path, manifest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the shapes in a file without reading its arrays."""
    with opened(path / name) as file:
        try:
            if size_of(file) != manifest["files"][name][0]:
                raise ArrayFileError(_not_as_written(path / name))
            return read_header(file)[0]
        except Damaged as error:
            raise ArrayFileError(f"{path / name} is damaged ({error}).") from error


def _arrays(path: Path, manifest: Mapping[str, Any], name: str) -> dict[str, Array]:
    with opened(path / name) as file:
        try:
            data, arrays = load_arrays(file)
        except Damaged as error:
            raise ArrayFileError(f"{path / name} is damaged ({error}).") from error
    if sum_of(io.BytesIO(data)) != manifest["files"][name][1]:
        raise ArrayFileError(_not_as_written(path / name))
    return arrays


@dataclass(frozen=True)
class Checkpoint:
    """A valid checkpoint."""

    path: Path
    files: dict[str, dict[str, Array]]
    manifest: dict[str, Any]
    warnings: list[str]
    """A line for each newer checkpoint that is damaged."""


def newest_whole(folder: Path, check: Check = lambda manifest, shapes: None) -> Checkpoint:
    """Return the newest valid checkpoint.

    Raises:
        ArrayFileError: if there is none.
    """
    problems: list[str] = []
    for path in checkpoints_in(folder):
        try:
            files, manifest = load_checkpoint(path, check)
        except ArrayFileError as error:
            problems.append(str(error))
            continue
        warnings = [f"{problem} {path.name} is used instead." for problem in problems]
        return Checkpoint(path, files, manifest, warnings)
    if problems:
        raise ArrayFileError(
            f"no checkpoint can be used: {problems[0]} If that is not possible, delete "
            "the run and train it again."
        )
    raise ArrayFileError(
        f"{folder} has no checkpoint: train the run for some more rounds, or restore the "
        "checkpoints that it had."
    )


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a checkpoint.

    Raises:
        ArrayFileError: if it is missing or damaged.
    """
    if os.path.islink(path):
        raise ArrayFileError(f"{path} is a link: put the checkpoint itself there.")
    with opened(path / MANIFEST) as file:
        data = file.read(MANIFEST_LIMIT + 1)
    try:
        if len(data) > MANIFEST_LIMIT:
            raise Damaged(f"it has more than {MANIFEST_LIMIT} bytes")
        manifest = parse_json(data)
        _check_manifest(manifest, path.name)
    except Damaged as error:
        raise ArrayFileError(f"{path / MANIFEST} is damaged ({error}).") from error
    return dict(manifest)


def _check_manifest(manifest: Any, folder: str) -> None:
    if not isinstance(manifest, dict):
        raise Damaged("it is not a manifest")
    if manifest.get("layout") != LAYOUT:
        raise Damaged(f"it has layout {manifest.get('layout')!r:.20}, expected {LAYOUT}")
    if manifest.get("sum") != sum_of_manifest(manifest):
        raise Damaged("its contents are not as written")
    number, files = manifest.get("round"), manifest.get("files")
    if type(number) is not int or folder.removesuffix("-old") != f"ckpt-{number}":
        raise Damaged("its round is not that of its folder")
    if not isinstance(files, dict) or not all(map(_is_file_entry, files.items())):
        raise Damaged("it names files that a checkpoint cannot have")


def _is_file_entry(entry: tuple[str, Any]) -> bool:
    """Whether an entry is a plain file name with a size and a sum."""
    name, value = entry
    if not FILE_NAME.fullmatch(name) or not isinstance(value, list) or len(value) != 2:
        return False
    size, digest = value
    if type(size) is not int or size < 0 or not isinstance(digest, str):
        return False
    return SUM.fullmatch(digest) is not None


def checkpoints_in(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, the newest first."""
    named = [path for path in entries(folder) if NAME.fullmatch(path.name)]
    # A checkpoint that is being replaced comes after its replacement.
    return sorted(named, key=lambda path: (-number_of(path), path.name))


def number_of(path: Path) -> int:
    """Return the boundary at which a checkpoint was saved."""
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
