"""How the processes of a run are, seen from outside while it goes on."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from rookery.cli import app as cli
from rookery.runs.health import Health, health_of
from rookery.training.process_pool import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import events, is_alive, session_of, wait_for
from tests.small import HUNT

pytestmark = pytest.mark.processes


def of(found: list[Health]) -> dict[str, Health]:
    return {one.role: one for one in found}


@pytest.mark.shows("G3", "G2")
def test_the_health_of_every_process_is_seen_live_with_its_agents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = session_of("treasurehunt", tmp_path / "run", **HUNT, workers=2)
    seen: dict[str, dict[str, Health]] = {}

    def look(one: Round) -> None:
        pool = session.training.executor.now
        assert isinstance(pool, ProcessPool)
        if one.number == 2:
            seen["calm"] = of(health_of(session.folder))
        if one.number == 3:
            pid = pool.supervisor.processes()["worker 1"]
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: of(health_of(session.folder))["worker 1"].state == "stopped")
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not is_alive(pid))
            seen["killed"] = of(health_of(session.folder))
            with suppress(SystemExit):
                cli.main(["health", str(session.folder), "--json"])

    session.run(look)

    calm = seen["calm"]
    assert list(calm) == ["main", "actor", "worker 0", "worker 1"]
    assert {one.state for one in calm.values()} == {"working"}
    assert calm["main"].pid == os.getpid()
    assert sorted(calm["worker 0"].agents + calm["worker 1"].agents) == ["0", "1", "2"]
    assert all(one.mebibytes > 10 for one in calm.values())
    assert seen["killed"]["worker 1"].state == "dead"
    assert seen["killed"]["worker 0"].state == "working"
    told = json.loads(capsys.readouterr().out)
    assert [one["role"] for one in told["processes"]] == list(calm)
    assert told["round"] == 3
    after = of(health_of(session.folder))
    assert after["worker 1"].attempt == 2
    assert {one.state for one in after.values()} == {"ended"}


@pytest.mark.shows("G2")
def test_every_line_about_a_worker_says_whose_learners_it_hosts(tmp_path: Path) -> None:
    session = session_of("treasurehunt", tmp_path / "run", **HUNT, workers=1)
    session.run(lambda one: None)

    lines = [one for one in events(session.folder) if one["role"] == "worker 0"]
    assert lines
    assert all(one["agents"] == ["0", "1", "2"] for one in lines)
    for one in events(session.folder):
        assert {"time", "event", "role", "pid", "attempt"} <= set(one)


def test_health_of_what_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["health", str(tmp_path)])

    assert left.value.code == 2
    assert "is no run: it has no config.toml" in capsys.readouterr().err


def test_a_clock_that_went_back_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").touch()
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"round": 7}\n')
    os.utime(metrics, (2**33, 2**33))

    with suppress(SystemExit):
        cli.main(["health", str(tmp_path)])

    said = "round 7, written down later than now: the clock was set back\n"
    assert capsys.readouterr().out.endswith(said)
