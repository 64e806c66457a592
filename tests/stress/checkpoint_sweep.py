"""Checkpoints, killed before every instruction of saving one and deleting old ones.

    python -m tests.stress.checkpoint_sweep CASE FOLDER

A separate process without torch, because it forks thousands of times.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np

from rookery.errors import ArrayFileError
from rookery.storage.checkpoints import (
    newest_whole,
    prune,
    save_checkpoint,
)
from rookery.storage.files import write_whole
from tests.stress.kill_sweep import sweep, turning_points

KEEP = 2


class Saving:
    """Saving checkpoint 6 where 2 and 4 are; 2 is then deleted."""

    modules = ("rookery", "tests.stress", "__main__", "shutil")
    before, number, after = (2, 4), 6, ("ckpt-4", "ckpt-6")

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkpoints"
        for number in self.before:
            save_checkpoint(self.folder, number, files_of(number), {"saved": "before"})
        self._before = dict(self.left())

    def reset(self) -> None:
        now = dict(self.left())
        for path in reversed(now):
            if path not in self._before:
                path.rmdir() if now[path] is None else path.unlink()
        for path, data in self._before.items():
            if path not in now and data is None:
                path.mkdir()
            elif now.get(path) != data and data is not None:
                path.write_bytes(data)

    def operation(self) -> None:
        prune(self.folder, self.save(), KEEP)

    def save(self) -> Path:
        return save_checkpoint(
            self.folder, self.number, files_of(self.number), {"saved": "now"}
        )

    def left(self) -> tuple[tuple[Path, bytes | None], ...]:
        """Return every folder and file, parents first."""
        paths = [self.folder, *sorted(self.folder.rglob("*"))]
        return tuple(
            (path, path.read_bytes() if path.is_file() else None)
            for path in paths
            if path.exists()
        )

    def audit(self, *, killed: bool) -> list[str]:
        problems = self.problems(killed)
        self.operation()
        if any(self.problems(killed=False)):
            problems.append("saved again, it is not whole")
        names = tuple(sorted(os.listdir(self.folder)))
        if names != self.after:
            problems.append(f"saved again, there is {names}")
        return problems

    def problems(self, killed: bool) -> list[str]:
        """Return what is wrong with the newest whole checkpoint."""
        try:
            newest = newest_whole(self.folder)
        except ArrayFileError as error:
            return [str(error)] if self.before or not killed else []
        number, saved = newest.manifest["round"], newest.manifest["saved"]
        allowed = [(self.number, "now")]
        if self.before and killed:
            allowed.append((self.before[-1], "before"))
        is_allowed = (number, saved) in allowed
        problems = [] if is_allowed else [f"the newest is {number}, {saved}"]
        return problems + different(newest.files, files_of(number)) + newest.warnings


class First(Saving):
    """Saving the first checkpoint, when not even the folder exists."""

    before, after = (), ("ckpt-6",)


class Again(Saving):
    """Saving 6 when 6 is the only one."""

    before, after = (6,), ("ckpt-6",)


class RemovedFirst(Again):
    """Planted: the old checkpoint is deleted before the new one has its name."""

    def save(self) -> Path:
        shutil.rmtree(self.folder / "ckpt-6", ignore_errors=True)
        return super().save()


class ManifestFirst(Saving):
    """Planted: written under its final name, the manifest before the data."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._whole = save_checkpoint(
            folder / "made", self.number, files_of(self.number), {"saved": "now"}
        )

    def save(self) -> Path:
        path = self.folder / f"ckpt-{self.number}"
        path.mkdir(exist_ok=True)
        for name in ("manifest.json", "actor.safetensors", "agent-0.safetensors"):
            write_whole(path / name, (self._whole / name).read_bytes())
        return path


class PrunedFirst(Again):
    """Planted: old checkpoints are deleted before there is a new one."""

    def operation(self) -> None:
        for path in self.folder.glob("ckpt-*"):
            shutil.rmtree(path)
        super().operation()


class NeverTidied(Saving):
    """Planted: files left by a killed process are never deleted."""

    def save(self) -> Path:
        (self.folder / f"rest-{os.getpid()}").mkdir()
        path = super().save()
        (self.folder / f"rest-{os.getpid()}").rmdir()
        return path


def files_of(number: int) -> dict[str, dict[str, np.ndarray]]:
    return {
        "actor": {"life/turn": np.array([number])},
        "agent-0": {"weights": np.full(300, number, np.float32)},
    }


def different(
    files: dict[str, dict[str, np.ndarray]], expected: dict[str, dict[str, np.ndarray]]
) -> list[str]:
    return [
        f"{file} is not what was saved"
        for file, arrays in expected.items()
        for name, array in arrays.items()
        if not np.array_equal(files.get(file, {}).get(name), array)
    ]


SOUND = (Saving, First, Again)
PLANTED = (RemovedFirst, ManifestFirst, PrunedFirst, NeverTidied)
CASES = {kind.__name__: kind for kind in SOUND + PLANTED}

if __name__ == "__main__":
    # Data written by a killed process is not lost; fsync only matters after a power failure
    # and takes ten times as long as everything else.
    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    case = CASES[sys.argv[1]](Path(sys.argv[2]))
    points = turning_points(case) if isinstance(case, PLANTED) else None
    print(json.dumps(vars(sweep(case, points))))
