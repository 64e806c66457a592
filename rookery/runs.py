"""A run is a folder: what it was asked to do, and what came of it."""

from __future__ import annotations

import re
from pathlib import Path

from rookery.errors import ConfigError

RUNS = Path("runs")


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
