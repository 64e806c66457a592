"""What the processes of a run share, and what they do not: memory, threads, agents."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.training import executors
from rookery.training.executors import ProcessPool
from rookery.training.training import Round
from tests.scenarios.conftest import FAULTY_ALGORITHM, FAULTY_GAME, run_through, session_of
from tests.small import HUNT, SMALL

pytestmark = pytest.mark.processes

TICKS = os.sysconf("SC_CLK_TCK")


def busy_threads(pid: int) -> int:
    """Return how many threads of a process have used a noticeable processor time."""
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        user = int((task / "stat").read_text().rpartition(")")[2].split()[11])
        count += user > 0.05 * TICKS
    return count


def shared_by(pid: int) -> set[int]:
    """Return the inodes of the shared memory that a process has open."""
    folder = Path(f"/proc/{pid}/fd")
    inodes = set()
    for link in folder.iterdir():
        if os.readlink(link).startswith("/memfd:rookery"):
            inodes.add(os.stat(link).st_ino)
    return inodes


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Facts about the processes of a run, observed from outside and from inside."""
    folder = tmp_path_factory.mktemp("inspect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAULTS", str(folder))
        (folder / "inspect").touch()
        settings = {**SMALL, "game.agents": 2, "algorithm": FAULTY_ALGORITHM}
        session = session_of(FAULTY_GAME, folder / "run", **settings, workers=2)
        facts: dict[str, Any] = {}
        facts["blocks"] = {
            name: os.fstat(block["descriptor"]).st_ino
            for name, block in session.training.arena.describe().items()
        }

        def inspect(result: Round) -> None:
            pool = session.training.executor.now
            assert isinstance(pool, ProcessPool)
            pids = pool.supervisor.processes()
            if result.number == 3:
                facts["pids"], facts["hosted"] = pids, pool.hosted
                facts["busy"] = {role: busy_threads(pid) for role, pid in pids.items()}
                facts["shared"] = {role: shared_by(pid) for role, pid in pids.items()}

        run_through(session, inspect)
    lines = [x for path in folder.glob("inspect-*") for x in path.read_text().splitlines()]
    facts["reports"] = [json.loads(line) for line in lines]
    return facts


@pytest.mark.shows("A3", "E4")
def test_every_process_acts_and_learns_in_its_only_thread(
    facts: dict[str, Any],
) -> None:
    reports = facts["reports"]

    assert {report["kind"] for report in reports} == {"game", "learner"}
    assert all(report["threads"] == ["MainThread"] for report in reports)
    assert facts["busy"] == {"actor": 1, "worker 0": 1, "worker 1": 1}


@pytest.mark.shows("A3", "E2")
def test_playing_and_learning_happen_in_separate_processes(facts: dict[str, Any]) -> None:
    pids = facts["pids"]
    game = {x["pid"] for x in facts["reports"] if x["kind"] == "game"}
    learner = {x["pid"] for x in facts["reports"] if x["kind"] == "learner"}

    (worker,) = [role for role, agents in facts["hosted"].items() if 1 in agents]
    assert game - {os.getpid()} == {pids["actor"]}
    assert learner - {os.getpid()} == {pids[worker]}
    assert len({*pids.values(), os.getpid()}) == 4


@pytest.mark.shows("A1", "A5", "B1")
def test_a_worker_shares_the_replays_and_states_of_its_own_agents_only(
    facts: dict[str, Any],
) -> None:
    blocks, shared = facts["blocks"], facts["shared"]
    own = {name for name in blocks if name.split()[0] in ("rows", "state")}

    assert own == {"rows 0", "rows 1", "state 0", "state 1"}
    assert set(blocks.values()) <= shared["actor"]
    for role, (agent,) in facts["hosted"].items():
        open_blocks = {name for name, number in blocks.items() if number in shared[role]}
        assert open_blocks & own == {f"rows {agent}", f"state {agent}"}
        assert "words" in open_blocks


@pytest.mark.shows("B1")
def test_memory_on_disk_gives_the_same_bits_and_is_in_the_run_folder(
    reference_digest: Callable[..., str], tmp_path: Path
) -> None:
    session = session_of("treasurehunt", tmp_path, **HUNT, storage="disk", workers=1)
    planned = session.training.arena.bytes
    files = {p.name: p.stat().st_size for p in (tmp_path / "memory").iterdir()}

    run = run_through(session)

    assert sum(files.values()) == planned
    assert {name.split("-")[0] for name in files} >= {"rows", "state", "words"}
    assert isinstance(run, rookery.Run)
    assert run.digest()["run"] == reference_digest("treasurehunt", **HUNT)


@pytest.mark.shows("A7")
@pytest.mark.parametrize(
    "settings",
    [
        {"replay.kind": "prioritised", "reward.standardise": True},
        {"algorithm": "recurrent_ppo", "recurrent.width": 16, "recurrent.sequence": 5},
    ],
    ids=["prioritised", "recurrent, on-policy"],
)
def test_agents_that_workers_train_in_turn_have_the_same_bits(
    settings: dict[str, Any],
    reference_digest: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executors, "cores", lambda: 3)
    settings = {**HUNT, "rounds": 8, **settings}
    session = session_of("treasurehunt", tmp_path, **settings, workers=2)

    def inspect(result: Round) -> None:
        pool = session.training.executor.now
        assert isinstance(pool, ProcessPool)
        assert sorted(map(len, pool.hosted.values())) == [2, 2]  # of three agents

    run = run_through(session, inspect)

    assert run.digest()["run"] == reference_digest("treasurehunt", **settings)
