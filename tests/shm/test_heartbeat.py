"""Heartbeats: signs of life, and how time is spent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rookery.shm import heartbeat as module
from rookery.shm.block import Block
from rookery.shm.counters import Counters, beat_of, time_of
from rookery.shm.heartbeat import KINDS, Heartbeat

ACTOR, WORKER = "actor", "worker 0"


@pytest.fixture
def counters() -> Iterator[Counters]:
    roles = (ACTOR, WORKER)
    names = [time_of(role, kind) for role in roles for kind in KINDS]
    block = Block.create(Counters.layout([*names, *map(beat_of, roles)]))
    yield Counters(block)
    block.close()


class Clock:
    now = 1000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module.time, "perf_counter_ns", clock)
    return clock


class Failed(Exception):
    pass


def spend(heartbeat: Heartbeat, kind: str, clock: Clock, nanoseconds: int) -> None:
    with heartbeat.spending(kind):
        clock.now += nanoseconds


def spend_and_fail(heartbeat: Heartbeat, kind: str, clock: Clock, nanoseconds: int) -> None:
    with heartbeat.spending(kind):
        clock.now += nanoseconds
        raise Failed


def test_every_sign_of_life_is_another_number(counters):
    heartbeat = Heartbeat(counters, ACTOR)

    beats = [counters.load(beat_of(ACTOR))]
    for _ in range(3):
        heartbeat.beat()
        beats.append(counters.load(beat_of(ACTOR)))

    assert beats == [0, 1, 2, 3]


def test_time_is_counted_by_kind_and_adds_up(counters, clock):
    heartbeat = Heartbeat(counters, ACTOR)

    spend(heartbeat, "work", clock, 5)
    spend(heartbeat, "wait", clock, 70)
    spend(heartbeat, "work", clock, 6)

    assert heartbeat.nanoseconds == {"work": 11, "wait": 70, "protocol": 0}
    assert [counters.load(time_of(ACTOR, kind)) for kind in KINDS] == [11, 70, 0]


def test_time_before_an_error_is_counted_too(counters, clock):
    heartbeat = Heartbeat(counters, ACTOR)

    with pytest.raises(Failed):
        spend_and_fail(heartbeat, "work", clock, 5)

    assert counters.load(time_of(ACTOR, "work")) == 5


def test_each_process_has_its_own_counters(counters, clock):
    actor, worker = Heartbeat(counters, ACTOR), Heartbeat(counters, WORKER)

    actor.beat()
    spend(worker, "work", clock, 5)

    assert [counters.load(beat_of(role)) for role in (ACTOR, WORKER)] == [1, 0]
    assert [counters.load(time_of(role, "work")) for role in (ACTOR, WORKER)] == [0, 5]


def test_without_counters_time_is_still_counted(clock):
    heartbeat = Heartbeat()

    heartbeat.beat()
    spend(heartbeat, "protocol", clock, 5)

    assert heartbeat.nanoseconds == {"work": 0, "wait": 0, "protocol": 5}


def test_a_time_of_an_unknown_kind_is_an_error():
    with pytest.raises(KeyError, match="rest"), Heartbeat().spending("rest"):
        pass
