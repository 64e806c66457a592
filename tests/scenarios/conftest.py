"""Helpers for tests with real processes: start a run, wait for an event, inject a fault."""

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
from rookery.training.autoscale import Autoscaler, Choice
from rookery.training.round_model import ONE, Processes
from rookery.training.training import Round

FILES = Path(__file__).parent / "files"
PATIENCE = 100.0
"""Seconds after which something that must happen counts as not happening."""
FAULTY_GAME = f"{FILES / 'faulty.py'}:Rooms"
FAULTY_ALGORITHM = f"{FILES / 'faulty.py'}:LinearQ"


@pytest.fixture(scope="session")
def reference_digest(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return a function that gives the digest of an undisturbed run in one process.

    Each is computed once.
    """
    digests: dict[str, str] = {}

    def digest(game: str, **settings: Any) -> str:
        key = json.dumps([game, settings], sort_keys=True)
        if key not in digests:
            folder = tmp_path_factory.mktemp("reference") / "run"
            run = rookery.train(game, run=folder, **{**settings, "workers": 0})
            digests[key] = run.digest()["run"]
        return digests[key]

    return digest


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which files request faults of `files/faulty.py`."""
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("FAULTS", str(folder))
    return folder


def session_of(game: str, folder: Path, **settings: Any) -> Session:
    """Return a run that has not started yet, to be inspected while it runs."""
    entry, config = configure(game, settings=settings)
    folder.mkdir(parents=True, exist_ok=True)
    return Session(entry, config, folder)


def run_through(
    session: Session, after_round: Callable[[Round], None] = lambda _: None
) -> rookery.Run:
    """Train a session to its end and return the run."""
    session.run(after_round)
    return rookery.Run(session.folder, session.config.game.name)


def events(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a run in order, all or those of one kind."""
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [x for x in map(json.loads, lines) if kind in (None, x["event"])]


def notes(folder: Path) -> str:
    """Return the notes of a run, one per line."""
    return "\n".join(event["line"] for event in events(folder, "note"))


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until a condition is true and return its value; fail if it never is."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.005)
    return value


def is_alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def open_files() -> set[str]:
    """Return the open descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))


def decide_on_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `workers=auto` use one worker from the first round on."""
    choice = Choice(Processes(1, 1), "one worker, since the test says so")

    def decide(autoscaler: Autoscaler, rounds_left: int) -> Choice | None:
        return choice if autoscaler.now == ONE else None

    monkeypatch.setattr(Autoscaler, "decide", decide)


def updates_of(run: rookery.Run) -> dict[str, float]:
    """Return the number of updates of each agent."""
    table = run.metrics()
    if "updates" not in table:
        return {}
    return table.groupby("agent")["updates"].sum().to_dict()
