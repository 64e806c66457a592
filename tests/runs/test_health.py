"""The status of the processes of a run, observed from outside during the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rookery.cli import app as cli
from rookery.runs.health import Health, health_of
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import events, is_alive, session_of, wait_for
from tests.small import HUNT

pytestmark = pytest.mark.processes


def by_role(processes: list[Health]) -> dict[str, Health]:
    return {process.role: process for process in processes}


@pytest.mark.shows("G3", "G2")
def test_the_health_of_every_process_is_seen_live_with_its_agents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = session_of("treasurehunt", tmp_path / "run", **HUNT, workers=2)
    seen: dict[str, dict[str, Health]] = {}

    def look(result: Round) -> None:
        pool = session.training.executor.now
        assert isinstance(pool, ProcessPool)
        if result.number == 2:
            seen["calm"] = by_role(health_of(session.folder))
        if result.number == 3:
            pid = pool.supervisor.processes()["worker 1"]
            os.kill(pid, signal.SIGSTOP)
            wait_for(
                lambda: by_role(health_of(session.folder))["worker 1"].state == "stopped"
            )
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not is_alive(pid))
            seen["killed"] = by_role(health_of(session.folder))
            with suppress(SystemExit):
                cli.main(["health", str(session.folder), "--json"])

    session.run(look)

    calm = seen["calm"]
    assert list(calm) == ["main", "actor", "worker 0", "worker 1"]
    assert {process.state for process in calm.values()} == {"working"}
    assert calm["main"].pid == os.getpid()
    assert sorted(calm["worker 0"].agents + calm["worker 1"].agents) == ["0", "1", "2"]
    assert all(process.mebibytes > 10 for process in calm.values())
    assert seen["killed"]["worker 1"].state == "dead"
    assert seen["killed"]["worker 0"].state == "working"
    status = json.loads(capsys.readouterr().out)
    assert [process["role"] for process in status["processes"]] == list(calm)
    assert status["round"] == 3
    after = by_role(health_of(session.folder))
    assert after["worker 1"].attempt == 2
    assert {process.state for process in after.values()} == {"ended"}


@pytest.mark.shows("G2")
def test_every_line_about_a_worker_says_whose_learners_it_hosts(tmp_path: Path) -> None:
    session = session_of("treasurehunt", tmp_path / "run", **HUNT, workers=1)
    session.run(lambda result: None)

    lines = [line for line in events(session.folder) if line["role"] == "worker 0"]
    assert lines
    assert all(line["agents"] == ["0", "1", "2"] for line in lines)
    for line in events(session.folder):
        assert {"time", "event", "role", "pid", "attempt"} <= set(line)


def test_a_folder_that_is_not_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["health", str(tmp_path)])

    assert left.value.code == 2
    assert "is not a run: it has no config.toml" in capsys.readouterr().err


def test_a_clock_that_was_set_back_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").touch()
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"round": 7}\n')
    os.utime(metrics, (2**33, 2**33))

    with suppress(SystemExit):
        cli.main(["health", str(tmp_path)])

    line = "last update: round 7, in the future: the clock was set back\n"
    assert capsys.readouterr().out.endswith(line)


def test_a_process_without_an_end_in_the_log_is_dead_if_it_is_gone(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    line = {"event": "start", "role": "main", "pid": process.pid, "attempt": 1}
    (tmp_path / "events.jsonl").write_text(json.dumps(line) + "\n")

    wait_for(lambda: health_of(tmp_path)[0].state == "dead")  # ended, not waited for
    process.wait()

    assert health_of(tmp_path) == [Health("main", process.pid, 1, [], "dead")]


def test_a_process_that_computes_uses_about_one_core(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    line = {"event": "start", "role": "main", "pid": process.pid, "attempt": 1}
    (tmp_path / "events.jsonl").write_text(json.dumps(line) + "\n")
    try:
        (health,) = health_of(tmp_path)
    finally:
        process.kill()
        process.wait()

    assert health.state == "working"
    assert 0.05 < health.processor < 1.5
    assert 1 < health.mebibytes < 1000
