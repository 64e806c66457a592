"""Small settings for tests, and the smallest run of all.

`SMALL` is for any game: agents learn from the second round on, and a run takes about a
second. `HUNT` is the same for treasurehunt, with episodes that end between two boundaries.
`SETTINGS` are for the smallest run that leaves every kind of file, so that tests can damage
its files byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.runs.configure import configure
from rookery.runs.run import Run
from rookery.runs.session import Session

SMALL: dict[str, Any] = {
    "rounds": 6,
    "turns_per_round": 10,
    "worlds": 3,
    "frames": 2,
    "updates_per_round": 3,
    "batch_size": 8,
    "replay.warmup": 16,
    "replay.capacity": 120,
    "network.width": 23,
    "epsilon.steps": 100,
}
HUNT: dict[str, Any] = {**SMALL, "game.turns": 15}

GAME = "iterated_chicken"
SETTINGS: dict[str, Any] = {
    "rounds": 4,
    "turns_per_round": 2,
    "worlds": 1,
    "workers": 0,
    "updates_per_round": 1,
    "batch_size": 2,
    "frames": 1,
    "replay.capacity": 4,
    "replay.warmup": 2,
    "network.width": 1,
    "algorithm": "ppo",
    "checkpoints.every_rounds": 1,
    "agents": {"1": {"player": "random"}},
}


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as arguments of the command line."""
    return [f"{key}={value}" for key, value in settings.items()]


def session_of(folder: Path, **settings: Any) -> Session:
    """Return the smallest run, not yet started."""
    entry, config = configure(GAME, settings=SETTINGS | settings)
    folder.mkdir()
    return Session(entry, config, folder)


def train(folder: Path, **settings: Any) -> Run:
    """Train the smallest run."""
    session_of(folder, **settings).run(lambda _: None)
    return Run(folder)
