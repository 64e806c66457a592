"""An actor killed anywhere in a round is replaced and the round ends with the same bits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rookery.actor.metrics import RoundMetrics
from rookery.actor.process import ActorProcess
from rookery.games.episodes import Episode
from rookery.protocol.arena import COMMIT, Arena
from rookery.runs.configure import configure
from rookery.training.training import Training
from tests.stress.kill_sweep import sweep, turning_points

pytestmark = pytest.mark.processes

TURNS = 2
SETTINGS = {
    "rounds": 2,
    "turns_per_round": TURNS,
    "worlds": 2,
    "game.turns": 3,
    "game.agents": 2,
    "replay.capacity": 4,
    "agents": {"0": {"player": "forager"}, "1": {"player": "random"}},
}
REPORTS = "reports"
"""The block that contains times, which differ in every run."""


class SecondRound:
    """The second round of a real game, from its first turn to its snapshot."""

    modules = (
        "rookery.actor.actor",
        "rookery.actor.boundary",
        "rookery.shm",
        "rookery.replay",
        "rookery.protocol.arena",
    )

    def __init__(self, training: Training) -> None:
        self.arena, self._parts = training.arena, training.parts
        self._actor_process = self._new_actor_process()
        training.schedule.open(2)
        self._play(self._actor_process, 1)
        self._before = self._bytes()
        self.operation()
        self._after = self.left()

    def _new_actor_process(self) -> ActorProcess:
        actor_process = ActorProcess(self._parts)
        actor_process.complete(actor_process.begin())
        return actor_process

    @staticmethod
    def _play(actor_process: ActorProcess, number: int) -> None:
        actor_process.play_round(number)
        actor_process.complete(number)

    def _bytes(self) -> dict[str, bytes]:
        return {name: bytes(block._map) for name, block in self.arena._blocks.items()}

    def reset(self) -> None:
        for name, data in self._before.items():
            self.arena._blocks[name]._map[:] = data
        self._actor_process.begin()

    def operation(self) -> None:
        self._play(self._actor_process, 2)

    def left(self) -> tuple[bytes, ...]:
        return tuple(data for name, data in self._bytes().items() if name != REPORTS)

    def audit(self, *, killed: bool) -> list[str]:
        commit, boundary = self.arena.counters.load(COMMIT), self.arena.snapshots().version
        problems = damaged(self.arena, commit)
        if problems:
            return problems  # a new actor would refuse to continue from there
        if killed and boundary == 1:
            replacement = self._new_actor_process()
            if self.arena.snapshots().version == 1:
                self._play(replacement, 2)
        elif boundary != 2:
            problems.append(f"the snapshot is of boundary {boundary}")
        if self.arena.actor_reports().read(2)["metrics"].keys() != {"0", "1"}:
            problems.append("the round has no report")
        same = self.left() == self._after
        return problems if same else [*problems, "the round ended with other bits"]


def damaged(arena: Arena, commit: int) -> list[str]:
    rows = {agent: arena.rows(agent) for agent in ("0", "1")}
    return [
        f"row {turn} of agent {agent} is damaged, the commit is {commit}"
        for agent in rows
        for turn in range(max(0, commit - rows[agent].slots + 1), commit)
        if not rows[agent].is_whole(turn)
    ]


class CommitsFirst(SecondRound):
    """Planted: a turn is committed when it starts."""

    def operation(self) -> None:
        actor = self._actor_process.actor
        play_turn = actor._play_turn

        def commit_and_play(metrics: RoundMetrics) -> list[Episode]:
            self.arena.counters.store(COMMIT, actor.state.turn + 1)
            return play_turn(metrics)

        actor._play_turn = commit_and_play  # type: ignore[method-assign]
        super().operation()
        del actor._play_turn


@pytest.fixture
def training() -> Iterator[Training]:
    entry, config = configure("treasurehunt", settings={**SETTINGS, "workers": 0})
    training = Training.build(entry, config)
    training.publish_initial_states()
    yield training
    training.close()


@pytest.mark.shows("B2")
def test_an_actor_killed_anywhere_in_a_round_is_replaced_and_ends_with_the_same_bits(
    training: Training,
) -> None:
    case = SecondRound(training)
    points = turning_points(case)

    result = sweep(case, points)

    assert result.problems == []
    assert result.kills == len(points) - 1 > 30
    assert result.states == len(points)


def test_a_turn_that_is_committed_before_it_is_played_is_found(training: Training) -> None:
    case = CommitsFirst(training)

    result = sweep(case, turning_points(case))

    assert "is damaged, the commit is 3" in result.problems[0]
