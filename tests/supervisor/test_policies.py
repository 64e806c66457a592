"""When a process is restarted, and when it is treated as hung."""

from __future__ import annotations

import pytest

from rookery.supervisor.policies import (
    LONGEST_DELAY,
    STALL_SECONDS,
    RestartPolicy,
    SilencePolicy,
    StallPolicy,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# Restarts.


def test_each_restart_is_delayed_twice_as_long_up_to_a_limit():
    restarts = RestartPolicy(limit=20)

    delays = [restarts.add_death("actor") for _ in range(10)]

    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == LONGEST_DELAY


def test_after_too_many_deaths_in_a_row_there_is_no_restart():
    restarts = RestartPolicy(limit=2)

    assert [restarts.add_death("actor") for _ in range(3)] == [0.1, 0.2, None]


def test_with_a_limit_of_0_no_death_is_allowed():
    assert RestartPolicy(limit=0).add_death("actor") is None


def test_progress_resets_the_count_of_deaths():
    restarts = RestartPolicy(limit=1)

    restarts.add_death("actor")
    restarts.add_progress("actor")

    assert restarts.add_death("actor") == 0.1


def test_progress_does_not_reset_the_count_of_attempts():
    restarts = RestartPolicy(limit=5)

    restarts.add_death("actor")
    restarts.add_progress("actor")
    restarts.add_death("actor")

    assert restarts.record("actor").attempt == 3
    assert restarts.record("worker 0").attempt == 1


def test_the_deaths_of_a_role_do_not_count_for_another():
    restarts = RestartPolicy(limit=1)

    restarts.add_death("worker 0")

    assert restarts.add_death("worker 1") == 0.1


# Silence.


class Listener:
    """Checks for silence once a second."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.silence = SilencePolicy(5.0, self.clock)

    def wait(self, seconds: int, **beats: int) -> dict[str, float]:
        """Return the result of the last check."""
        hung = {}
        for _ in range(seconds):
            self.clock.now += 1.0
            hung = self.silence.check(beats)
        return hung


def test_a_process_that_is_silent_for_longer_than_the_limit_hangs():
    listener = Listener()

    assert listener.wait(5, actor=1) == {}
    assert listener.wait(1, actor=1) == {"actor": 6.0}


def test_any_sign_of_life_ends_the_silence():
    listener = Listener()
    listener.wait(5, actor=1)

    assert listener.wait(1, actor=2) == {}
    assert listener.wait(5, actor=2) == {}


def test_a_process_can_be_silent_for_ten_times_its_longest_silence():
    listener = Listener()
    listener.wait(4, actor=1)
    listener.wait(1, actor=2)  # after five seconds

    assert listener.wait(50, actor=2) == {}
    assert "actor" in listener.wait(1, actor=2)


def test_a_pause_of_main_itself_is_not_silence():
    listener = Listener()
    listener.silence.check({"actor": 1})

    listener.clock.now += 3600.0

    assert listener.silence.check({"actor": 1}) == {}


def test_a_replaced_process_has_not_been_silent():
    listener = Listener()
    listener.wait(6, actor=1)

    listener.silence.forget("actor")

    assert listener.wait(5, actor=0) == {}


# Stalls.


class Watcher:
    """Checks for stalls every half second."""

    def __init__(self, least_seconds: float = STALL_SECONDS) -> None:
        self.clock = Clock()
        self.stalls = StallPolicy(least_seconds, self.clock)

    def wait(self, seconds: float, **progress: int) -> list[str]:
        """Return the roles whose stalls were reported."""
        roles = []
        for _ in range(int(2 * seconds)):
            self.clock.now += 0.5
            roles += [stall.role for stall in self.stalls.check(progress)]
        return roles


@pytest.mark.shows("C2")
def test_a_process_without_progress_for_too_long_is_reported_once():
    watcher = Watcher()

    assert watcher.wait(29, actor=5, worker=4) == []
    assert watcher.wait(60, actor=5, worker=4) == ["worker"]


def test_processes_that_only_wait_for_others_are_not_reported():
    watcher = Watcher()

    assert watcher.wait(100, actor=7, one=6, two=7) == ["one"]


def test_if_rounds_are_slow_a_process_can_take_ten_times_the_slowest():
    watcher = Watcher()
    watcher.wait(8, actor=1)
    watcher.wait(8, actor=2)

    assert watcher.wait(75, actor=3) == []
    assert watcher.wait(20, actor=3) == ["actor"]


def test_a_second_stall_is_reported_again():
    watcher = Watcher(least_seconds=2)
    first = watcher.wait(3, actor=1)
    watcher.wait(1, actor=2)

    second = watcher.wait(40, actor=2)

    assert first == second == ["actor"]


def test_a_pause_of_main_itself_is_not_a_stall():
    watcher = Watcher()
    watcher.wait(1, actor=1)

    watcher.clock.now += 1000

    assert watcher.stalls.check({"actor": 1}) == []


def test_the_message_names_the_role_and_both_times():
    watcher = Watcher(least_seconds=3)
    watcher.wait(3, actor=1)
    watcher.clock.now += 0.5

    (stall,) = watcher.stalls.check({"actor": 1})

    assert str(stall) == (
        "the actor has finished no round for 4 s (the slowest so far took 0.0 s): it may "
        "hang."
    )
