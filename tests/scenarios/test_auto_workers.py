"""`workers=auto` switches between one process and several without changing a bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.runs.session import Session
from rookery.training import autoscale
from rookery.training.executors import ProcessPool
from rookery.training.round_model import Machine, Processes, RoundCosts, RunShape
from rookery.training.training import Round
from tests.scenarios.conftest import notes, run_through, session_of, wait_for
from tests.small import HUNT, SMALL

pytestmark = pytest.mark.processes

LONG = {"rounds": 20}
SPEAKER = "pettingzoo:mpe2.simple_speaker_listener_v4"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "pipelined": ("treasurehunt", {**HUNT, **LONG, "replay.kind": "prioritised"}),
    "sync, replayed": (SPEAKER, {**SMALL, **LONG, "schedule": "sync"}),
    "async": ("treasurehunt", {**HUNT, **LONG, "schedule": "async", "max_lag": 4}),
}


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make several processes look faster after three rounds, and slower once they run."""
    monkeypatch.setattr(autoscale, "cores", lambda: 2)
    monkeypatch.setattr(autoscale, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(autoscale, "START_SECONDS", 0.0)
    monkeypatch.setattr(autoscale, "fastest", _first_candidate)
    monkeypatch.setattr(autoscale, "BLOCK_ROUNDS", 1)
    monkeypatch.setattr(autoscale, "BLOCK_SECONDS", 0.0)
    monkeypatch.setattr(autoscale, "BLOCKS_TO_CHANGE", 3)
    monkeypatch.setattr(autoscale, "BLOCKS_TO_RETRY", 6)
    monkeypatch.setattr(autoscale, "SLOWER", 0.0)


def _first_candidate(
    costs: RoundCosts, run: RunShape, machine: Machine
) -> tuple[Processes, float]:
    """Take the fewest of several processes, as if rounds took no time with them."""
    return next(run.candidates(machine.cores)), 1e-9


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

    # To several processes, back when they are slower, and to several again.
    assert re.fullmatch("1{4,}ppp1{7,}p+1*", watcher.rounds)
    said = notes(tmp_path)
    assert len(re.findall("workers=auto: [12] workers?, because a round takes", said)) == 2
    assert "workers=auto: back to one process, because a round takes" in said
    assert len(run.metrics()["round"].unique()) == LONG["rounds"]
    if settings.get("schedule") != "async":
        assert run.digest()["run"] == reference_digest(game, **settings)
