"""Several commands that train the same sweep share out its cells."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.sweeps.cells import DONE, state_of
from rookery.sweeps.plan import Plan
from rookery.sweeps.trust import Named
from tests.sweeps.conftest import FIELD, Command, digest_of, rounds_in

pytestmark = pytest.mark.processes

ROUNDS = 200
"""So many that a cell takes ten seconds while the game is slow."""


@pytest.fixture
def cell(command: Command, another: Command) -> Path:
    """The only cell of a sweep that one command trains, and another one waits for."""
    command.slow.touch()
    command.plan("seeds=3", rounds=ROUNDS)
    folder = command.sweep / "seed-3"
    command.wait_for(lambda: rounds_in(folder) > 3)
    another.go()
    waiting = "waiting for other processes, which train seed 3"
    another.wait_for(lambda: waiting in another.said)
    return folder


def check(command: Command, undisturbed: Callable[..., str]) -> None:
    (cell,) = (plan := Plan(command.sweep, Named([FIELD]))).cells
    assert state_of(plan, cell) == DONE
    assert rounds_in(cell.folder) == ROUNDS
    assert digest_of(cell.folder) == undisturbed(3, rounds=ROUNDS)


def test_a_command_waits_for_cells_that_others_train(
    cell: Path, command: Command, another: Command, undisturbed: Callable[..., str]
) -> None:
    command.slow.unlink()

    assert (command.code(), another.code()) == (0, 0), command.said + another.said
    assert "seed 3 is done" in command.said
    assert "seed 3 is done" not in another.said
    check(command, undisturbed)


def test_a_command_takes_cells_that_others_give_up(
    cell: Path, command: Command, another: Command, undisturbed: Callable[..., str]
) -> None:
    command.signal(signal.SIGKILL)
    assert command.code() == -signal.SIGKILL
    command.slow.unlink()

    assert another.code() == 0, another.said
    assert "seed 3 is done (1 of 1)" in another.said
    check(command, undisturbed)


def test_a_command_that_waits_can_be_stopped(cell: Path, another: Command) -> None:
    another.signal(signal.SIGTERM)

    assert another.code() == 75, another.said
    assert "stopped; go on with: rookery sweep go" in another.said
