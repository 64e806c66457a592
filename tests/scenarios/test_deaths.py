"""Processes that die are replaced, and nothing is lost."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import GameError
from rookery.runs.session import Session
from rookery.storage.checkpoints import newest_whole
from rookery.supervisor.policies import StallPolicy
from rookery.supervisor.supervisor import ProcessFailed
from rookery.training import executors
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import (
    FAULTY_ALGORITHM,
    FAULTY_GAME,
    decide_on_one_worker,
    events,
    is_alive,
    open_files,
    run_through,
    session_of,
    wait_for,
)
from tests.small import HUNT, SMALL, overrides

pytestmark = pytest.mark.processes

KILLS = {2: ["actor"], 4: ["actor", "worker 0"]}
HANG_ROUND = 6
LONG = {**HUNT, "rounds": 8, "replay.kind": "prioritised", "reward.standardise": True}


BROKEN = """
from pathlib import Path
from rookery.games import gridworld as grid

class Broken(grid.GridGame):
    map = "P..."

    def declare(self):
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})
        if Path(__file__).with_name("run").exists():
            raise ValueError("no more paint")
"""


class Disturber:
    """Kills processes in the round after a boundary, and makes one hang."""

    def __init__(self, session: Session) -> None:
        self._pool, self.killed, self.said = session.training.executor, [], []
        session.say = self._hear

    def __call__(self, result: Round) -> None:
        assert isinstance(self._pool.now, ProcessPool)
        supervisor = self._pool.now.supervisor
        for role in KILLS.get(result.number, []):
            pid = wait_for(lambda role=role: self._pid_of(role))
            os.kill(pid, signal.SIGKILL)
            self.killed.append((role, pid))
        if result.number == HANG_ROUND:
            self._hung = wait_for(lambda: self._pid_of("worker 1"))
            supervisor.stalls = StallPolicy(0.5)
            os.kill(self._hung, signal.SIGSTOP)

    def _pid_of(self, role: str) -> int | None:
        supervisor = self._pool.now.supervisor
        supervisor.watch()  # restarts processes whose time has come
        return supervisor.processes().get(role)

    def _hear(self, line: str) -> None:
        self.said.append(line)
        os.kill(self._hung, signal.SIGCONT)


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Disturber]:
    session = session_of(
        "treasurehunt", tmp_path_factory.mktemp("runs") / "run", **LONG, workers=2
    )
    disturber = Disturber(session)
    run_through(session, disturber)
    return session, disturber


@pytest.mark.shows("B2", "A7")
def test_a_run_whose_processes_are_killed_ends_with_the_same_bits(
    disturbed: tuple[Session, Disturber], reference_digest: Callable[..., str]
) -> None:
    run = rookery.Run(disturbed[0].folder)

    assert len(disturbed[1].killed) == 3
    assert run.digest()["run"] == reference_digest("treasurehunt", **LONG)
    assert run.metrics()["round"].tolist() == [
        number for number in range(1, 9) for _ in range(3)
    ]


@pytest.mark.shows("B2", "A7")
def test_workers_killed_while_they_train_a_shared_agent_do_not_change_a_bit(
    reference_digest: Callable[..., str],
    faults: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {
        **HUNT,
        "rounds": 12,
        "algorithm": FAULTY_ALGORITHM,
        "agents": {"1": {"updates_per_round": 2}},  # the least work: it is shared
    }
    monkeypatch.setattr(executors, "cores", lambda: 4)
    session = session_of("treasurehunt", tmp_path / "run", **settings, workers=2)
    workers = ["worker 0", "worker 1"]

    def kill_each_worker_when_it_trains_agent_1(result: Round) -> None:
        pool = session.training.executor.now
        assert isinstance(pool, ProcessPool)
        assert [role for role in pool.hosted if 1 in pool.hosted[role]] == workers
        if result.number == 2:  # each of them trains it in every second round from here on
            for role in workers:
                (faults / f"learner-kill-{pool.supervisor.processes()[role]}").touch()

    run = run_through(session, kill_each_worker_when_it_trains_agent_1)

    assert sorted(event["role"] for event in events(run.path, "death")) == workers
    assert run.digest()["run"] == reference_digest("treasurehunt", **settings)


def attempts(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted((event["role"], event["attempt"]) for event in events)


def test_every_death_and_restart_is_recorded(
    disturbed: tuple[Session, Disturber],
) -> None:
    session, disturber = disturbed
    deaths, restarts = events(session.folder, "death"), events(session.folder, "restart")

    assert {(death["role"], death["pid"]) for death in deaths} == set(disturber.killed)
    assert attempts(deaths) == [("actor", 1), ("actor", 2), ("worker 0", 1)]
    assert attempts(restarts) == [("actor", 2), ("actor", 3), ("worker 0", 2)]
    for death in deaths:
        assert death["line"] == "it was killed by SIGKILL"
        failure = json.loads((session.folder / death["file"]).read_text())
        assert failure["pid"] == death["pid"]


@pytest.mark.shows("C2")
def test_a_version_that_stops_advancing_raises_an_alarm_once(
    disturbed: tuple[Session, Disturber],
) -> None:
    session, disturber = disturbed
    (alarm,) = events(session.folder, "stalled")

    assert alarm["role"] == "worker 1"
    assert alarm["pid"] == disturber._hung
    assert "the worker 1 has finished no round for" in alarm["line"]
    assert disturber.said == [f"warning: {alarm['line']}"]


@pytest.mark.shows("F3")
def test_a_process_that_hangs_is_replaced_and_nothing_is_lost(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    patience = {"restarts.silence": 2.0, "workers": 1}
    session = session_of("treasurehunt", tmp_path / "run", **LONG, **patience)

    def hang(result: Round) -> None:
        if result.number == 3:
            pool = session.training.executor.now
            assert isinstance(pool, ProcessPool)
            os.kill(pool.supervisor.processes()["actor"], signal.SIGSTOP)

    run_through(session, hang)

    actor = [e for e in events(session.folder) if e["role"] == "actor"]
    assert [e["event"] for e in actor] == [
        "start",
        "ready",
        "silent",
        "death",
        "restart",
        "ready",
        "end",
    ]
    assert "no sign of life for" in actor[2]["line"]
    assert rookery.Run(session.folder).digest()["run"] == reference_digest(
        "treasurehunt", **LONG
    )


@pytest.mark.shows("B2", "C1")
def test_a_death_in_mid_turn_or_between_two_agents_loses_nothing(
    reference_digest: Callable[..., str], faults: Path, tmp_path: Path
) -> None:
    settings = {**SMALL, "game.agents": 2, "algorithm": FAULTY_ALGORITHM}
    session = session_of(FAULTY_GAME, tmp_path / "run", **settings, workers=1)

    def request_fault(result: Round) -> None:
        if result.number == 2:
            (faults / "game-kill").touch()
        if result.number == 4:
            (faults / "learner-kill").touch()

    run = run_through(session, request_fault)

    died = [event["role"] for event in events(run.path, "death")]
    assert sorted(died) == ["actor", "worker 0"]
    assert run.digest()["run"] == reference_digest(FAULTY_GAME, **settings)


@pytest.mark.shows("F1", "F6")
def test_too_many_deaths_end_the_run_with_a_checkpoint_and_one_line_that_says_why(
    faults: Path, tmp_path: Path
) -> None:
    settings = {
        **SMALL,
        "game.agents": 2,
        "algorithm": FAULTY_ALGORITHM,
        "restarts.limit": 2,
    }
    session = session_of(FAULTY_GAME, tmp_path / "run", **settings, workers=1)

    def request_faults(result: Round) -> None:
        if result.number == 2:
            (faults / "learner-kill-always").touch()

    with pytest.raises(ProcessFailed) as failed:
        session.run(request_faults)

    deaths = events(session.folder, "death")
    assert len(deaths) == 3
    line = str(failed.value)
    assert line.startswith(
        "the worker 0 (agents 0, 1) died 3 times in a row, the last time"
    )
    assert "because it was killed by SIGKILL: see " in line
    assert f"see {deaths[-1]['file']} in the run's folder" in line
    assert failed.value.exit_code == 1
    assert newest_whole(session.folder / "checkpoints").manifest["round"] >= 2


@pytest.fixture
def _worker_killed_as_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the first worker as soon as it is started, long before it has loaded."""
    tell = Session._tell

    def and_kill(session: Session, event: str, role: str = "main", **more: Any) -> Any:
        if (event, role) == ("start", "worker 0"):
            os.kill(more["pid"], signal.SIGKILL)
        return tell(session, event, role, **more)

    monkeypatch.setattr(Session, "_tell", and_kill)


