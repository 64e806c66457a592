"""The supervisor's rules, with processes that only pretend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rookery.errors import GameError, RookeryError
from rookery.shm.block import Block
from rookery.shm.counters import Counters
from rookery.supervisor import supervisor as module
from rookery.supervisor.child import TOLD
from rookery.supervisor.supervisor import CannotStart, Limits, ProcessFailed, Supervisor

NAMES = ["actor beat", "worker 0 beat", "snapshot", "version 0"]
PROGRESS = {"actor": "snapshot", "worker 0": "version 0"}
KILLED = {"kind": "death", "line": "it was killed by SIGKILL", "traceback": ""}


class Pretended:
    """A process that lives until the test says otherwise."""

    pid = 100

    def __init__(self, role: str) -> None:
        self.role, self.is_dead, self.is_closed = role, False, False
        Pretended.pid += 1
        self.pid = Pretended.pid

    def die(self, code: int = -9, trouble: dict[str, str] = KILLED) -> None:
        self.is_dead, self._code, self._trouble = True, code, trouble

    def code(self) -> int:
        return self._code

    def trouble(self) -> dict[str, str]:
        return self._trouble

    def kill(self) -> None:
        self.die()

    def dump_stacks(self) -> str:
        return "where it was"

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Staff:
    """A supervisor of pretended processes, and a clock that the test turns."""

    def __init__(self, limit: int = 2) -> None:
        block = Block.create(Counters.layout(NAMES))
        self.block, self.counters, self.now = block, Counters(block), 0.0
        self.told: list[tuple[str, str]] = []
        self.made: list[Pretended] = []
        self.refuses = False
        self.boss = Supervisor(
            self.launch, self.counters, PROGRESS, Limits(limit, 50.0), self.tell
        )

    def launch(self, role: str) -> Any:
        if self.refuses:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.made.append(Pretended(role))
        return self.made[-1]

    def tell(self, event: str, role: str, **more: Any) -> None:
        self.told.append((event, role))

    def start(self) -> None:
        self.boss.start(["actor", "worker 0"])
        self.boss.begun()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.boss.watch()


@pytest.fixture
def staff(monkeypatch: pytest.MonkeyPatch) -> Iterator[Staff]:
    made = Staff()
    monkeypatch.setattr(module.time, "monotonic", lambda: made.now)
    yield made
    made.boss.close()
    made.block.close()


@pytest.mark.shows("F1")
def test_a_dead_process_is_started_again_after_a_while(staff: Staff) -> None:
    staff.start()
    staff.made[0].die()

    staff.pass_time(0)
    assert staff.boss.processes().keys() == {"worker 0"}
    staff.pass_time(0.2)

    assert staff.boss.processes()["actor"] == staff.made[2].pid
    assert staff.told[2:] == [("death", "actor"), ("restart", "actor")]
    assert staff.made[0].is_closed


@pytest.mark.shows("F1")
def test_too_many_deaths_without_progress_end_the_run_with_the_reason(
    staff: Staff,
) -> None:
    staff.start()

    for dead in (0, 2):
        staff.made[dead].die()
        staff.pass_time(1.0)
        staff.pass_time(1.0)
    staff.made[3].die()

    with pytest.raises(ProcessFailed, match=r"the actor died 3 times.* killed by SIGKILL"):
        staff.boss.watch()


def test_a_process_that_gets_on_between_deaths_may_die_often(staff: Staff) -> None:
    staff.start()

    for boundary in range(1, 8):
        actor = next(one for one in reversed(staff.made) if one.role == "actor")
        staff.counters.store("snapshot", boundary)
        staff.pass_time(1.0)
        actor.die()
        staff.pass_time(1.0)
        staff.pass_time(1.0)

    assert [event for event, _ in staff.told].count("restart") == 7


@pytest.mark.shows("A9")
def test_a_restart_that_the_system_refuses_is_tried_again_later(staff: Staff) -> None:
    staff.start()
    staff.made[0].die()
    staff.refuses = True
    staff.pass_time(0)
    staff.pass_time(0.2)
    assert "actor" not in staff.boss.processes()

    staff.refuses = False
    staff.pass_time(1.0)

    assert "actor" in staff.boss.processes()


def test_what_a_user_can_put_right_is_raised_as_what_it_is(staff: Staff) -> None:
    staff.start()
    staff.made[0].die(TOLD, {"kind": "GameError", "line": "no", "traceback": "…"})

    with pytest.raises(GameError, match="no"):
        staff.boss.watch()


def test_an_error_of_another_kind_is_still_one_the_user_can_put_right(
    staff: Staff,
) -> None:
    staff.start()
    staff.made[0].die(TOLD, {"kind": "nearest", "line": "no", "traceback": "…"})

    with pytest.raises(RookeryError, match="no"):
        staff.boss.watch()


@pytest.mark.shows("F1")
def test_who_dies_while_it_loads_is_started_again(staff: Staff) -> None:
    staff.boss.start(["actor", "worker 0"])
    staff.counters.note("actor beat", 1)
    staff.made[1].die()

    staff.pass_time(0)
    assert not staff.boss.is_ready
    staff.pass_time(0.2)

    assert staff.boss.processes()["worker 0"] == staff.made[2].pid
    assert not staff.boss.is_ready
    staff.counters.note("worker 0 beat", 1)
    assert staff.boss.is_ready


def test_who_dies_too_often_before_the_work_began_cannot_be_started(staff: Staff) -> None:
    staff.boss.start(["actor", "worker 0"])

    for dead in (1, 2):
        staff.made[dead].die()
        staff.pass_time(1.0)
        staff.pass_time(1.0)
    staff.made[3].die()

    with pytest.raises(CannotStart, match="worker 0 did not get as far as working: it was"):
        staff.boss.watch()


@pytest.mark.shows("F3")
def test_who_hangs_while_it_loads_is_ended_and_started_again(staff: Staff) -> None:
    staff.boss.start(["actor", "worker 0"])
    staff.counters.note("actor beat", 1)

    for second in range(1, 304):
        staff.counters.note("actor beat", second)
        staff.pass_time(1.0)

    events = [event for event, role in staff.told if role == "worker 0"]
    assert events == ["start", "silent", "death", "restart"]


def test_when_one_is_refused_nobody_is_started(staff: Staff) -> None:
    launch, staff.refuses = staff.launch, False

    def one_only(role: str) -> Any:
        staff.refuses = bool(staff.made)
        return launch(role)

    staff.boss._launch = one_only

    with pytest.raises(CannotStart, match=r"worker 0 could not be started \(\[Errno 11\]"):
        staff.boss.start(["actor", "worker 0"])

    assert staff.made[0].is_dead
    assert staff.made[0].is_closed


@pytest.mark.shows("F6")
def test_a_death_at_the_very_end_is_on_record_too(staff: Staff) -> None:
    staff.start()
    staff.made[1].die()

    staff.boss.close()

    assert staff.told[-1] == ("death", "worker 0")
    assert all(child.is_closed for child in staff.made)


def test_whoever_has_done_everything_is_not_started_again(staff: Staff) -> None:
    staff.start()
    staff.made[1].die(0)

    staff.pass_time(0)
    staff.pass_time(100)

    assert staff.told[2:] == [("end", "worker 0")]
    assert staff.boss.processes().keys() == {"actor"}


def test_everybody_is_ready_when_all_have_given_a_sign_of_life(staff: Staff) -> None:
    staff.boss.start(["actor", "worker 0"])
    staff.counters.note("actor beat", 1)
    assert not staff.boss.is_ready

    staff.counters.note("worker 0 beat", 1)

    assert staff.boss.is_ready


@pytest.mark.shows("F3")
def test_a_process_that_gives_no_sign_of_life_is_ended_and_started_again(
    staff: Staff,
) -> None:
    staff.start()
    for second in range(1, 50):
        staff.counters.note("actor beat", 1)
        staff.counters.note("worker 0 beat", second)
        staff.pass_time(1.0)
    assert ("silent", "actor") not in staff.told

    for second in range(50, 55):
        staff.counters.note("worker 0 beat", second)
        staff.pass_time(1.0)

    events = [event for event, role in staff.told if role == "actor"]
    assert events == ["start", "ready", "silent", "death", "restart"]
    assert ("silent", "worker 0") not in staff.told
