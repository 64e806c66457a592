"""`workers=auto` is decided by timing rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from rookery.algorithms.agents import build_agents
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure
from rookery.training import autoscale
from rookery.training.autoscale import Autoscaler, Choice, TimedRound, choose
from rookery.training.load import ProcessorTime
from rookery.training.round_model import ONE, Machine, Processes, RoundCosts
from tests.small import train as train_smallest
from tests.training.test_round_model import run_of

PAIR = Processes(1, 2)


@pytest.mark.shows("E6")
@pytest.mark.parametrize(
    ("times", "machine", "agents", "rounds", "workers", "reason"),
    [
        ((0.1, 0.9, "pipelined"), 4, 8, 1000, 4, "4 workers, because a round takes 100 ms"),
        ((0.5, 0.5, "pipelined"), 2, 3, 1000, 1, "1 worker, because a round takes 500 ms"),
        ((0.1, 0.9, "sync"), 2, 3, 1000, 2, "2 workers, because"),
        ((0.5, 0.5, "sync"), 2, 4, 1000, 2, "2 workers, because"),
        ((0.5, 0.5, "sync"), 2, 3, 1000, 2, "2 workers, because"),
        ((0.5, 0.01, "sync"), 2, 3, 1000, 0, "would hardly speed that up"),
        ((0.1, 0.9, "pipelined"), 1, 8, 1000, 0, "because there is only one core"),
        ((0.9, 0.01, "pipelined"), 4, 8, 1000, 0, "would hardly speed that up"),
        ((0.1, 0.9, "pipelined"), 4, 8, 5, 0, "because the run is too short"),
        ((0.1, 0.9, "pipelined"), 4, 1, 1000, 1, "1 worker, because"),
        ((0.01, 0.9, "pipelined"), 4, 1, 1000, 0, "one process"),
    ],
    ids=[
        "many",
        "halves",
        "sync",
        "sync halves",
        "sync of three",
        "sync, little to learn",
        "one core",
        "playing",
        "short",
        "single",
        "single, little to play",
    ],
)
def test_the_number_of_workers_follows_from_times_and_cores(
    times: tuple, machine: int, agents: int, rounds: int, workers: int, reason: str
) -> None:
    play, learn, schedule = times

    choice = choose(
        RoundCosts(play, learn), run_of(schedule, agents), Machine(machine), rounds
    )

    assert reason in choice.reason
    assert choice.processes.workers == workers


def test_a_decision_on_a_busy_machine_says_with_how_many_others_it_shares_the_cores() -> (
    None
):
    choice = choose(RoundCosts(0.1, 0.9), run_of(), Machine(2, neighbours=2.0), 1000)

    assert choice.processes == PAIR
    assert "on 2 cores shared with about 2 other busy processes" in choice.reason


# A run, round by round.


@pytest.fixture
def autoscaler(monkeypatch: pytest.MonkeyPatch) -> Autoscaler:
    return autoscaler_of(monkeypatch, actors=(1,))


@pytest.fixture
def actors_scaler(monkeypatch: pytest.MonkeyPatch) -> Autoscaler:
    """One that can choose between one actor and two."""
    return autoscaler_of(monkeypatch, actors=(1, 2))


def autoscaler_of(monkeypatch: pytest.MonkeyPatch, actors: tuple[int, ...]) -> Autoscaler:
    monkeypatch.setattr(autoscale, "cores", lambda: 2)
    entry, config = configure("treasurehunt")
    return Autoscaler(config, build_agents(config, agents_of(entry, config)), actors)


def add_rounds(
    autoscaler: Autoscaler,
    count: int,
    total: float = 1.0,
    speed: float = 1.0,
    ran: float = 1.0,
) -> list[Choice]:
    """Time so many rounds, a tenth of which is playing; return all decisions."""
    choices = []
    processor = ProcessorTime(ran, ran / speed - ran)
    for _ in range(count):
        autoscaler.add(TimedRound(0.1 * total, 0.9 * total, total, processor))
        choice = autoscaler.decide(10**6)
        if choice is not None:
            choices.append(choice)
            autoscaler.begin(choice.processes)
    return choices


BLOCKS = autoscale.BLOCKS_TO_CHANGE * autoscale.BLOCK_ROUNDS
RETRY = autoscale.BLOCKS_TO_RETRY * autoscale.BLOCK_ROUNDS


@pytest.mark.shows("E6")
def test_rounds_without_updates_are_not_timed(autoscaler: Autoscaler) -> None:
    for _ in range(50):
        autoscaler.add(TimedRound(1.0, 0.0, 1.0))
        assert autoscaler.decide(1000) is None

    assert len(add_rounds(autoscaler, 3)) == 1


def test_decisions_depend_on_medians_and_on_the_rounds_left(
    autoscaler: Autoscaler,
) -> None:
    for learned in (0.5, 0.6, 99.0):
        autoscaler.add(TimedRound(0.1, learned, learned + 0.1))

    choice = autoscaler.decide(1000)

    assert choice is not None
    assert choice.processes == PAIR
    assert "600 ms to learn" in choice.reason


@pytest.mark.shows("E6")
def test_processes_that_turn_out_slower_are_given_up_and_tried_again_later(
    autoscaler: Autoscaler,
) -> None:
    (choice,) = add_rounds(autoscaler, 3)
    assert choice.processes == PAIR

    assert add_rounds(autoscaler, BLOCKS - 1, total=1.2) == []
    (choice,) = add_rounds(autoscaler, 1, total=1.2)
    assert choice.processes == ONE
    assert choice.reason == (
        "workers=auto: back to one process, because a round takes 1200 ms in several, and "
        "should take about 1000 ms in one"
    )

    assert add_rounds(autoscaler, RETRY - 1) == []
    (choice,) = add_rounds(autoscaler, 1)
    assert choice.processes == PAIR
    (choice,) = add_rounds(autoscaler, BLOCKS, total=1.2)
    assert choice.processes == ONE
    assert add_rounds(autoscaler, 2 * RETRY - 1) == []  # the wait has doubled
    assert len(add_rounds(autoscaler, 1)) == 1


@pytest.mark.shows("E6")
def test_processes_are_kept_when_another_program_slows_them_down(
    autoscaler: Autoscaler,
) -> None:
    """A round takes longer than it once did in one process, but so it would there."""
    add_rounds(autoscaler, 3)

    choices = add_rounds(autoscaler, 20 * BLOCKS, total=1.3, speed=0.3)

    assert choices == []
    assert autoscaler.now == PAIR


@pytest.mark.shows("E6")
def test_a_few_slow_rounds_change_nothing(autoscaler: Autoscaler) -> None:
    add_rounds(autoscaler, 3)

    for _ in range(20):
        assert add_rounds(autoscaler, BLOCKS - autoscale.BLOCK_ROUNDS, total=3.0) == []
        assert add_rounds(autoscaler, autoscale.BLOCK_ROUNDS, total=0.6) == []


def test_times_on_a_busy_machine_are_not_taken_for_costs(autoscaler: Autoscaler) -> None:
    """Timed at half speed; when the machine is free again, one process would be faster."""
    add_rounds(autoscaler, 3, total=2.0, speed=0.5)
    assert autoscaler.now == PAIR

    (choice,) = add_rounds(autoscaler, BLOCKS, total=1.2)

    assert "should take about 1000 ms in one" in choice.reason


def test_rounds_that_become_more_work_are_compared_with_as_much_in_one_process(
    autoscaler: Autoscaler,
) -> None:
    add_rounds(autoscaler, 3)

    assert add_rounds(autoscaler, BLOCKS, total=0.6, ran=1.1) == []
    assert add_rounds(autoscaler, BLOCKS, total=1.2, ran=2.2) == []


def test_blocks_agree_even_if_the_best_number_of_processes_differs(
    autoscaler: Autoscaler,
) -> None:
    for _ in range(3):
        choose_after(autoscaler, TimedRound(5.0, 0.01, 5.01))
    blocks = [TimedRound(0.1, 0.9, 1.0), TimedRound(0.5, 0.5, 1.0)] * 2
    choices = []
    for time in blocks[: autoscale.BLOCKS_TO_CHANGE]:
        choices += [choose_after(autoscaler, time) for _ in range(autoscale.BLOCK_ROUNDS)]

    assert choices[:-1] == [None] * (BLOCKS - 1)
    assert choices[-1] is not None
    assert choices[-1].processes == PAIR


@pytest.mark.shows("E6")
def test_processes_are_started_later_if_rounds_become_longer(
    autoscaler: Autoscaler,
) -> None:
    playing = TimedRound(5.0, 0.01, 5.01)
    choice = [choose_after(autoscaler, playing) for _ in range(3)][-1]
    assert choice is not None
    assert choice.processes == ONE

    assert add_rounds(autoscaler, BLOCKS - 1) == []
    (choice,) = add_rounds(autoscaler, 1)

    assert choice.processes == PAIR


@pytest.mark.shows("E6")
def test_fewer_workers_are_used_if_agents_learn_faster_together(
    autoscaler: Autoscaler,
) -> None:
    playing = TimedRound(0.45, 0.55, 1.0)
    (choice,) = filter(None, [choose_after(autoscaler, playing) for _ in range(3)])
    autoscaler.begin(PAIR)

    apart = TimedRound(0.45, 1.0, 0.9, ProcessorTime(1.5))  # 0.45 more than in one process
    *choices, choice = [choose_after(autoscaler, apart) for _ in range(BLOCKS)]

    assert choices == [None] * (BLOCKS - 1)
    assert choice is not None
    assert choice.processes == Processes(1, 1)
    assert "1 worker instead of 2 workers, because a round takes 900 ms" in choice.reason


# Several actors.


def test_what_splitting_the_worlds_costs_is_measured_before_several_actors_start(
    actors_scaler: Autoscaler,
) -> None:
    autoscaler = actors_scaler
    autoscaler.run = run_of(agents=3, actors=(1, 2))
    time = TimedRound(0.9, 0.1, 1.0)
    assert [choose_after(autoscaler, time) for _ in range(3)] == [None] * 3
    assert autoscaler.shares == 2

    cheap = TimedRound(1.0, 0.1, 1.1)
    choice = [choose_after(autoscaler, cheap) for _ in range(3)][-1]

    assert choice is not None
    assert choice.processes == Processes(2, 1)
    assert "2 actors and 1 worker, because" in choice.reason
    assert autoscaler.shares == 1


def test_several_actors_are_not_started_if_each_share_costs_as_much_as_all_worlds(
    actors_scaler: Autoscaler,
) -> None:
    autoscaler = actors_scaler
    autoscaler.run = run_of(agents=3, actors=(1, 2))
    for _ in range(3):
        choose_after(autoscaler, TimedRound(0.9, 0.1, 1.0))

    costly = TimedRound(1.8, 0.1, 1.9)
    choice = [choose_after(autoscaler, costly) for _ in range(3)][-1]

    assert choice is not None
    assert choice.processes.actors == 1


def choose_after(autoscaler: Autoscaler, time: TimedRound) -> Choice | None:
    autoscaler.add(time)
    return autoscaler.decide(10**6)


# The machine, and a resumed run.


def test_cores_are_limited_by_the_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(autoscale.os, "sched_getaffinity", lambda pid: set(range(8)))

    for text, cores in (("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8)):
        monkeypatch.setattr(Path, "read_text", lambda path, text=text: text)
        assert autoscale.cores() == cores


def test_a_resumed_run_counts_only_the_rounds_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_smallest(tmp_path / "run", workers="auto")
    left: list[int] = []

    def decide(autoscaler: Autoscaler, rounds_left: int) -> None:
        left.append(rounds_left)

    monkeypatch.setattr(Autoscaler, "decide", decide)
    rookery.resume(tmp_path / "run", rounds=9)

    assert left == [4, 3, 2, 1, 0]
