"""Which executor runs a training: what is timed, and what happens when a change fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rookery.actor.process import ActorProcess
from rookery.errors import GameError
from rookery.runs.configure import configure
from rookery.supervisor.supervisor import CannotStart
from rookery.training.executors import InProcess
from rookery.training.round_model import Processes
from rookery.training.switch import ExecutorSwitch
from rookery.training.training import Training
from tests.training.test_executors import SETTINGS

AUTO = {**SETTINGS, "worlds": 8, "workers": "auto"}


@pytest.fixture
def training() -> Iterator[Training]:
    """A run with `workers=auto`, after its first round."""
    training = Training.build(*configure("treasurehunt", settings=AUTO))
    training.publish_initial_states()
    training.schedule.open(0)
    training.executor.start(0)
    training.executor.advance(1)
    yield training
    training.close()


class Pool:
    """Stands for a process pool whose processes are ready."""

    is_ready, processes = True, Processes(1, 1)
    is_closed = False

    def advance(self, number: int) -> None:
        raise CannotStart("worker 0 died before it started to work")

    def close(self) -> None:
        self.is_closed = True


def timed_rounds(executor: ExecutorSwitch) -> int:
    assert executor.autoscaler is not None
    return len(executor.autoscaler._block)


def test_rounds_that_are_not_played_in_the_shares_to_be_measured_are_not_timed(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = training.executor
    assert executor.autoscaler is not None
    executor.autoscaler.shares = 2
    hand_over = False
    monkeypatch.setattr(
        ExecutorSwitch, "_can_hand_over", property(lambda switch: hand_over)
    )

    executor.reconsider(0.1, 0.1)
    assert (executor.now.actors, timed_rounds(executor)) == (1, 0)
    hand_over = True
    executor.reconsider(0.1, 0.1)
    assert (executor.now.actors, timed_rounds(executor)) == (2, 0)
    executor.reconsider(0.1, 0.1)
    assert timed_rounds(executor) == 1


def test_a_run_whose_processes_cannot_begin_stays_in_one_process(
    training: Training,
) -> None:
    executor = training.executor
    executor.now.close()
    executor.now = Pool()
    executor.autoscaler.begin(Pool.processes)

    training.schedule.open(1)
    executor.advance(2)

    assert isinstance(executor.now, InProcess)
    assert training.schedule.is_complete(2)
    assert executor.autoscaler is None  # its times would be taken for those of a pool
    assert executor.notes == [
        "worker 0 died before it started to work; the run continues in one process."
    ]


def test_a_game_that_cannot_be_closed_ends_the_run_and_all_processes(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(actor_process: ActorProcess) -> None:
        raise GameError("close() failed")

    executor, pool = training.executor, Pool()
    executor._starting = pool
    monkeypatch.setattr(ActorProcess, "close", fail)

    with pytest.raises(GameError):
        executor.reconsider(0.1, 0.1)
    executor.close()

    assert pool.is_closed
    assert executor.notes == []
