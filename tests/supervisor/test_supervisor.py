"""The supervisor, with fake processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rookery.errors import GameError, RookeryError
from rookery.shm.block import Block
from rookery.shm.counters import Counters, beat_of, version_of
from rookery.supervisor import supervisor as module
from rookery.supervisor.child import USER_ERROR
from rookery.supervisor.supervisor import CannotStart, Limits, ProcessFailed, Supervisor

PROGRESS = {"actor": "snapshot", "worker 0": version_of("0")}
NAMES = [*map(beat_of, PROGRESS), *PROGRESS.values()]
KILLED = {"kind": "death", "line": "it was killed by SIGKILL", "traceback": ""}


class FakeChild:
    """A process that lives until the test ends it."""

    pid = 100

    def __init__(self, role: str) -> None:
        self.role, self.is_dead, self.is_closed = role, False, False
        FakeChild.pid += 1
        self.pid = FakeChild.pid

    def die(self, code: int = -9, error: dict[str, str] = KILLED) -> None:
        self.is_dead, self._code, self._error = True, code, error

    def code(self) -> int:
        return self._code

    def error(self) -> dict[str, str]:
        return self._error

    def kill(self) -> None:
        self.die()

    def dump_stacks(self) -> str:
        return "its stacks"

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Supervised:
    """A supervisor of fake processes, and a clock that the test sets."""

    def __init__(self, limit: int = 2) -> None:
        block = Block.create(Counters.layout(NAMES))
        self.block, self.counters, self.now = block, Counters(block), 0.0
        self.events: list[tuple[str, str]] = []
        self.children: list[FakeChild] = []
        self.refuses = False
        self.supervisor = Supervisor(
            self.launch, self.counters, PROGRESS, Limits(limit, 50.0), self.tell
        )

    def launch(self, role: str) -> Any:
        if self.refuses:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.children.append(FakeChild(role))
        return self.children[-1]

    def tell(self, event: str, role: str, **details: Any) -> None:
        self.events.append((event, role))

    def start(self) -> None:
        self.supervisor.start(["actor", "worker 0"])
        self.supervisor.mark_begun()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.supervisor.watch()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervised]:
    run = Supervised()
    monkeypatch.setattr(module.time, "monotonic", lambda: run.now)
    yield run
    run.supervisor.close()
    run.block.close()


@pytest.mark.shows("F1")
def test_a_dead_process_is_restarted_after_a_delay(run: Supervised) -> None:
    run.start()
    run.children[0].die()

    run.pass_time(0)
    assert run.supervisor.processes().keys() == {"worker 0"}
    run.pass_time(0.2)

    assert run.supervisor.processes()["actor"] == run.children[2].pid
    assert run.events[2:] == [("death", "actor"), ("restart", "actor")]
    assert run.children[0].is_closed


@pytest.mark.shows("F1")
def test_too_many_deaths_without_progress_end_the_run_with_the_reason(
    run: Supervised,
) -> None:
    run.start()

    for dead in (0, 2):
        run.children[dead].die()
        run.pass_time(1.0)
        run.pass_time(1.0)
    run.children[3].die()

    with pytest.raises(ProcessFailed, match=r"the actor died 3 times.* killed by SIGKILL"):
        run.supervisor.watch()


def test_a_process_that_makes_progress_between_deaths_can_die_often(
    run: Supervised,
) -> None:
    run.start()

    for boundary in range(1, 8):
        actor = next(c for c in reversed(run.children) if c.role == "actor")
        run.counters.store("snapshot", boundary)
        run.pass_time(1.0)
        actor.die()
        run.pass_time(1.0)
        run.pass_time(1.0)

    assert [event for event, _ in run.events].count("restart") == 7


@pytest.mark.shows("A9")
def test_a_restart_that_the_system_refuses_is_tried_again_later(run: Supervised) -> None:
    run.start()
    run.children[0].die()
    run.refuses = True
    run.pass_time(0)
    run.pass_time(0.2)
    assert "actor" not in run.supervisor.processes()

    run.refuses = False
    run.pass_time(1.0)

    assert "actor" in run.supervisor.processes()


def test_an_error_that_the_user_can_fix_is_raised_as_the_same_kind(run: Supervised) -> None:
    run.start()
    run.children[0].die(USER_ERROR, {"kind": "GameError", "line": "no", "traceback": "…"})

    with pytest.raises(GameError, match="no"):
        run.supervisor.watch()


def test_an_error_of_an_unknown_kind_is_raised_as_a_rookery_error(
    run: Supervised,
) -> None:
    run.start()
    run.children[0].die(USER_ERROR, {"kind": "nearest", "line": "no", "traceback": "…"})

    with pytest.raises(RookeryError, match="no"):
        run.supervisor.watch()


@pytest.mark.shows("F1")
def test_a_process_that_dies_while_loading_is_restarted(run: Supervised) -> None:
    run.supervisor.start(["actor", "worker 0"])
    run.counters.note(beat_of("actor"), 1)
    run.children[1].die()

    run.pass_time(0)
    assert not run.supervisor.is_ready
    run.pass_time(0.2)

    assert run.supervisor.processes()["worker 0"] == run.children[2].pid
    assert not run.supervisor.is_ready
    run.counters.note(beat_of("worker 0"), 1)
    assert run.supervisor.is_ready


def test_a_process_that_dies_too_often_before_the_work_began_cannot_be_started(
    run: Supervised,
) -> None:
    run.supervisor.start(["actor", "worker 0"])

    for dead in (1, 2):
        run.children[dead].die()
        run.pass_time(1.0)
        run.pass_time(1.0)
    run.children[3].die()

    with pytest.raises(
        CannotStart, match="worker 0 died before it started to work: it was"
    ):
        run.supervisor.watch()


@pytest.mark.shows("F3")
def test_a_process_that_hangs_while_loading_is_killed_and_restarted(
    run: Supervised,
) -> None:
    run.supervisor.start(["actor", "worker 0"])
    run.counters.note(beat_of("actor"), 1)

    for second in range(1, 304):
        run.counters.note(beat_of("actor"), second)
        run.pass_time(1.0)

    events = [event for event, role in run.events if role == "worker 0"]
    assert events == ["start", "silent", "death", "restart"]


def test_if_one_process_is_refused_none_is_started(run: Supervised) -> None:
    launch, run.refuses = run.launch, False

    def launch_one(role: str) -> Any:
        run.refuses = bool(run.children)
        return launch(role)

    run.supervisor._launch = launch_one

    with pytest.raises(CannotStart, match=r"worker 0 could not be started \(\[Errno 11\]"):
        run.supervisor.start(["actor", "worker 0"])

    assert run.children[0].is_dead
    assert run.children[0].is_closed


@pytest.mark.shows("F6")
def test_a_death_at_the_very_end_is_logged_too(run: Supervised) -> None:
    run.start()
    run.children[1].die()

    run.supervisor.close()

    assert run.events[-1] == ("death", "worker 0")
    assert all(child.is_closed for child in run.children)


def test_a_process_that_has_finished_is_not_restarted(run: Supervised) -> None:
    run.start()
    run.children[1].die(0)

    run.pass_time(0)
    run.pass_time(100)

    assert run.events[2:] == [("end", "worker 0")]
    assert run.supervisor.processes().keys() == {"actor"}


def test_a_run_is_ready_when_all_processes_have_given_a_sign_of_life(
    run: Supervised,
) -> None:
    run.supervisor.start(["actor", "worker 0"])
    run.counters.note(beat_of("actor"), 1)
    assert not run.supervisor.is_ready

    run.counters.note(beat_of("worker 0"), 1)

    assert run.supervisor.is_ready


@pytest.mark.shows("F3")
def test_a_process_that_gives_no_sign_of_life_is_killed_and_restarted(
    run: Supervised,
) -> None:
    run.start()
    for second in range(1, 50):
        run.counters.note(beat_of("actor"), 1)
        run.counters.note(beat_of("worker 0"), second)
        run.pass_time(1.0)
    assert ("silent", "actor") not in run.events

    for second in range(50, 55):
        run.counters.note(beat_of("worker 0"), second)
        run.pass_time(1.0)

    events = [event for event, role in run.events if role == "actor"]
    assert events == ["start", "ready", "silent", "death", "restart"]
    assert ("silent", "worker 0") not in run.events
