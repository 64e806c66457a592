"""A sweep on one machine survives the death of its processes, and its own."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rookery.stop import UNFINISHED, StopFlag
from rookery.sweeps import child, local
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    STOPPED,
    WAITING,
    failures,
    saved_round,
    state_of,
)
from rookery.sweeps.local import LocalSweep
from rookery.sweeps.plan import Plan
from rookery.sweeps.tally import CannotStart, Tally
from rookery.sweeps.trust import Named
from rookery.sweeps.work import START
from tests.scenarios.conftest import is_alive, wait_for
from tests.sweeps.conftest import (
    FIELD,
    Command,
    digest_of,
    planned,
    rounds_in,
)

pytestmark = pytest.mark.processes

ROUNDS = 60
"""So many that a cell takes some seconds while the game is slow."""


def plan_of(command: Command) -> Plan:
    return Plan(command.sweep, Named([FIELD]))


def begun(command: Command) -> list[Path]:
    """Return the cells that have a checkpoint."""
    return [path.parent.parent for path in command.sweep.glob("**/ckpt-*")]


def holder_of(cell: Path) -> int:
    """Return the process that trains a cell."""
    (claim,) = cell.glob("claim-*")
    return int(json.loads(claim.read_text())["pid"])


def start(command: Command, seeds: str = "0..3", **changes: object) -> None:
    """Start a sweep, and wait until some cell has a checkpoint."""
    command.slow.touch()
    command.plan(f"seeds={seeds}", rounds=ROUNDS, **changes)
    command.wait_for(lambda: begun(command))


def check(command: Command, undisturbed: Callable[..., str]) -> None:
    """Check that all cells are done, with the digests of undisturbed ones."""
    plan = plan_of(command)
    assert {state_of(plan, cell) for cell in plan.cells} == {DONE}
    for cell in plan.cells:
        assert rounds_in(cell.folder) == ROUNDS
        assert digest_of(cell.folder) == undisturbed(cell.seed, rounds=ROUNDS)


class Quiet:
    is_live = False

    def show(self, running: Sequence[str], done: int) -> None:
        pass


@pytest.mark.shows("E9")
def test_a_cell_whose_process_is_killed_is_continued_with_the_same_bits(
    command: Command, undisturbed: Callable[..., str]
) -> None:
    start(command)

    os.kill(holder_of(begun(command)[0]), signal.SIGKILL)
    command.wait_for(lambda: "its process was killed by SIGKILL; it is" in command.said)
    command.slow.unlink()

    assert command.code() == 0, command.said
    assert command.said.count("it is continued") == 1
    check(command, undisturbed)


@pytest.mark.shows("E9")
def test_a_killed_sweep_leaves_nothing_running_and_goes_on_with_the_same_bits(
    command: Command, undisturbed: Callable[..., str]
) -> None:
    start(command)
    workers = command.workers()
    assert workers

    command.signal(signal.SIGKILL)
    assert command.code() == -signal.SIGKILL
    wait_for(lambda: not any(map(is_alive, workers)), seconds=5)
    plan = plan_of(command)
    assert STOPPED in {state_of(plan, cell) for cell in plan.cells}

    command.slow.unlink()
    command.go()
    assert command.code() == 0, command.said
    check(command, undisturbed)


@pytest.mark.shows("E9")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_sweep_that_is_stopped_saves_all_its_cells_and_goes_on(
    number: signal.Signals, command: Command, undisturbed: Callable[..., str]
) -> None:
    start(command)

    command.signal(number)
    assert command.code() == UNFINISHED, command.said
    assert "Traceback" not in command.said
    go = f"stopped; go on with: rookery sweep go {command.sweep} --game={FIELD}"
    assert go in command.said
    plan = plan_of(command)
    assert {state_of(plan, cell) for cell in plan.cells} <= {DONE, STOPPED, WAITING}
    for cell in plan.cells:
        assert saved_round(cell) == rounds_in(cell.folder)

    command.slow.unlink()
    command.go()
    assert command.code() == 0, command.said
    check(command, undisturbed)


def test_a_second_interrupt_leaves_at_once(command: Command) -> None:
    start(command)
    workers = command.workers()
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)  # it does not save, however long one waits

    command.signal(signal.SIGINT)
    command.wait_for(lambda: "press Ctrl-C again to leave at once" in command.said)
    command.signal(signal.SIGINT)

    assert command.code() == 130, command.said
    wait_for(lambda: not any(map(is_alive, workers)), seconds=5)


def test_a_sweep_leaves_before_its_time_is_over(command: Command) -> None:
    command.slow.touch()
    command.plan("seeds=0..3", "--until", "30s", rounds=4000)

    assert command.code() == UNFINISHED, command.said
    assert "Traceback" not in command.said
    plan = plan_of(command)
    assert max(saved_round(cell) for cell in plan.cells) > 0
    for cell in plan.cells:
        assert saved_round(cell) == rounds_in(cell.folder)


@pytest.mark.shows("E9")
def test_failed_cells_do_not_stop_others_and_are_named_at_the_end(
    command: Command,
) -> None:
    command.plan("game.fails=true,false", "seeds=0..1")

    assert command.code() == 2, command.said
    *_, last = command.said.splitlines()
    assert last.startswith(
        "error: 2 of 4 cells failed: fails=true/seed-0, fails=true/seed-1. The first: "
    )
    assert "ValueError: requested by a test" in last
    assert last.endswith(
        f"Try them again with: rookery sweep go {command.sweep} --game={FIELD}"
    )
    plan = plan_of(command)
    done = [cell.name for cell in plan.cells if state_of(plan, cell) == DONE]
    assert done == ["fails=false/seed-0", "fails=false/seed-1"]


def test_a_cell_that_kills_its_process_again_and_again_counts_as_failed(
    command: Command,
) -> None:
    command.plan("game.dies=true,false", "restarts.limit=2")

    assert command.code() == 2, command.said
    line = (
        "dies=true/seed-0 failed: its process was killed by SIGKILL, 2 times without a new "
        "checkpoint in between"
    )
    assert line in command.said
    assert state_of(plan_of(command), plan_of(command).cells[1]) == DONE


def test_a_death_is_not_counted_once_another_process_has_ended_the_cell(
    tmp_path: Path,
) -> None:
    plan, said = planned(tmp_path / "sweep", "restarts.limit=1"), list[str]()
    tally, cell = Tally(plan, Quiet(), said.append, print), plan.cells[0]
    tally.take_event(cell, {"event": FAILED, "line": "its process died once"})

    tally.take_death(cell, "its process was killed by SIGKILL")

    assert said == [f"{cell.label} failed: its process died once"]
    assert failures(plan) == {}


def test_a_process_that_has_saved_a_checkpoint_before_it_died_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, said = planned(tmp_path / "sweep", "restarts.limit=2"), list[str]()
    tally, cell = Tally(plan, Quiet(), said.append, print), plan.cells[0]
    saved = [0, 4, 4, 4]
    monkeypatch.setattr("rookery.sweeps.tally.saved_round", lambda cell: saved.pop(0))

    for round_ in (0, 0, 4):
        tally.take_event(cell, {"event": START, "round": round_})
        tally.take_death(cell, "its process was killed")

    assert [line.rpartition("round ")[2] for line in said] == ["0.", "4.", "4."]
    tally.take_event(cell, {"event": START, "round": 4})
    tally.take_death(cell, "its process was killed")
    assert failures(plan) == {
        cell.name: "its process was killed, 2 times without a new checkpoint in between"
    }


def test_if_no_process_starts_the_sweep_ends_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "CODE", "raise SystemExit('error: no memory')")
    said: list[str] = []
    sweep = LocalSweep(planned(tmp_path / "sweep"), StopFlag(), Quiet(), said.append, print)

    with pytest.raises(CannotStart) as error:
        sweep.run()

    assert str(error.value) == (
        "no process takes a cell; the last one ended with exit code 1: no memory"
    )


class Dead(local._Process):
    """A process that has ended without a word."""

    def __init__(self) -> None:
        self.cell = None

    def last_error(self) -> str:
        return ""


def test_deaths_before_a_cell_count_only_in_a_row(tmp_path: Path) -> None:
    """A few kills of processes that are starting must not end a long sweep."""
    plan = planned(tmp_path / "sweep")
    sweep = LocalSweep(plan, StopFlag(), Quiet(), print, print)
    cell, starting, working = plan.cells[0].name, Dead(), Dead()

    for _ in range(10):
        sweep._bury(starting, -9)
        sweep._bury(starting, -9)
        sweep._take(working, {"event": "start", "cell": cell, "round": 0})

    sweep._bury(starting, -9)
    sweep._bury(starting, -9)
    with pytest.raises(CannotStart):
        sweep._bury(starting, -9)


def test_what_a_game_prints_is_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"event": "start", "cell": "a"}
    lines = ["3", "{}", '["event"]', json.dumps(told), '{"event":']
    code = f"print('x' * 2**20); print({chr(10).join(lines)!r}, end='')"
    monkeypatch.setattr(child, "CODE", code)
    process = child.Child("rookery.sweeps.machine", [])
    process.process.wait()

    assert process.new_events() == [told]
    assert process.new_events() == []
    process.close()