@pytest.mark.shows("B2", "F1")
@pytest.mark.usefixtures("_worker_killed_as_it_loads")
def test_a_worker_killed_while_it_loads_is_restarted(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    session = session_of("treasurehunt", tmp_path / "run", **HUNT, workers=2)

    run = run_through(session)

    worker = [e["event"] for e in events(run.path) if e["role"] == "worker 0"]
    assert worker == ["start", "death", "restart", "ready", "end"]
    assert events(run.path, "note") == []
    assert isinstance(session.training.executor.now, ProcessPool)
    assert run.digest()["run"] == reference_digest("treasurehunt", **HUNT)


@pytest.mark.shows("B2", "F1")
@pytest.mark.usefixtures("_worker_killed_as_it_loads")
def test_a_worker_of_auto_killed_while_it_loads_is_restarted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    decide_on_one_worker(monkeypatch)
    session = session_of("treasurehunt", tmp_path / "run", **HUNT, workers="auto")

    def until_ready(result: Round) -> None:
        coming = session.training.executor._starting
        if coming is not None:
            wait_for(lambda: coming.is_ready)

    run = run_through(session, until_ready)

    assert [e["attempt"] for e in events(run.path, "ready")].count(2) == 1
    assert isinstance(session.training.executor.now, ProcessPool)
    assert run.digest()["run"] == reference_digest("treasurehunt", **HUNT)


FRAIL = """
import os, signal
from pathlib import Path
from rookery.games import gridworld as grid

class Frail(grid.GridGame):
    map = "PPP..."
    rounds = 0

    def declare(self):
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})

    def begin_round(self, number):
        self.rounds += 1
        trap = Path(__file__).with_name("trap")
        if number == 3 and self.rounds == 1 and trap.exists():  # in the last match
            trap.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.shows("B2")
def test_an_actor_killed_in_the_last_match_plays_it_again(tmp_path: Path) -> None:
    (tmp_path / "frail.py").write_text(FRAIL)
    (tmp_path / "trap").touch()
    settings = {**SMALL, "rounds": 3, "game.turns": 5, "evaluate.every_rounds": 3}
    game = f"{tmp_path / 'frail.py'}:Frail"

    session = session_of(game, tmp_path / "run", **settings, workers=1)
    session.run(lambda _: None)

    assert not (tmp_path / "trap").exists()
    lines = (session.folder / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [3, 3]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_game_without_snapshots_restarts_its_episodes_and_the_run_is_marked_inexact(
    workers: int, faults: Path, tmp_path: Path
) -> None:
    folder, game = tmp_path / "run", FAULTY_GAME.replace("Rooms", "Forgetful")
    settings = {**SMALL, "game.agents": 2, "game.turns": 25, "workers": workers}
    session = session_of(game, folder, **settings)
    said: list[str] = []
    session.say = said.append

    def request_fault(result: Round) -> None:
        if result.number == 3 and workers:
            (faults / "game-kill").touch()
        elif result.number == 3:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        session.run(request_fault)
    if not workers:
        rookery.resume(folder, game=game)

    run = rookery.Run(folder, game)
    (mark,) = events(folder, "inexact")
    assert "open episodes were closed as truncated" in mark["line"]
    assert run.digest()["exact"] is False
    assert run.metrics()["round"].max() == SMALL["rounds"]
    assert said == ([f"warning: {mark['line']}"] if workers else [])


@pytest.mark.shows("F6")
def test_a_failure_in_main_is_recorded_with_its_traceback(
    faults: Path, tmp_path: Path
) -> None:
    settings = {**SMALL, "game.agents": 2, "workers": 0}
    session = session_of(FAULTY_GAME, tmp_path / "run", **settings)
    (faults / "game-raise").touch()

    with pytest.raises(GameError, match="requested by a test"):
        session.run(lambda _: None)

    (failure,) = events(session.folder, "failure")
    kept = json.loads((session.folder / failure["file"]).read_text())
    assert "ValueError: requested by a test" in kept["traceback"]


@pytest.mark.shows("F6")
def test_a_failure_while_a_run_is_built_is_recorded_with_its_traceback(
    tmp_path: Path,
) -> None:
    game = tmp_path / "broken.py"
    game.write_text(BROKEN)

    with pytest.raises(GameError, match="no more paint"):
        session_of(f"{game}:Broken", tmp_path / "run", **SMALL, workers=0)

    (failure,) = events(tmp_path / "run", "failure")
    kept = json.loads((tmp_path / "run" / failure["file"]).read_text())
    assert "broken.py" in kept["traceback"]


def pids_of(folder: Path) -> list[int]:
    return [event["pid"] for event in events(folder, "start") if event["role"] != "main"]


@pytest.mark.shows("F5", "B14")
def test_nothing_outlives_main_when_it_is_killed(tmp_path: Path) -> None:
    settings = overrides({**HUNT, "rounds": 100_000})
    command = [sys.executable, "-m", "rookery", "train", "treasurehunt", "workers=2"]
    names = os.listdir("/dev/shm")
    process = subprocess.Popen(
        [*command, *settings, "--run", "mine"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    metrics = tmp_path / "mine" / "metrics.jsonl"
    try:
        wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 3)
        pids = pids_of(tmp_path / "mine")
        assert len([pid for pid in pids if is_alive(pid)]) == 3
    finally:
        process.kill()
        process.wait()

    wait_for(lambda: not any(map(is_alive, pids)), seconds=1.0)
    assert os.listdir("/dev/shm") == names


@pytest.mark.shows("F5")
def test_a_run_that_ends_leaves_no_descriptor_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    session_of("treasurehunt", tmp_path / "first", **HUNT, workers=0).run(lambda _: None)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    gc.collect()
    before = open_files()

    session = session_of("treasurehunt", tmp_path / "run", **HUNT, workers=2)
    session.run(lambda _: None)
    del session

    gc.collect()
    assert open_files() == before
