"""The folders of runs: new ones, and what lies in one."""

from __future__ import annotations

import fcntl
import re
from pathlib import Path
from typing import TextIO

from rookery.errors import ConfigError

RUNS = Path("runs")
CONFIG = "config.toml"
CHECKPOINTS = "checkpoints"
LOCK = ".lock"


def lock_run(folder: Path) -> TextIO:
    """Hold a run's folder until the returned file is closed, or its process ends.

    Raises:
        ConfigError: if another process holds it.
    """
    file = (folder / LOCK).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ConfigError(
            f"{folder} is in use by another process: wait until it ends."
        ) from error
    return file


def new_run(folder: Path | None, game: str) -> Path:
    """Make and return the folder of a new run; by default the next free one in runs/."""
    path = folder or _next_free(game)
    try:
        path.mkdir(parents=True)
    except FileExistsError as error:
        raise ConfigError(
            f"{path} exists already: choose another folder with --run, or delete it."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot make the run folder {path} ({error.strerror}): choose another "
            "with --run."
        ) from error
    return path


def _next_free(game: str) -> Path:
    name = re.sub(r"\W+", "-", game.rsplit("/", 1)[-1]).strip("-").lower() or "run"
    number = 1
    while (RUNS / f"{name}-{number}").exists():
        number += 1
    return RUNS / f"{name}-{number}"


def is_run(path: Path) -> bool:
    """Whether a folder holds a run, or several seeds of one."""
    return (path / CONFIG).is_file() or bool(seeds_of(path))


def seeds_of(path: Path) -> list[Path]:
    """Return the runs in a folder of seeds, in order; empty if it is none."""
    found = [p for p in path.glob("seed-*") if (p / CONFIG).is_file()]
    return sorted(found, key=lambda p: int(p.name.removeprefix("seed-")))
