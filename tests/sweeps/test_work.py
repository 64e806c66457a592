"""Workers take the cells of a sweep one after the other, each cell once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.runs.claim import Claim
from rookery.stop import UNFINISHED, StopFlag, Stopped
from rookery.storage.checkpoints import checkpoints_in
from rookery.sweeps import cells
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    RUNNING,
    STOPPED,
    WAITING,
    failures,
    forget_failures,
    saved_round,
    state_of,
)
from rookery.sweeps.plan import Plan
from rookery.sweeps.work import START, work
from tests.sweeps.conftest import EVERY, SETTINGS, Command, digest_of, planned, rounds_in

Events = list[tuple[str, str, dict[str, Any]]]


def worked(plan: Plan, stop: StopFlag | None = None) -> Events:
    """Work until nothing is left; return what was told."""
    events: Events = []
    work(plan, stop or StopFlag(), lambda *what, **details: events.append((*what, details)))
    return events


def states(plan: Plan) -> list[str]:
    return [state_of(plan, cell) for cell in plan.cells]


def test_every_cell_is_trained_in_order_with_the_digest_of_a_run_on_its_own(
    tmp_path: Path, undisturbed: Callable[..., str]
) -> None:
    plan = planned(tmp_path / "sweep", "worlds=1,2")
    assert states(plan) == [WAITING] * 4

    events = worked(plan)

    names = [cell.name for cell in plan.cells]
    assert [event[:2] for event in events] == [
        (kind, name) for name in names for kind in (START, DONE)
    ]
    assert events[1][2]["summary"]["rounds"] == SETTINGS["rounds"]
    assert states(plan) == [DONE] * 4
    for cell in plan.cells:
        expected = undisturbed(cell.seed, worlds=cell.config.worlds)
        assert digest_of(cell.folder) == expected


def test_what_is_done_is_not_trained_again(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sweep")
    worked(plan)

    assert worked(plan) == []


def test_a_cell_that_was_killed_before_its_last_evaluation_is_evaluated_again(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path / "sweep", "evaluate.every_rounds=6", seeds="0")
    worked(plan)
    (cell,) = plan.cells
    log = cell.folder / "evaluations.jsonl"
    evaluations = log.read_bytes()
    log.write_bytes(b"".join(evaluations.splitlines(keepends=True)[:2]))  # of round 6
    assert states(plan) == [STOPPED]

    worked(plan)

    assert log.read_bytes() == evaluations
    assert states(plan) == [DONE]


def test_a_cell_that_fails_is_written_down_and_does_not_stop_the_others(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path / "sweep", "game.fails=true,false")

    events = worked(plan)

    failing, fine = "fails=true/seed-0", "fails=false/seed-0"
    assert states(plan) == [FAILED, DONE, FAILED, DONE]
    assert set(failures(plan)) == {failing, "fails=true/seed-1"}
    assert "ValueError: requested by a test" in failures(plan)[failing]
    assert [event[:2] for event in events[:4]] == [
        (START, failing),
        (FAILED, failing),
        (START, fine),
        (DONE, fine),
    ]
    assert worked(plan) == []  # nobody tries it again

    forget_failures(plan)
    assert [event[:2] for event in worked(plan)][:2] == [
        (START, failing),
        (FAILED, failing),
    ]


def test_a_cell_that_somebody_else_trains_is_left_to_them(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sweep")
    first, second = plan.cells
    first.folder.mkdir(parents=True)
    claim = Claim(first.folder)

    events = worked(plan)

    assert [event[:2] for event in events] == [(START, second.name), (DONE, second.name)]
    assert states(plan) == [RUNNING, DONE]
    claim.close()
    assert [event[1] for event in worked(plan)] == [first.name, first.name]


def test_a_cell_that_only_seems_free_does_not_keep_a_worker_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is if the clock of this machine is fast: claims seem to be over."""
    plan = planned(tmp_path / "sweep", seeds="0..2")
    first, *others = plan.cells
    first.folder.mkdir(parents=True)
    claim = Claim(first.folder)
    monkeypatch.setattr(cells, "is_held", lambda folder: False)

    events = worked(plan)

    claim.close()
    done = [name for kind, name, _ in events if kind == DONE]
    assert done == [cell.name for cell in others]
    assert len(events) == 2 * len(others) + 3  # it was tried before each, and at the end


