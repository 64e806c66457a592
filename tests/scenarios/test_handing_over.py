"""Changing who computes in the middle of a run changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.runs.session import Session
from rookery.training import autoscale as tuning
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import HUNT, SMALL, notes, run_through, session_of, wait_for

pytestmark = pytest.mark.processes

LONG = {"rounds": 14}
SPEAKER = "pettingzoo:mpe2.simple_speaker_listener_v4"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "pipelined": ("treasurehunt", {**HUNT, **LONG, "replay.kind": "prioritised"}),
    "sync, replayed": (SPEAKER, {**SMALL, **LONG, "schedule": "sync"}),
    "async": ("treasurehunt", {**HUNT, **LONG, "schedule": "async", "max_lag": 4}),
}


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes look worth it after three rounds, and slow after three more."""
    monkeypatch.setattr(tuning, "cores", lambda: 2)
    monkeypatch.setattr(tuning, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "START_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "OVERHEAD", 0.01)
    slow = property(lambda autoscaler: len(autoscaler._pooled) == 3)
    monkeypatch.setattr(tuning.Autoscaler, "is_slower", slow)


class Watcher:
    """Waits at each border until a crew that is starting is ready; notes who computes."""

    def __init__(self, session: Session) -> None:
        self.engine, self.seen = session.training.executor, ""

    def __call__(self, one: Round) -> None:
        self.seen += "c" if isinstance(self.engine.now, ProcessPool) else "1"
        if (coming := self.engine._starting) is not None:
            wait_for(lambda: coming.is_ready)


@pytest.mark.shows("A7", "E6")
@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize("case", CASES)
def test_auto_goes_to_several_processes_and_back_within_a_run(
    case: str, alone: Callable[..., str], tmp_path: Path
) -> None:
    game, settings = CASES[case]
    session = session_of(game, tmp_path, **settings, workers="auto")
    watcher = Watcher(session)

    run = run_through(session, watcher)

    assert watcher.seen.strip("1") == "ccc"
    assert watcher.seen.startswith("1111")
    assert watcher.seen.endswith("1")
    said = notes(tmp_path)
    assert "workers=auto: 1 worker" in said or "workers=auto: 2 workers" in said
    assert "back to one process: several turned out to be slower here." in said
    assert len(run.metrics()["round"].unique()) == LONG["rounds"]
    if settings.get("schedule") != "async":
        assert run.digest()["run"] == alone(game, **settings)
