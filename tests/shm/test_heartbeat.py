"""Status: signs of life, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rookery.protocol.arena import ACTOR, STATUS
from rookery.shm import heartbeat as module
from rookery.shm.block import Block
from rookery.shm.counters import Words
from rookery.shm.heartbeat import KINDS, Status


@pytest.fixture
def words() -> Iterator[Words]:
    names = [f"{role} {what}" for role in (ACTOR, "worker 0") for what in STATUS]
    block = Block.create(Words.plan(names))
    yield Words(block)
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


def spend(status: Status, kind: str, clock: Clock, nanoseconds: int) -> None:
    with status.spending(kind):
        clock.now += nanoseconds


def spend_and_fail(status: Status, kind: str, clock: Clock, nanoseconds: int) -> None:
    with status.spending(kind):
        clock.now += nanoseconds
        raise Failed


def test_every_sign_of_life_is_another_number(words):
    status = Status(words, ACTOR)

    seen = [words.load("actor beat")]
    for _ in range(3):
        status.beat()
        seen.append(words.load("actor beat"))

    assert seen == [0, 1, 2, 3]


def test_time_is_counted_by_kind_and_adds_up(words, clock):
    status = Status(words, ACTOR)

    spend(status, "work", clock, 5)
    spend(status, "wait", clock, 70)
    spend(status, "work", clock, 6)

    assert status.nanoseconds == {"work": 11, "wait": 70, "protocol": 0}
    assert [words.load(f"actor {kind}") for kind in KINDS] == [11, 70, 0]


def test_time_before_an_error_is_counted_too(words, clock):
    status = Status(words, ACTOR)

    with pytest.raises(Failed):
        spend_and_fail(status, "work", clock, 5)

    assert words.load("actor work") == 5


def test_processes_have_words_of_their_own(words, clock):
    actor, worker = Status(words, ACTOR), Status(words, "worker 0")

    actor.beat()
    spend(worker, "work", clock, 5)

    assert (words.load("actor beat"), words.load("worker 0 beat")) == (1, 0)
    assert (words.load("actor work"), words.load("worker 0 work")) == (0, 5)


def test_without_words_time_is_counted_all_the_same(clock):
    status = Status()

    status.beat()
    spend(status, "protocol", clock, 5)

    assert status.nanoseconds == {"work": 0, "wait": 0, "protocol": 5}


def test_a_time_of_an_unknown_kind_is_an_error():
    with pytest.raises(KeyError, match="rest"), Status().spending("rest"):
        pass
