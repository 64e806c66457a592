"""The folders of runs: creating and recognising them."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from rookery.errors import ConfigError
from rookery.local_code import is_local, short_name
from rookery.printing import command
from rookery.storage.access import entries, is_file, is_folder

RUNS = Path("runs")
CONFIG = "config.toml"
CHECKPOINTS = "checkpoints"
SWEEP = "sweep.json"
"""In the folder of a sweep, also of one that only has several seeds: its plan."""
SEEDS = "seeds.json"
"""What earlier versions wrote in place of it."""
MOST_NAMED = 4
"""Runs in a folder that an error names."""


def new_run(folder: Path | None, game: str) -> Path:
    """Create and return the folder of a new run; by default the next free one in runs/."""
    for path in [folder] if folder else _names(game):
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            if folder is None:
                continue  # taken by another run
            raise ConfigError(
                f"{path} exists already: choose another folder with --run, or delete it."
            ) from error
        except OSError as error:
            raise ConfigError(
                f"cannot create the run folder {path} ({error.strerror}): choose another "
                "with --run."
            ) from error
        return path
    raise AssertionError("names never end")


def _names(game: str) -> Iterator[Path]:
    game = short_name(game) if is_local(game) else game.rsplit("/", 1)[-1]
    name = re.sub(r"\W+", "-", game).strip("-").lower() or "run"
    return (RUNS / f"{name}-{number}" for number in itertools.count(1))


def no_run(path: Path) -> ConfigError:
    """Return the error for a path that is not a run."""
    if seeds := seeds_of(path):
        return ConfigError(
            f"{path} is a folder of seeds: name one of them, such as {seeds[0]}, or open "
            "all with Run.seeds."
        )
    if not is_folder(path):
        return ConfigError(f"{path} is not a run: no such folder.")
    if inner := runs_in(path):
        names = ", ".join(map(str, inner[:MOST_NAMED]))
        more = ", …" if len(inner) > MOST_NAMED else ""
        return ConfigError(
            f"{path} is not a run, but a folder that contains {names}{more}: name one of "
            "them."
        )
    if is_sweep(path):
        return ConfigError(f"no run of {path} has started yet: {command('resume', path)}")
    return ConfigError(
        f"{path} is not a run: it has no {CONFIG}. If a run was killed here before it "
        "started, delete the folder and train again."
    )


def runs_in(path: Path) -> list[Path]:
    """Return the runs and folders of seeds in a folder that is none of both."""
    return [] if is_run(path) else [inner for inner in entries(path) if is_run(inner)]


def is_run(path: Path) -> bool:
    """Whether a folder holds a run, or several seeds of one."""
    return is_file(path / CONFIG) or bool(seeds_of(path))


def is_sweep(path: Path) -> bool:
    """Whether a folder holds a sweep, or several seeds of one run."""
    return is_file(path / SWEEP) or is_file(path / SEEDS) or bool(seeds_of(path))


def seeds_of(path: Path) -> list[Path]:
    """Return the runs in a folder of seeds, in order; empty for other folders."""
    runs = {
        int(number): p
        for p in entries(path)
        if (number := p.name.removeprefix("seed-")).isdecimal()
        and p.name.startswith("seed-")
        and is_file(p / CONFIG)
    }
    return [runs[number] for number in sorted(runs)]


def refuse_links(path: Path) -> None:
    """Refuse a run that contains links.

    A link in a folder from elsewhere could make Rookery write or delete files outside it.

    Raises:
        ConfigError: naming the first link.
    """
    for folder, folders, files in os.walk(path):
        for name in [*folders, *files]:
            if os.path.islink(Path(folder) / name):
                raise ConfigError(
                    f"{Path(folder) / name} is a link, and a run must not contain links: "
                    "put the file itself there."
                )
