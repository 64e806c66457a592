"""How long a round would take with other numbers of processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rookery.training.round_model import (
    CROWDED,
    ONE,
    Machine,
    Processes,
    RoundCosts,
    RunShape,
    expected_seconds,
    fastest,
)


def run_of(
    schedule: str = "pipelined", agents: int = 8, actors: Sequence[int] = (1,)
) -> RunShape:
    """Return a run of equal agents, none of them shared between workers."""

    def busiest(processes: Processes) -> float:
        return -(-agents // processes.workers) / agents

    return RunShape(schedule, agents, busiest, actors)


@pytest.mark.shows("E4")
@pytest.mark.parametrize("actors", [(1,), (1, 2, 3, 4)])
@pytest.mark.parametrize("cores", [1, 2, 4, 64])
@pytest.mark.parametrize("schedule", ["sync", "pipelined", "async"])
def test_auto_never_has_more_than_one_process_more_than_cores(
    cores: int, schedule: str, actors: Sequence[int]
) -> None:
    run = run_of(schedule, 100, actors)
    for play, learn in ((0.001, 1.0), (0.5, 0.5), (1.0, 0.1)):
        best, _ = fastest(RoundCosts(play, learn), run, Machine(cores))
        assert best.actors + best.workers <= cores + 1
        assert best.actors in actors


def test_a_worker_that_does_not_help_is_not_started() -> None:
    best, _ = fastest(RoundCosts(0.5, 0.5), run_of(agents=100), Machine(64))

    assert best == Processes(1, 1)


@pytest.mark.parametrize("schedule", ["sync", "pipelined"])
def test_more_cores_never_lead_to_fewer_workers(schedule: str) -> None:
    costs, run = RoundCosts(0.2, 0.8), run_of(schedule)
    workers = [fastest(costs, run, Machine(c))[0].workers for c in range(1, 9)]

    assert workers == sorted(workers)
    assert workers[-1] > workers[0] == 0


def test_several_actors_share_out_playing() -> None:
    costs, run = RoundCosts(0.9, 0.1), run_of(actors=(1, 2, 3, 4))

    best, seconds = fastest(costs, run, Machine(4))

    assert best == Processes(4, 1)
    assert seconds < 0.3


def test_very_short_rounds_stay_in_one_process() -> None:
    best, _ = fastest(RoundCosts(0.0005, 0.0005), run_of(), Machine(2))

    assert best == ONE


def test_neighbours_slow_one_process_down_only_if_there_are_not_enough_cores() -> None:
    costs, run = RoundCosts(0.4, 0.6), run_of()

    assert expected_seconds(costs, ONE, run, Machine(2, 1.0)) == pytest.approx(1.0)
    assert expected_seconds(costs, ONE, run, Machine(2, 3.0)) == pytest.approx(2.0)


def test_neighbours_slow_several_processes_down_by_their_part_of_the_cores() -> None:
    costs, run, pair = RoundCosts(0.1, 0.9), run_of(), Processes(1, 2)
    alone = expected_seconds(costs, pair, run, Machine(2))

    disturbed = expected_seconds(costs, pair, run, Machine(2, 3.0))

    assert disturbed == pytest.approx(2 * alone, rel=0.01)


def test_a_round_is_played_only_when_the_slowest_of_equal_actors_has_played() -> None:
    """On two cores, one of two actors has to share its core with a neighbour."""
    costs, run = RoundCosts(0.9, 0.1), run_of(actors=(1, 2))
    machine = Machine(2, neighbours=1.0)

    one = expected_seconds(costs, Processes(1, 1), run, machine)
    two = expected_seconds(costs, Processes(2, 1), run, machine)

    assert one == pytest.approx(0.9, rel=0.01)
    assert two >= one
    assert fastest(costs, run, machine)[0] == Processes(1, 1)
    assert fastest(costs, run, Machine(2))[0] == Processes(2, 1)
    assert fastest(costs, run, Machine(3, neighbours=1.0))[0].actors == 2


def test_more_busy_processes_than_cores_take_longer_for_the_same_work() -> None:
    machine = Machine(2)

    assert [machine.crowding(count) for count in (1, 2, 3)] == [1.0, 1.0, CROWDED]
    assert Machine(2, neighbours=1.0).crowding(2) == CROWDED


def test_actors_and_workers_that_add_more_than_they_save_are_not_used() -> None:
    costs = RoundCosts(0.5, 0.5, per_actor=0.5, per_worker=0.5)

    best, _ = fastest(costs, run_of(actors=(1, 2, 3, 4)), Machine(4))

    assert best == Processes(1, 1)
