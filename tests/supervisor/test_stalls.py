"""Noticing who has stopped getting on."""

from __future__ import annotations

import pytest

from rookery.supervisor.stalls import LEAST_SECONDS, Stalls


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """Looks every half second."""

    def __init__(self, least_seconds: float = LEAST_SECONDS) -> None:
        self.clock = Clock()
        self.stalls = Stalls(least_seconds, self.clock)

    def wait(self, seconds: float, **reached: int) -> list[str]:
        found = []
        for _ in range(int(2 * seconds)):
            self.clock.now += 0.5
            found += [stall.role for stall in self.stalls.look(reached)]
        return found


@pytest.mark.shows("C2")
def test_whoever_stands_still_for_too_long_is_named_once():
    watched = Watched()

    assert watched.wait(29, actor=5, worker=4) == []
    assert watched.wait(60, actor=5, worker=4) == ["worker"]


def test_those_who_only_wait_for_others_are_not_named():
    watched = Watched()

    assert watched.wait(100, actor=7, one=6, two=7) == ["one"]


def test_where_rounds_are_slow_ten_of_the_slowest_may_pass():
    watched = Watched()
    watched.wait(8, actor=1)
    watched.wait(8, actor=2)

    assert watched.wait(75, actor=3) == []
    assert watched.wait(20, actor=3) == ["actor"]


def test_a_second_stall_is_told_again():
    watched = Watched(least_seconds=2)
    first = watched.wait(3, actor=1)
    watched.wait(1, actor=2)

    again = watched.wait(40, actor=2)

    assert first == again == ["actor"]


def test_time_in_which_nobody_looked_does_not_count():
    watched = Watched()
    watched.wait(1, actor=1)

    watched.clock.now += 1000

    assert watched.stalls.look({"actor": 1}) == []


def test_the_line_names_the_role_and_both_times():
    watched = Watched(least_seconds=3)
    watched.wait(3, actor=1)
    watched.clock.now += 0.5

    (stall,) = watched.stalls.look({"actor": 1})

    assert str(stall) == (
        "the actor has finished no round for 4 s (the slowest so far took 0.0 s): it may "
        "hang."
    )
