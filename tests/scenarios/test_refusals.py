"""Processes that cannot be had: the run goes on with what there is, and says so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.supervisor import launcher
from rookery.training import autoscale as tuning
from rookery.training.training import Round
from tests.scenarios.conftest import (
    HUNT,
    events,
    notes,
    run_through,
    session_of,
    wait_for,
)

pytestmark = pytest.mark.processes


def refuse_from(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system refuse the n-th process that is asked for, once; 0: all of them."""
    popen, asked = subprocess.Popen, []

    def start(*command: Any, **more: Any) -> subprocess.Popen[bytes]:
        asked.append(command)
        if number in (0, len(asked)):
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return popen(*command, **more)

    monkeypatch.setattr(launcher.subprocess, "Popen", start)


@pytest.mark.shows("A9")
def test_when_a_process_is_refused_the_run_goes_on_with_fewer(
    alone: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_from(3, monkeypatch)
    session = session_of("treasurehunt", tmp_path, **HUNT, workers=2)

    run = run_through(session)

    refused = "worker 1 could not be started ([Errno 11] Resource temporarily unavailable)"
    assert notes(tmp_path) == f"{refused}; the run continues with 1 worker."
    assert session.training.executor.notes == [notes(tmp_path)]
    assert [one["role"] for one in events(tmp_path, "start")][-2:] == ["actor", "worker 0"]
    assert run.digest()["run"] == alone("treasurehunt", **HUNT)


@pytest.mark.shows("A9")
def test_when_every_process_is_refused_the_run_goes_on_in_one(
    alone: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_from(0, monkeypatch)

    run = run_through(session_of("treasurehunt", tmp_path, **HUNT, workers=2))

    assert "the run continues with 1 worker." in notes(tmp_path)
    assert notes(tmp_path).endswith("the run continues with one process.")
    assert run.digest()["run"] == alone("treasurehunt", **HUNT)


ONCE = {"restarts.limit": 1}
"""How often one may die that dies every time: so the tests are quick."""


@pytest.fixture
def _children_that_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(launcher.ONE_THREAD, "PYTHONHOME", "/nonexistent")


@pytest.mark.shows("A9")
@pytest.mark.usefixtures("_children_that_break")
def test_when_processes_die_at_once_the_run_goes_on_in_one(
    alone: Callable[..., str], tmp_path: Path
) -> None:
    session = session_of("treasurehunt", tmp_path, **HUNT, **ONCE, workers=1)

    run = run_through(session)

    said = notes(tmp_path)
    assert "did not get as far as working: it ended with exit code 1" in said
    assert said.endswith("the run continues in one process.")
    assert run.digest()["run"] == alone("treasurehunt", **HUNT)


@pytest.mark.shows("A9")
@pytest.mark.usefixtures("_children_that_break")
def test_when_processes_die_that_auto_asked_for_the_run_goes_on_in_one(
    alone: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tuning.Autoscaler, "has_enough", property(lambda autoscaler: True))
    choice = tuning.WorkerChoice(1, "one worker, since the test says so")
    monkeypatch.setattr(tuning.Autoscaler, "decide", lambda autoscaler, rounds: choice)
    never = {"restarts.limit": 0}  # the run would be over before they were started again
    session = session_of("treasurehunt", tmp_path, **HUNT, **never, workers="auto")

    def until_they_died(one: Round) -> None:
        coming = session.training.executor._starting
        if coming is not None:
            children = coming.supervisor._children.values()
            wait_for(lambda: all(child.is_dead for child in children))

    run = run_through(session, until_they_died)

    assert notes(tmp_path).endswith("the run continues in one process.")
    assert run.digest()["run"] == alone("treasurehunt", **HUNT)
