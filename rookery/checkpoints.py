"""Checkpoints: folders of arrays, written whole or not at all, and verified when read.

A checkpoint is written into a temporary folder, every file is flushed to the disk, a
manifest with sizes and SHA-256 sums is added, and only then the folder gets its name. One
of the same number is whole under another name until then. Whoever saves next takes out
what a process that was killed has left. No
pickle: arrays are safetensors, the manifest is JSON, and neither names code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as load_bytes
from safetensors.numpy import save as save_bytes

from rookery.disk import sync_folder, write_whole
from rookery.errors import RookeryError
from rookery.specs import Array

MANIFEST = "manifest.json"
LAYOUT = 1
NAME = re.compile(r"ckpt-(\d+)(-old)?")
PLAIN = re.compile(r"[\w.-]+")

Files = Mapping[str, Mapping[str, Array]]
"""File name, without its ending, to named arrays."""


class CheckpointError(RookeryError):
    """A checkpoint is missing, damaged, or of another kind of run."""


def save_checkpoint(
    folder: Path, number: int, files: Files, about: Mapping[str, Any]
) -> Path:
    """Write checkpoint `number` into a folder of checkpoints and return its path."""
    target, partial = folder / f"ckpt-{number}", folder / f"partial-{number}"
    _tidy(folder)
    partial.mkdir(parents=True)
    sums = {}
    for name, arrays in files.items():
        data = save_bytes({key: _contiguous(array) for key, array in arrays.items()})
        write_whole(partial / f"{name}.safetensors", data)
        sums[f"{name}.safetensors"] = [len(data), hashlib.sha256(data).hexdigest()]
    manifest = {"layout": LAYOUT, "round": number, "files": sums, **about}
    write_whole(partial / MANIFEST, json.dumps(manifest, indent=2).encode())
    sync_folder(partial)
    if target.exists():
        os.rename(target, folder / f"ckpt-{number}-old")
    os.rename(partial, target)
    sync_folder(folder)
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


def load_checkpoint(path: Path) -> tuple[dict[str, dict[str, Array]], dict[str, Any]]:
    """Return a checkpoint's arrays and manifest, every byte verified."""
    manifest = _read_manifest(path)
    files = {}
    for name, (size, wanted) in manifest["files"].items():
        if not PLAIN.fullmatch(name):
            raise CheckpointError(
                f"{path / MANIFEST} names the file {name!r}: it is damaged."
            )
        data = _read(path / name, size)
        if len(data) != size or hashlib.sha256(data).hexdigest() != wanted:
            raise CheckpointError(
                f"{path / name} is damaged: its bytes are not those that were written."
            )
        files[name.removesuffix(".safetensors")] = _arrays(path / name, data)
    return files, manifest


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is whole."""

    path: Path
    files: dict[str, dict[str, Array]]
    manifest: dict[str, Any]
    warnings: list[str]
    """A line for each newer one that is not."""


def newest_whole(folder: Path) -> Checkpoint:
    """Return the newest checkpoint that is whole.

    Raises:
        CheckpointError: if there is none.
    """
    problems: list[str] = []
    for path in checkpoints_in(folder):
        try:
            files, manifest = load_checkpoint(path)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        used = [f"{problem} {path.name} is used instead." for problem in problems]
        return Checkpoint(path, files, manifest, used)
    if problems:
        raise CheckpointError(f"no checkpoint is whole: {problems[0]}")
    raise CheckpointError(f"{folder} has no checkpoint to go on from.")


def _read_manifest(path: Path) -> dict[str, Any]:
    data = _read(path / MANIFEST, 2**24)
    try:
        manifest = json.loads(data)
        number, files = manifest["round"], manifest["files"]
        sound = manifest["layout"] == LAYOUT and isinstance(number, int)
        if not sound or not all(len(entry) == 2 for entry in files.values()):
            raise ValueError("it is of another layout")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path / MANIFEST} is damaged ({error}).") from error
    return dict(manifest)


def _read(path: Path, most: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}).") from error


def _arrays(path: Path, data: bytes) -> dict[str, Array]:
    try:
        return dict(load_bytes(data))
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged ({error}).") from error


def _contiguous(array: Array) -> Array:
    return array.copy(order="C")


def checkpoints_in(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, the newest first."""
    found = []
    for path in folder.glob("ckpt-*") if folder.is_dir() else []:
        matched = NAME.fullmatch(path.name)
        if matched:
            found.append((int(matched[1]), matched[2] is None, path))
    return [path for *_, path in sorted(found, reverse=True)]


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
