"""When a round may start: everybody reads the words for themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rookery.config.run import Config
from rookery.protocol import schedule as module
from rookery.protocol.arena import COMMIT, GATE, HANDED, SNAPSHOT
from rookery.protocol.schedule import Borders
from rookery.runs.configure import configure
from rookery.shm.block import Block
from rookery.shm.counters import Words
from rookery.shm.heartbeat import Status

TURNS = 10
VERSIONS = ["version a", "version b"]


class Waits(Exception):
    """Raised instead of waiting."""


class Impatient(Status):
    def beat(self) -> None:
        raise Waits


def config_of(schedule: str, max_lag: int = 3) -> Config:
    settings = {"schedule": schedule, "max_lag": max_lag, "turns_per_round": TURNS}
    return configure("treasurehunt", settings={**settings, "rounds": 20})[1]


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Iterator[Words]:
    monkeypatch.setattr(module, "TICK", 0.0)
    block = Block.create(Words.plan([COMMIT, GATE, SNAPSHOT, HANDED, *VERSIONS]))
    yield Words(block)
    block.close()


def borders_of(words: Words, schedule: str, max_lag: int = 3) -> Borders:
    return Borders(config_of(schedule, max_lag), words, ["a", "b"], Impatient())


def complete(words: Words, border: int) -> None:
    words.store(COMMIT, border * TURNS)
    words.store(SNAPSHOT, border + 1)
    for version in VERSIONS:
        words.store(version, border + 1)


def waits(what: Callable[[], object]) -> bool:
    try:
        what()
    except Waits:
        return True
    return False


def test_a_border_is_complete_when_nothing_of_it_is_missing(words: Words) -> None:
    borders = borders_of(words, "pipelined")
    complete(words, 4)
    assert borders.is_complete(4)
    assert not borders.is_complete(5)

    for name in (COMMIT, SNAPSHOT, *VERSIONS):
        had = words.load(name)
        words.store(name, had - 1)
        assert not borders.is_complete(4)
        assert not borders.wait_a_little(4, 0.0)
        words.store(name, had)
    assert borders.wait_a_little(4, 0.0)


@pytest.mark.parametrize("schedule", ["sync", "pipelined"])
def test_a_round_is_played_when_the_border_before_is_complete_and_main_allows_it(
    schedule: str, words: Words
) -> None:
    borders = borders_of(words, schedule)
    complete(words, 4)
    words.store(GATE, 4)
    assert waits(lambda: borders.await_playing(5))

    words.store(GATE, 5)
    assert not waits(lambda: borders.await_playing(5))

    words.store(VERSIONS[1], 4)
    assert waits(lambda: borders.await_playing(5))


def test_in_sync_a_round_is_learned_from_its_own_rows(words: Words) -> None:
    borders = borders_of(words, "sync")
    complete(words, 4)
    words.store(GATE, 6)
    assert waits(lambda: borders.await_learning(5, False))

    words.store(COMMIT, 5 * TURNS)

    assert borders.await_learning(5, False) == 5 * TURNS


def test_in_pipelined_a_round_is_learned_from_the_rows_before_it(words: Words) -> None:
    borders = borders_of(words, "pipelined")
    complete(words, 4)
    words.store(GATE, 6)
    words.store(COMMIT, 4 * TURNS + 7)

    assert borders.await_learning(5, False) == 4 * TURNS


@pytest.mark.shows("A6")
def test_in_async_a_learner_waits_for_rows_and_for_no_other_learner(words: Words) -> None:
    borders = borders_of(words, "async")
    words.store(GATE, 9)
    words.store(COMMIT, 5 * TURNS + 3)
    words.store(VERSIONS[0], 1)

    assert borders.await_learning(6, on_policy=False) == 5 * TURNS + 3
    assert borders.await_learning(5, on_policy=True) == 5 * TURNS
    assert waits(lambda: borders.await_learning(6, on_policy=True))
    assert waits(lambda: borders.await_learning(7, on_policy=False))


@pytest.mark.shows("C2")
@pytest.mark.parametrize("max_lag", [1, 2, 5])
def test_in_async_playing_is_never_further_ahead_than_the_bound(
    max_lag: int, words: Words
) -> None:
    borders = borders_of(words, "async", max_lag)
    complete(words, 6)
    words.store(VERSIONS[1], 4)  # the newest whole version is 3
    words.store(GATE, 100)

    for number in range(1, 20):
        lag = number - 3
        assert waits(lambda n=number: borders.await_playing(n)) == (lag > max_lag)


@pytest.mark.parametrize(
    ("schedule", "max_lag", "ahead"), [("sync", 9, 2), ("async", 1, 2), ("async", 7, 7)]
)
def test_main_allows_as_many_rounds_as_reports_are_kept(
    schedule: str, max_lag: int, ahead: int, words: Words
) -> None:
    borders = borders_of(words, schedule, max_lag)

    borders.open(3)

    assert words.load(GATE) == borders.last_allowed == 3 + ahead
    borders.open(19)
    assert borders.last_allowed == 20  # there are no more


def test_processes_begin_when_main_has_handed_over_to_their_generation(
    words: Words,
) -> None:
    borders = borders_of(words, "sync")
    words.store(HANDED, 1)

    assert not waits(lambda: borders.await_begin(1))
    assert waits(lambda: borders.await_begin(2))
