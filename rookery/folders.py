"""The folders of runs: new ones, and what lies in one."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from rookery.errors import ConfigError

RUNS = Path("runs")
CONFIG = "config.toml"
CHECKPOINTS = "checkpoints"


class RunLock:
    """Holds a run's folder until it is let go, or its process ends.

    Raises:
        ConfigError: if another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise ConfigError(
                f"{folder} is in use by another process: wait until it ends."
            ) from error

    def close(self) -> None:
        """Let it go."""
        os.close(self._descriptor)


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


def no_run(path: Path) -> ConfigError:
    """Return the error for a path that is no run."""
    why = f"it has no {CONFIG}" if path.is_dir() else "there is no such folder"
    return ConfigError(f"{path} is no run: {why}; name the folder of a run.")


def is_run(path: Path) -> bool:
    """Whether a folder holds a run, or several seeds of one."""
    return (path / CONFIG).is_file() or bool(seeds_of(path))


def seeds_of(path: Path) -> list[Path]:
    """Return the runs in a folder of seeds, in order; empty if it is none."""
    found = {
        int(number): p
        for p in path.glob("seed-*")
        if (number := p.name.removeprefix("seed-")).isdecimal() and (p / CONFIG).is_file()
    }
    return [found[number] for number in sorted(found)]


def refuse_links(path: Path) -> None:
    """Refuse a run with links in it.

    Whoever made it could have us write anywhere, or delete what is not the run's.

    Raises:
        ConfigError: naming the first.
    """
    for folder, folders, files in os.walk(path):
        for name in [*folders, *files]:
            if (Path(folder) / name).is_symlink():
                raise ConfigError(
                    f"{Path(folder) / name} is a link, and a run must not have any: put "
                    "the file itself there."
                )
