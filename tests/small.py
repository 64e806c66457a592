"""The smallest real run, whose files can be damaged byte by byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.runs.configure import configure
from rookery.runs.run import Run
from rookery.runs.session import Session

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


def session_of(folder: Path, **settings: Any) -> Session:
    """Return a tiny run that has not started."""
    entry, config = configure(GAME, settings=SETTINGS | settings)
    folder.mkdir()
    return Session(entry, config, folder)


def train(folder: Path, **settings: Any) -> Run:
    """Train a tiny run."""
    session_of(folder, **settings).run(lambda one: None)
    return Run(folder)
