"""The folders of runs: new ones, and what lies in one."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rookery.errors import ConfigError, RookeryError
from rookery.printing import command
from rookery.storage.access import cannot_read, entries, is_file, is_folder

RUNS = Path("runs")
CONFIG = "config.toml"
CHECKPOINTS = "checkpoints"
SEEDS = "seeds.json"
"""In a folder of seeds: which they are, and what each was asked to do."""


class FolderGone(RookeryError):
    """A run's folder was deleted or renamed while the run went on."""


class RunLock:
    """Holds a run's folder until it is let go, or its process ends.

    Raises:
        ConfigError: if another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise cannot_read(folder, error) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise ConfigError(
                f"{folder} is in use by another process: wait until it ends."
            ) from error

    def check_there(self) -> None:
        """See that the folder still has its name.

        Raises:
            FolderGone: if not. Whatever was written under that name would be half a run.
        """
        with suppress(OSError):
            if os.path.samestat(os.stat(self._folder), os.fstat(self._descriptor)):
                return
        now = os.readlink(f"/proc/self/fd/{self._descriptor}")
        where = f"if it was renamed, go on there: {command('resume', now)}"
        if now.endswith(" (deleted)"):
            where = "what was in it cannot be saved; train again"
        raise FolderGone(
            f"{self._folder} was deleted or renamed while the run went on, so the run "
            f"ends: {where}"
        )

    def close(self) -> None:
        """Let it go."""
        os.close(self._descriptor)


def new_run(folder: Path | None, game: str) -> Path:
    """Make and return the folder of a new run; by default the next free one in runs/."""
    for path in [folder] if folder else _names(game):
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            if folder is None:
                continue  # whoever makes it first has it
            raise ConfigError(
                f"{path} exists already: choose another folder with --run, or delete it."
            ) from error
        except OSError as error:
            raise ConfigError(
                f"cannot make the run folder {path} ({error.strerror}): choose another "
                "with --run."
            ) from error
        return path
    raise AssertionError("names never end")


def _names(game: str) -> Iterator[Path]:
    name = re.sub(r"\W+", "-", game.rsplit("/", 1)[-1]).strip("-").lower() or "run"
    return (RUNS / f"{name}-{number}" for number in itertools.count(1))


def no_run(path: Path) -> ConfigError:
    """Return the error for a path that is no run."""
    if seeds := seeds_of(path):
        return ConfigError(
            f"{path} is a folder of seeds: name one of them, such as {seeds[0]}, or open "
            "all with Run.seeds."
        )
    if not is_folder(path):
        return ConfigError(
            f"{path} is no run: there is no such folder; name the folder of a run."
        )
    if is_file(path / SEEDS):
        return ConfigError(f"no seed of {path} has begun yet: {command('resume', path)}")
    return ConfigError(
        f"{path} is no run: it has no {CONFIG}; name the folder of a run. If a run was "
        "killed here before it began, delete the folder and train again."
    )


def is_run(path: Path) -> bool:
    """Whether a folder holds a run, or several seeds of one."""
    return is_file(path / CONFIG) or bool(seeds_of(path))


def seeds_of(path: Path) -> list[Path]:
    """Return the runs in a folder of seeds, in order; empty if it is none."""
    found = {
        int(number): p
        for p in entries(path)
        if (number := p.name.removeprefix("seed-")).isdecimal()
        and p.name.startswith("seed-")
        and is_file(p / CONFIG)
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
            if os.path.islink(Path(folder) / name):
                raise ConfigError(
                    f"{Path(folder) / name} is a link, and a run must not have any: put "
                    "the file itself there."
                )
