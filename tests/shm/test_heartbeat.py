"""Status: signs of life, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rookery.protocol.arena import ACTOR, STATUS
from rookery.shm import heartbeat as module
from rookery.shm.block import Block
from rookery.shm.counters import Counters
from rookery.shm.heartbeat import KINDS, Heartbeat


@pytest.fixture
def counters() -> Iterator[Counters]:
    names = [f"{role} {what}" for role in (ACTOR, "worker 0") for what in STATUS]
    block = Block.create(Counters.layout(names))
    yield Counters(block)
    block.close()


class Clock:
    now = 1000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module.time, "perf_counter_ns", made)
    return made


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

    seen = [counters.load("actor beat")]
    for _ in range(3):
        heartbeat.beat()
        seen.append(counters.load("actor beat"))

    assert seen == [0, 1, 2, 3]


def test_time_is_counted_by_kind_and_adds_up(counters, clock):
    heartbeat = Heartbeat(counters, ACTOR)

    spend(heartbeat, "work", clock, 5)
    spend(heartbeat, "wait", clock, 70)
    spend(heartbeat, "work", clock, 6)

    assert heartbeat.nanoseconds == {"work": 11, "wait": 70, "protocol": 0}
    assert [counters.load(f"actor {kind}") for kind in KINDS] == [11, 70, 0]


def test_time_before_an_error_is_counted_too(counters, clock):
    heartbeat = Heartbeat(counters, ACTOR)

    with pytest.raises(Failed):
        spend_and_fail(heartbeat, "work", clock, 5)

    assert counters.load("actor work") == 5


def test_processes_have_words_of_their_own(counters, clock):
    actor, worker = Heartbeat(counters, ACTOR), Heartbeat(counters, "worker 0")

    actor.beat()
    spend(worker, "work", clock, 5)

    assert (counters.load("actor beat"), counters.load("worker 0 beat")) == (1, 0)
    assert (counters.load("actor work"), counters.load("worker 0 work")) == (0, 5)


def test_without_words_time_is_counted_all_the_same(clock):
    heartbeat = Heartbeat()

    heartbeat.beat()
    spend(heartbeat, "protocol", clock, 5)

    assert heartbeat.nanoseconds == {"work": 0, "wait": 0, "protocol": 5}


def test_a_time_of_an_unknown_kind_is_an_error():
    with pytest.raises(KeyError, match="rest"), Heartbeat().spending("rest"):
        pass