def test_a_cell_that_was_stopped_before_its_first_round_begins_again(
    tmp_path: Path, undisturbed: Callable[..., str]
) -> None:
    plan, stop = planned(tmp_path / "sweep"), StopFlag()
    events: Events = []

    def tell(*what: Any, **details: Any) -> None:
        events.append((*what, details))
        stop.signal = signal.SIGTERM

    with pytest.raises(Stopped):
        work(plan, stop, tell)

    assert [event[:2] for event in events] == [
        (START, plan.cells[0].name),
        (STOPPED, plan.cells[0].name),
    ]
    assert states(plan) == [STOPPED, WAITING]
    worked(plan)
    for cell in plan.cells:
        assert digest_of(cell.folder) == undisturbed(cell.seed)


@pytest.mark.processes
@pytest.mark.shows("E9")
def test_two_workers_share_out_the_cells_and_each_is_trained_once(
    command: Command, another: Command, undisturbed: Callable[..., str]
) -> None:
    command.slow.touch()
    plan = planned(command.sweep, "rounds=60", seeds="0..5")

    command.go("--json", command="work")
    another.go("--json", command="work")
    command.wait_for(lambda: command.events and another.events)
    command.slow.unlink()

    assert (command.code(), another.code()) == (0, 0), command.said + another.said
    done = [
        {event["cell"] for event in worker.events if event["event"] == DONE}
        for worker in (command, another)
    ]
    assert not done[0] & done[1]
    assert done[0] | done[1] == {cell.name for cell in plan.cells}
    assert all(done)
    for cell in plan.cells:
        assert digest_of(cell.folder) == undisturbed(cell.seed, rounds=60)


@pytest.mark.processes
def test_a_worker_leaves_before_its_time_is_over(
    command: Command,
) -> None:
    command.slow.touch()
    plan = planned(command.sweep, "rounds=4000", seeds="0..1")

    command.go("--until", "16s", "--json", command="work")

    assert command.code() == UNFINISHED, command.said
    assert "its time is over" in command.said
    last = command.events[-1]
    assert last["event"] == STOPPED
    assert 0 < last["round"] == saved_round(plan.cells[0])
    assert checkpoints_in(plan.cells[0].folder / "checkpoints")


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_worker_that_gets_a_signal_saves_its_cell_and_says_so_with_its_exit_code(
    number: signal.Signals, command: Command, undisturbed: Callable[..., str]
) -> None:
    command.slow.touch()
    plan = planned(command.sweep, "rounds=200", "checkpoints.every_rounds=0", seeds="0")
    (cell,) = plan.cells
    command.go("--json", command="work")
    command.wait_for(lambda: rounds_in(cell.folder) > 4)

    command.signal(number)

    assert command.code() == UNFINISHED, command.said
    assert command.events[-1]["event"] == STOPPED
    assert saved_round(cell) == rounds_in(cell.folder)
    command.slow.unlink()
    command.go(command="work")
    assert command.code() == 0, command.said
    assert digest_of(cell.folder) == undisturbed(
        0, rounds=200, **{"checkpoints.every_rounds": 0}
    )


@pytest.mark.processes
def test_a_killed_worker_leaves_its_cell_to_the_next_one(
    command: Command, undisturbed: Callable[..., str]
) -> None:
    command.slow.touch()
    plan = planned(command.sweep, "rounds=100", seeds="0")
    (cell,) = plan.cells
    command.go(command="work")
    command.wait_for(lambda: saved_round(cell) >= EVERY)
    assert state_of(plan, cell) == RUNNING

    command.signal(signal.SIGKILL)
    assert command.code() == -signal.SIGKILL
    assert state_of(plan, cell) == STOPPED

    command.slow.unlink()
    command.go(command="work")
    assert command.code() == 0, command.said
    assert digest_of(cell.folder) == undisturbed(0, rounds=100)
