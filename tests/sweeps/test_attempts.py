"""A cell whose process dies again and again is given up, whoever takes it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.stop import StopFlag, Stopped
from rookery.sweeps.attempts import ATTEMPTS
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    STOPPED,
    failures,
    file_of,
    forget_failures,
    saved_round,
    state_of,
)
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.work import work
from tests.sweeps.conftest import EVERY, Command, digest_of, planned, rounds_in

KILLED, CRASHED = -signal.SIGKILL, -signal.SIGSEGV


def go(command: Command) -> int:
    """Work until nothing is left, or until that is the end of the process."""
    command.go(command="work")
    return command.code()


def kill_without_progress(command: Command, cell: Cell) -> None:
    """Kill a worker in the middle of a cell that saves no checkpoint."""
    before = rounds_in(cell.folder)
    command.slow.touch()
    command.go(command="work")
    command.wait_for(lambda: 0 < rounds_in(cell.folder) != before)
    command.signal(signal.SIGKILL)
    assert command.code() == KILLED
    command.slow.unlink()


def notes(plan: Plan) -> list[str]:
    return [path.name for path in (plan.folder / ATTEMPTS).iterdir()]


@pytest.mark.processes
@pytest.mark.shows("E9")
@pytest.mark.parametrize(("how", "code"), [("dies", KILLED), ("crashes", CRASHED)])
def test_a_cell_that_ends_its_process_is_tried_a_few_times_and_the_others_are_trained(
    how: str, code: int, command: Command
) -> None:
    words = (f"game.{how}=true,false", "restarts.limit=2", "checkpoints.every_rounds=0")
    plan = planned(command.sweep, *words, seeds="0")
    ending, fine = plan.cells

    codes = [go(command) for _ in range(3)]

    assert codes == [code, code, 0], command.said
    assert [state_of(plan, cell) for cell in plan.cells] == [FAILED, DONE]
    assert failures(plan)[ending.name].startswith(
        "its process died 2 times without a new checkpoint (restarts.limit), the last time "
        "as process "
    )
    assert f"{ending.name}: its process died 2 times" in command.said
    assert notes(plan) == []
    assert saved_round(fine) > 0

    forget_failures(plan)  # as `sweep go` does
    assert go(command) == code


@pytest.mark.processes
def test_a_killed_process_that_has_saved_a_checkpoint_does_not_count(
    command: Command, undisturbed: Callable[..., str]
) -> None:
    plan = planned(command.sweep, "rounds=60", "restarts.limit=1", seeds="0")
    (cell,) = plan.cells
    command.slow.touch()

    for _ in range(3):
        before = saved_round(cell)
        command.go(command="work")
        command.wait_for(lambda before=before: saved_round(cell) >= before + EVERY)
        command.signal(signal.SIGKILL)
        assert command.code() == KILLED

    command.slow.unlink()
    assert go(command) == 0, command.said
    assert state_of(plan, cell) == DONE
    assert digest_of(cell.folder) == undisturbed(0, rounds=60)


@pytest.mark.processes
def test_only_deaths_in_a_row_count(
    command: Command, undisturbed: Callable[..., str]
) -> None:
    changes = {"rounds": 60, "restarts.limit": 2, "checkpoints.every_rounds": 0}
    words = [f"{key}={value}" for key, value in changes.items()]
    plan = planned(command.sweep, *words, seeds="0")
    (cell,), stop = plan.cells, StopFlag()

    def stop_at_once(*told: object, **details: object) -> None:
        stop.signal = signal.SIGTERM

    kill_without_progress(command, cell)
    with pytest.raises(Stopped):
        work(plan, stop, stop_at_once)
    kill_without_progress(command, cell)

    assert (state_of(plan, cell), saved_round(cell)) == (STOPPED, 0)
    assert go(command) == 0, command.said
    assert digest_of(cell.folder) == undisturbed(0, **changes)


@pytest.mark.processes
def test_a_process_that_dies_on_another_machine_counts(command: Command) -> None:
    words = ("rounds=60", "restarts.limit=1", "checkpoints.every_rounds=0")
    plan = planned(command.sweep, *words, seeds="0")
    (cell,) = plan.cells
    kill_without_progress(command, cell)
    (claim,) = cell.folder.glob("claim-*")
    elsewhere = {"boot": "another", "host": "far-away"}
    claim.write_text(json.dumps(json.loads(claim.read_text()) | elsewhere))
    os.utime(claim, (1, 1))

    assert go(command) == 0, command.said

    assert "died once without a new checkpoint" in failures(plan)[cell.name]
    assert " on far-away: " in failures(plan)[cell.name]


@pytest.mark.processes
def test_a_process_that_dies_before_the_cell_goes_on_counts(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(command.sweep, "rounds=60", "restarts.limit=2", seeds="0")
    (cell,) = plan.cells
    command.slow.touch()
    command.go(command="work")
    command.wait_for(lambda: saved_round(cell) > 0)
    command.signal(signal.SIGTERM)
    command.code()
    deadly = command.folder / "deadly"
    deadly.touch()
    monkeypatch.setenv("DEADLY", str(deadly))

    codes = [go(command) for _ in range(3)]

    assert codes == [KILLED, KILLED, 0], command.said
    assert "its process died 2 times" in failures(plan)[cell.name]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"token": 1, "round": [], "deaths": "x"}',
        b'{"token": 1, "round": Infinity, "deaths": 1}',
    ],
)
def test_a_note_that_makes_no_sense_does_not_count(data: bytes, tmp_path: Path) -> None:
    plan = planned(tmp_path / "sweep", seeds="0")
    (cell,) = plan.cells
    note = file_of(plan, ATTEMPTS, cell)
    note.parent.mkdir()
    note.write_bytes(data)

    work(plan, StopFlag(), lambda *told, **details: None)

    assert state_of(plan, cell) == DONE
    assert notes(plan) == []


def test_a_cell_is_trained_even_if_that_cannot_be_noted(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sweep", seeds="0")
    (plan.folder / ATTEMPTS).touch()  # nothing can be written there

    work(plan, StopFlag(), lambda *told, **details: None)

    assert state_of(plan, plan.cells[0]) == DONE
