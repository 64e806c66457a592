"""Noticing who hangs."""

from rookery.supervisor.silence import Silence


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def looks(silence, clock, seconds, **beats):
    """Look once a second, and return what the last look found."""
    found = {}
    for _ in range(seconds):
        clock.now += 1.0
        found = silence.look(beats)
    return found


def test_whoever_is_silent_for_longer_than_the_limit_is_named():
    clock = Clock()
    silence = Silence(5.0, clock)

    assert looks(silence, clock, 5, actor=1) == {}
    assert looks(silence, clock, 1, actor=1) == {"actor": 6.0}


def test_any_sign_of_life_ends_the_silence():
    clock = Clock()
    silence = Silence(5.0, clock)
    looks(silence, clock, 5, actor=1)

    assert looks(silence, clock, 1, actor=2) == {}
    assert looks(silence, clock, 5, actor=2) == {}


def test_who_has_been_silent_long_before_may_be_ten_times_as_long():
    clock = Clock()
    silence = Silence(5.0, clock)
    looks(silence, clock, 4, actor=1)
    looks(silence, clock, 1, actor=2)  # after five seconds

    assert looks(silence, clock, 50, actor=2) == {}
    assert "actor" in looks(silence, clock, 1, actor=2)


def test_a_pause_of_main_itself_counts_as_one_look():
    clock = Clock()
    silence = Silence(5.0, clock)
    silence.look({"actor": 1})

    clock.now += 3600.0

    assert silence.look({"actor": 1}) == {}


def test_whoever_was_replaced_begins_anew():
    clock = Clock()
    silence = Silence(5.0, clock)
    looks(silence, clock, 6, actor=1)

    silence.forget("actor")

    assert looks(silence, clock, 5, actor=0) == {}
