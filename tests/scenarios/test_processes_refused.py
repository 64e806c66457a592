"""When the system refuses processes, a run continues with fewer and says so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.supervisor import launcher
from rookery.training.training import Round
from tests.scenarios.conftest import (
    decide_on_one_worker,
    events,
    notes,
    run_through,
    session_of,
    wait_for,
)
from tests.small import HUNT

pytestmark = pytest.mark.processes


def refuse(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse the process with this number, counted from 1; 0 refuses all."""
    popen, started = subprocess.Popen, []

    def start(*command: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(command)
        if number in (0, len(started)):
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return popen(*command, **options)

    monkeypatch.setattr(launcher.subprocess, "Popen", start)


@pytest.mark.shows("A9")
def test_when_a_process_is_refused_the_run_continues_with_fewer(
    reference_digest: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse(3, monkeypatch)
    session = session_of("treasurehunt", tmp_path, **HUNT, workers=2)

    run = run_through(session)

    refused = "worker 1 could not be started ([Errno 11] Resource temporarily unavailable)"
    assert notes(tmp_path) == f"{refused}; the run continues with 1 worker."
    assert session.training.executor.notes == [notes(tmp_path)]
    assert [event["role"] for event in events(tmp_path, "start")][-2:] == [
        "actor",
        "worker 0",
    ]
    assert run.digest()["run"] == reference_digest("treasurehunt", **HUNT)


@pytest.mark.shows("A9")
def test_when_every_process_is_refused_the_run_continues_in_one(
    reference_digest: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse(0, monkeypatch)

    run = run_through(session_of("treasurehunt", tmp_path, **HUNT, workers=2))

    assert "the run continues with 1 worker." in notes(tmp_path)
    assert notes(tmp_path).endswith("the run continues with one process.")
    assert run.digest()["run"] == reference_digest("treasurehunt", **HUNT)


ONCE = {"restarts.limit": 1}
"""A process that always dies is restarted once, so that the tests are quick."""


@pytest.fixture
def _children_that_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(launcher.ONE_THREAD, "PYTHONHOME", "/nonexistent")


@pytest.mark.shows("A9")
@pytest.mark.usefixtures("_children_that_break")
def test_when_processes_die_at_once_the_run_continues_in_one(
    reference_digest: Callable[..., str], tmp_path: Path
) -> None:
    session = session_of("treasurehunt", tmp_path, **HUNT, **ONCE, workers=1)

    run = run_through(session)

    said = notes(tmp_path)
    assert "died before it started to work: it ended with exit code 1" in said
    assert said.endswith("the run continues in one process.")
    assert run.digest()["run"] == reference_digest("treasurehunt", **HUNT)


@pytest.mark.shows("A9")
@pytest.mark.usefixtures("_children_that_break")
def test_when_processes_of_auto_die_the_run_continues_in_one(
    reference_digest: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    decide_on_one_worker(monkeypatch)
    never = {"restarts.limit": 0}  # the run would end before they were restarted
    session = session_of("treasurehunt", tmp_path, **HUNT, **never, workers="auto")

    def until_they_died(result: Round) -> None:
        coming = session.training.executor._starting
        if coming is not None:
            children = coming.supervisor._children.values()
            wait_for(lambda: all(child.is_dead for child in children))

    run = run_through(session, until_they_died)

    assert notes(tmp_path).endswith("the run continues in one process.")
    assert run.digest()["run"] == reference_digest("treasurehunt", **HUNT)
