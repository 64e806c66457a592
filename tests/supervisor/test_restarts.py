"""When a process that died is started again."""

from __future__ import annotations

from rookery.supervisor.restarts import LONGEST_WAIT, Restarts


def test_each_restart_waits_twice_as_long_up_to_a_limit():
    restarts = Restarts(limit=20)

    waits = [restarts.died("actor") for _ in range(10)]

    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits[-1] == LONGEST_WAIT


def test_too_many_deaths_in_a_row_are_the_end():
    restarts = Restarts(limit=2)

    assert [restarts.died("actor") for _ in range(3)] == [0.1, 0.2, None]


def test_no_death_is_allowed_if_the_limit_is_nothing():
    assert Restarts(limit=0).died("actor") is None


def test_whoever_gets_somewhere_starts_with_a_clean_slate():
    restarts = Restarts(limit=1)

    restarts.died("actor")
    restarts.progressed("actor")

    assert restarts.died("actor") == 0.1


def test_attempts_are_counted_all_the_same():
    restarts = Restarts(limit=5)

    restarts.died("actor")
    restarts.progressed("actor")
    restarts.died("actor")

    assert restarts.record("actor").attempt == 3
    assert restarts.record("worker 0").attempt == 1


def test_the_deaths_of_one_do_not_count_for_another():
    restarts = Restarts(limit=1)

    restarts.died("worker 0")

    assert restarts.died("worker 1") == 0.1
