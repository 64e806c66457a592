"""What a process is given, and what it is: plain data, shared memory, one thread."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import (
    HAUNTED,
    HUNT,
    LINEAR,
    SMALL,
    run_through,
    session_of,
)

pytestmark = pytest.mark.processes

TICKS = os.sysconf("SC_CLK_TCK")


def busy_threads(pid: int) -> int:
    """Return how many threads of a process have computed for longer than a moment."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        user = int((task / "stat").read_text().rpartition(")")[2].split()[11])
        found += user > 0.05 * TICKS
    return found


def shared_by(pid: int) -> set[int]:
    """Return the anonymous files that a process has open, by their numbers."""
    folder = Path(f"/proc/{pid}/fd")
    found = set()
    for link in folder.iterdir():
        if os.readlink(link).startswith("/memfd:rookery"):
            found.add(os.stat(link).st_ino)
    return found


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was seen of the processes of a run, from outside and from inside."""
    folder = tmp_path_factory.mktemp("look")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAPS", str(folder))
        (folder / "spy").touch()
        settings = {**SMALL, "game.agents": 2, "algorithm": LINEAR}
        session = session_of(HAUNTED, folder / "run", **settings, workers=2)
        found: dict[str, Any] = {"arena": session.training.arena}
        found["blocks"] = {
            name: os.fstat(one["descriptor"]).st_ino
            for name, one in session.training.arena.describe().items()
        }

        def look(one: Round) -> None:
            pool = session.training.executor.now
            assert isinstance(pool, ProcessPool)
            pids = pool.supervisor.processes()
            if one.number == 3:
                found["pids"], found["hosted"] = pids, pool.hosted
                found["busy"] = {role: busy_threads(pid) for role, pid in pids.items()}
                found["shared"] = {role: shared_by(pid) for role, pid in pids.items()}

        run_through(session, look)
    lines = [x for path in folder.glob("spy-*") for x in path.read_text().splitlines()]
    found["said"] = [json.loads(line) for line in lines]
    return found


@pytest.mark.shows("A3", "E4")
def test_every_process_acts_and_learns_in_its_only_thread(
    looked_at: dict[str, Any],
) -> None:
    said = looked_at["said"]

    assert {one["kind"] for one in said} == {"game", "learner"}
    assert all(one["threads"] == ["MainThread"] for one in said)
    assert looked_at["busy"] == {"actor": 1, "worker 0": 1, "worker 1": 1}


@pytest.mark.shows("A3", "E2")
def test_playing_and_learning_are_processes_of_their_own(looked_at: dict[str, Any]) -> None:
    pids = looked_at["pids"]
    game = {one["pid"] for one in looked_at["said"] if one["kind"] == "game"}
    learner = {one["pid"] for one in looked_at["said"] if one["kind"] == "learner"}

    (hosting_one,) = [role for role, agents in looked_at["hosted"].items() if 1 in agents]
    assert game - {os.getpid()} == {pids["actor"]}
    assert learner - {os.getpid()} == {pids[hosting_one]}
    assert len({*pids.values(), os.getpid()}) == 4


@pytest.mark.shows("A1", "A5", "B1")
def test_a_worker_shares_the_replays_and_states_of_its_own_agents_only(
    looked_at: dict[str, Any],
) -> None:
    blocks, shared = looked_at["blocks"], looked_at["shared"]
    own = {name for name in blocks if name.split()[0] in ("rows", "state")}

    assert own == {"rows 0", "rows 1", "state 0", "state 1"}
    assert set(blocks.values()) <= shared["actor"]
    for role, (agent,) in looked_at["hosted"].items():
        has = {name for name, number in blocks.items() if number in shared[role]}
        assert has & own == {f"rows {agent}", f"state {agent}"}
        assert "words" in has


@pytest.mark.shows("B1")
def test_memory_on_disk_gives_the_same_bits_and_lies_in_the_runs_folder(
    alone: Callable[..., str], tmp_path: Path
) -> None:
    session = session_of("treasurehunt", tmp_path, **HUNT, storage="disk", workers=1)
    planned = session.training.arena.bytes
    files = {p.name: p.stat().st_size for p in (tmp_path / "memory").iterdir()}

    run = run_through(session)

    assert sum(files.values()) == planned
    assert {name.split("-")[0] for name in files} >= {"rows", "state", "words"}
    assert isinstance(run, rookery.Run)
    assert run.digest()["run"] == alone("treasurehunt", **HUNT)
