"""`workers=auto` switches between one process and several without changing a bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.runs.session import Session
from rookery.training import autoscale
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import notes, run_through, session_of, wait_for
from tests.small import HUNT, SMALL

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
    """Make several processes look faster after three rounds, slower after three more."""
    monkeypatch.setattr(autoscale, "cores", lambda: 2)
    monkeypatch.setattr(autoscale, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(autoscale, "START_SECONDS", 0.0)
    monkeypatch.setattr(autoscale, "OVERHEAD", 0.01)
    slow = property(lambda autoscaler: len(autoscaler._pooled) == 3)
    monkeypatch.setattr(autoscale.Autoscaler, "is_slower", slow)


class Watcher:
    """Waits at each boundary for starting processes; notes what computed the round."""

    def __init__(self, session: Session) -> None:
        self._executor, self.rounds = session.training.executor, ""
        """One letter per round: 1 for one process, p for a process pool."""

    def __call__(self, result: Round) -> None:
        self.rounds += "p" if isinstance(self._executor.now, ProcessPool) else "1"
        if (coming := self._executor._starting) is not None:
            wait_for(lambda: coming.is_ready)


@pytest.mark.shows("A7", "E6")
@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize("case", CASES)
def test_auto_switches_to_several_processes_and_back_within_a_run(
    case: str, reference_digest: Callable[..., str], tmp_path: Path
) -> None:
    game, settings = CASES[case]
    session = session_of(game, tmp_path, **settings, workers="auto")
    watcher = Watcher(session)

    run = run_through(session, watcher)

    assert watcher.rounds.strip("1") == "ppp"
    assert watcher.rounds.startswith("1111")
    assert watcher.rounds.endswith("1")
    said = notes(tmp_path)
    assert "workers=auto: 1 worker" in said or "workers=auto: 2 workers" in said
    assert "back to one process: several turned out to be slower here." in said
    assert len(run.metrics()["round"].unique()) == LONG["rounds"]
    if settings.get("schedule") != "async":
        assert run.digest()["run"] == reference_digest(game, **settings)
