"""What tests with real processes share: small runs, and waiting for what must happen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.runs.configure import configure
from rookery.runs.session import Session
from rookery.training.training import Round

SMALL = {
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
HUNT = {**SMALL, "game.turns": 15}
FILES = Path(__file__).parent / "files"
PATIENCE = 100.0


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """The digest of a run in one process; each is computed once."""
    known: dict[str, str] = {}

    def digest(game: str, **settings: Any) -> str:
        key = json.dumps([game, settings], sort_keys=True)
        if key not in known:
            folder = tmp_path_factory.mktemp("alone") / "run"
            run = rookery.train(game, run=folder, **{**settings, "workers": 0})
            known[key] = run.digest()["run"]
        return known[key]

    return digest


def session_of(game: str, folder: Path, **settings: Any) -> Session:
    """Return a run that has not started, to be looked into while it goes on."""
    entry, config = configure(game, settings=settings)
    folder.mkdir(parents=True, exist_ok=True)
    return Session(entry, config, folder)


def run_through(
    session: Session, show: Callable[[Round], None] = lambda one: None
) -> rookery.Run:
    """Train a session to its end, and return what it left."""
    session.run(show)
    return rookery.Run(session.folder, session.config.game.name)


def events(folder: Path, event: str | None = None) -> list[dict[str, Any]]:
    """Return what happened to a run, in order."""
    lines = (folder / "events.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [one for one in found if event in (None, one["event"])]


def notes(folder: Path) -> str:
    return "\n".join(one["line"] for one in events(folder, "note"))


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Return what a condition gives once it is true; fail if it never is."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "what was waited for did not happen"
        time.sleep(0.005)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def updates_of(run: rookery.Run) -> dict[str, float]:
    """Return how many updates each agent made."""
    table = run.metrics()
    if "updates" not in table:
        return {}
    return table.groupby("agent")["updates"].sum().to_dict()


HAUNTED = f"{FILES / 'haunted.py'}:Rooms"
LINEAR = f"{FILES / 'haunted.py'}:LinearQ"


@pytest.fixture
def traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a file makes a process of the haunted game do something."""
    folder = tmp_path / "traps"
    folder.mkdir()
    monkeypatch.setenv("TRAPS", str(folder))
    return folder
