"""When a round can start: each process reads the counters itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rookery.config.run import Config
from rookery.protocol import schedule as module
from rookery.protocol.arena import COMMIT, GATE, HANDED, SNAPSHOT
from rookery.protocol.schedule import RoundSchedule
from rookery.runs.configure import configure
from rookery.shm.block import Block
from rookery.shm.counters import Counters, version_of
from rookery.shm.heartbeat import Heartbeat

TURNS = 10
VERSIONS = [version_of("a"), version_of("b")]


class Waits(Exception):
    """Raised instead of waiting."""


class Impatient(Heartbeat):
    def beat(self) -> None:
        raise Waits


def config_of(schedule: str, max_lag: int = 3) -> Config:
    settings = {"schedule": schedule, "max_lag": max_lag, "turns_per_round": TURNS}
    return configure("treasurehunt", settings={**settings, "rounds": 20})[1]


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counters]:
    monkeypatch.setattr(module, "TICK", 0.0)
    block = Block.create(Counters.layout([COMMIT, GATE, SNAPSHOT, HANDED, *VERSIONS]))
    yield Counters(block)
    block.close()


def schedule_of(counters: Counters, schedule: str, max_lag: int = 3) -> RoundSchedule:
    return RoundSchedule(config_of(schedule, max_lag), counters, ["a", "b"], Impatient())


def complete(counters: Counters, boundary: int) -> None:
    counters.store(COMMIT, boundary * TURNS)
    counters.store(SNAPSHOT, boundary + 1)
    for version in VERSIONS:
        counters.store(version, boundary + 1)


def waits(call: Callable[[], object]) -> bool:
    try:
        call()
    except Waits:
        return True
    return False


def test_a_boundary_is_complete_when_no_counter_is_behind(counters: Counters) -> None:
    schedule = schedule_of(counters, "pipelined")
    complete(counters, 4)
    assert schedule.is_complete(4)
    assert not schedule.is_complete(5)

    for name in (COMMIT, SNAPSHOT, *VERSIONS):
        value = counters.load(name)
        counters.store(name, value - 1)
        assert not schedule.is_complete(4)
        assert not schedule.wait_complete(4, 0.0)
        counters.store(name, value)
    assert schedule.wait_complete(4, 0.0)


@pytest.mark.parametrize("kind", ["sync", "pipelined"])
def test_a_round_is_played_when_the_boundary_before_is_complete_and_main_allows_it(
    kind: str, counters: Counters
) -> None:
    schedule = schedule_of(counters, kind)
    complete(counters, 4)
    counters.store(GATE, 4)
    assert waits(lambda: schedule.await_playing(5))

    counters.store(GATE, 5)
    assert not waits(lambda: schedule.await_playing(5))

    counters.store(VERSIONS[1], 4)
    assert waits(lambda: schedule.await_playing(5))


def test_in_sync_a_round_is_learned_from_its_own_rows(counters: Counters) -> None:
    schedule = schedule_of(counters, "sync")
    complete(counters, 4)
    counters.store(GATE, 6)
    assert waits(lambda: schedule.await_learning(5, False))

    counters.store(COMMIT, 5 * TURNS)

    assert schedule.await_learning(5, False) == 5 * TURNS


def test_in_pipelined_a_round_is_learned_from_the_rows_before_it(
    counters: Counters,
) -> None:
    schedule = schedule_of(counters, "pipelined")
    complete(counters, 4)
    counters.store(GATE, 6)
    counters.store(COMMIT, 4 * TURNS + 7)

    assert schedule.await_learning(5, False) == 4 * TURNS


def test_in_pipelined_an_agent_learns_while_others_still_learn_the_round_before(
    counters: Counters,
) -> None:
    schedule = schedule_of(counters, "pipelined")
    complete(counters, 4)
    counters.store(GATE, 6)
    counters.store(VERSIONS[1], 4)  # agent b is still learning round 4

    assert schedule.await_learning(5, False, ["a"]) == 4 * TURNS
    assert waits(lambda: schedule.await_learning(5, False, ["b"]))
    assert waits(lambda: schedule.await_learning(5, False, ["a", "b"]))
    counters.store(COMMIT, 4 * TURNS - 1)
    assert waits(lambda: schedule.await_learning(5, False, ["a"]))


@pytest.mark.parametrize("missing", [COMMIT, SNAPSHOT, *VERSIONS])
def test_a_version_is_published_when_the_boundary_before_is_complete(
    missing: str, counters: Counters
) -> None:
    schedule = schedule_of(counters, "pipelined")
    complete(counters, 4)
    counters.store(missing, counters.load(missing) - 1)

    assert not schedule.can_publish(5)
    assert waits(lambda: schedule.await_publishing(5))

    complete(counters, 4)
    assert schedule.can_publish(5)
    assert not waits(lambda: schedule.await_publishing(5))


def test_in_async_a_version_is_published_at_once(counters: Counters) -> None:
    schedule = schedule_of(counters, "async")

    assert schedule.can_publish(5)
    assert not waits(lambda: schedule.await_publishing(5))


@pytest.mark.shows("A6")
def test_in_async_a_learner_waits_for_rows_but_not_for_other_learners(
    counters: Counters,
) -> None:
    schedule = schedule_of(counters, "async")
    counters.store(GATE, 9)
    counters.store(COMMIT, 5 * TURNS + 3)
    counters.store(VERSIONS[0], 1)

    assert schedule.await_learning(6, on_policy=False) == 5 * TURNS + 3
    assert schedule.await_learning(5, on_policy=True) == 5 * TURNS
    assert waits(lambda: schedule.await_learning(6, on_policy=True))
    assert waits(lambda: schedule.await_learning(7, on_policy=False))


@pytest.mark.shows("C2")
@pytest.mark.parametrize("max_lag", [1, 2, 5])
def test_in_async_playing_is_at_most_max_lag_rounds_ahead(
    max_lag: int, counters: Counters
) -> None:
    schedule = schedule_of(counters, "async", max_lag)
    complete(counters, 6)
    counters.store(VERSIONS[1], 4)  # the newest complete version is 3
    counters.store(GATE, 100)

    for number in range(1, 20):
        lag = number - 3
        assert waits(lambda n=number: schedule.await_playing(n)) == (lag > max_lag)


@pytest.mark.parametrize(
    ("kind", "max_lag", "ahead"), [("sync", 9, 2), ("async", 1, 2), ("async", 7, 7)]
)
def test_main_allows_as_many_rounds_as_reports_are_kept(
    kind: str, max_lag: int, ahead: int, counters: Counters
) -> None:
    schedule = schedule_of(counters, kind, max_lag)

    schedule.open(3)

    assert counters.load(GATE) == schedule.last_allowed == 3 + ahead
    schedule.open(19)
    assert schedule.last_allowed == 20  # the last round


def test_processes_begin_when_main_has_handed_over_to_their_generation(
    counters: Counters,
) -> None:
    schedule = schedule_of(counters, "sync")
    counters.store(HANDED, 1)

    assert not waits(lambda: schedule.await_begin(1))
    assert waits(lambda: schedule.await_begin(2))
