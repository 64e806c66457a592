"""Several actors: any number of them plays, commits and reports the same, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from rookery.actor.process import ActorProcess
from rookery.games.guard import GuardedGame
from rookery.learner.learner import LearnerWorker
from rookery.protocol.arena import COMMIT
from rookery.protocol.shares import commit_counter, shares_of
from rookery.runs.configure import configure
from rookery.training.executors import InProcess
from rookery.training.training import Training
from tests.paths import EXPERIMENTS
from tests.training.test_executors import Killed, Killer

OWN = EXPERIMENTS / "own_agents.py"
SETTINGS: dict[str, Any] = {
    "rounds": 4,
    "turns_per_round": 8,
    "worlds": 16,
    "frames": 2,
    "updates_per_round": 2,
    "batch_size": 8,
    "replay.warmup": 8,
    "replay.capacity": 400,
    "network.width": 17,
    "epsilon.steps": 600,
    "workers": 0,
}
HUNT = {"game.turns": 11}
CASES: dict[str, tuple[int, str, dict[str, Any]]] = {
    "2, iqn": (2, "treasurehunt", HUNT),
    "4, ppo": (4, "treasurehunt", HUNT | {"algorithm": "ppo", "schedule": "sync"}),
    "3, recurrent_ppo": (
        3,
        "treasurehunt",
        HUNT | {"algorithm": "recurrent_ppo", "recurrent.width": 16, "worlds": 13},
    ),
    "4, scripted and frozen, in turn": (
        4,
        "treasurehunt",
        HUNT
        | {
            "game.acting": "in_turn",
            "agents": {
                "0": {"player": "forager"},
                "1": {"player": "random"},
                "2": {"learning": False},
            },
            "game.agents": 4,
        },
    ),
    "3, agents that drop out": (3, "gathering", {"algorithm": "dqn"}),
    "2, own": (
        2,
        "iterated_prisoners_dilemma",
        {
            "agents": {
                "0": {"algorithm": f"{OWN}:Linear"},
                "1": {"algorithm": f"{OWN}:Net"},
            }
        },
    ),
    "3, spread": (3, "pettingzoo:mpe2.simple_spread_v3", {"rounds": 3}),
    "2, foraging": (
        2,
        "gymnasium:lbforaging/Foraging-8x8-2p-2f-coop-v3",
        {"algorithm": "vtrace", "rounds": 3},
    ),
    "4, masked, in turn": (
        4,
        "pettingzoo:pettingzoo.classic.tictactoe_v3",
        {"algorithm": "dqn", "discount_per": "step"},
    ),
}


@contextmanager
def training_of(game: str, settings: dict[str, Any], actors: int) -> Iterator[Training]:
    merged = {**SETTINGS, **settings, "actors": actors}
    training = Training.build(*configure(game, settings=merged))
    training.publish_initial_states()
    yield training
    training.close()


def contents(training: Training) -> dict[str, bytes]:
    """Return all rows and states, and the newest snapshot."""
    arena, rounds = training.arena, training.config.rounds
    arrays = {agent.id: arena.rows(agent.id).records for agent in training.agents}
    arrays |= arena.snapshots().read(rounds)
    for agent in training.agents:
        if agent.learns:
            states = arena.states(agent.id).read(rounds)
            arrays |= {f"{agent.id}/{name}": array for name, array in states.items()}
    return {name: array.tobytes() for name, array in arrays.items()}


def reports(training: Training, number: int) -> tuple[Any, Any]:
    """Return the metrics and the episodes of a round."""
    report = training.arena.actor_reports().read(number)
    return report["metrics"], report["episodes"]


def train(training: Training, actors: Sequence[int] = ()) -> list[Any]:
    """Train in this process; return the reports of all rounds.

    Args:
        training: the run.
        actors: for each round, if their number changes at boundaries.
    """
    played, executor = [], None
    for number in range(1, training.config.rounds + 1):
        training.schedule.open(number - 1)
        parts = training.parts
        if actors:
            spec = replace(parts.process_spec, actors=actors[number - 1])
            parts = replace(parts, process_spec=spec)
            executor = None
        executor = executor or InProcess(parts)
        executor.advance(number)
        played.append(reports(training, number))
    return played


@pytest.mark.shows("C3", "C5")
@pytest.mark.parametrize("case", CASES)
def test_any_number_of_actors_gives_the_same_rows_states_and_reports(case: str) -> None:
    actors, game, settings = CASES[case]
    with (
        training_of(game, settings, 1) as alone,
        training_of(game, settings, actors) as shared,
    ):
        expected, played = train(alone), train(shared)

        # Torch's products of own networks may depend on the number of rows: the processor
        # decides, and then one actor plays.
        refused = any("does not act with the same bits" in x for x in shared.warnings)
        assert not refused or case == "2, own"
        assert shared.parts.process_spec.actors == (1 if refused else actors)
        assert contents(shared) == contents(alone)
        assert played == expected


def test_the_number_of_actors_can_change_at_every_boundary() -> None:
    with (
        training_of("treasurehunt", HUNT, 1) as alone,
        training_of("treasurehunt", HUNT, 1) as changing,
    ):
        expected, played = train(alone), train(changing, actors=[2, 4, 1, 3])

        assert contents(changing) == contents(alone)
        assert played == expected


def test_episodes_are_reported_by_turn_and_world() -> None:
    with training_of("pettingzoo:pettingzoo.classic.tictactoe_v3", {}, 3) as training:
        ended = [
            (episode[1], episode[0])
            for _, episodes in train(training)
            for episode in episodes
        ]

    assert len({world for _, world in ended}) == 16
    assert len(ended) > 16


# Kills.


class Actors:
    """The actors of a run, each of which is replaced on its own when it is killed."""

    def __init__(self, training: Training) -> None:
        self._parts, self._training = training.parts, training
        training.arena.begin_shares()
        count = training.parts.process_spec.actors
        self._steps: list[Iterator[None]] = [self._life(share) for share in range(count)]
        spec = replace(training.parts.process_spec, hosted=range(len(training.agents)))
        self._worker = LearnerWorker(spec, training.agents, training.arena)
        self._worker.begin()

    def _life(self, share: int) -> Iterator[None]:
        """Do what an actor's process does; yield where it would wait for others."""
        actor_process = ActorProcess(self._parts, share=share)
        number = actor_process.begin()
        while True:
            while not self._have_arrived(share, number):
                yield
            actor_process.complete(number)
            number += 1
            while not self._training.schedule.is_complete(number - 1):
                yield
            actor_process.play_round(number)
            yield

    def _have_arrived(self, share: int, boundary: int) -> bool:
        shares = shares_of(self._training.config.worlds, len(self._steps))
        snapshots = [self._training.arena.share_snapshots(each) for each in shares]
        return share > 0 or all(each.version >= boundary for each in snapshots)

    def advance(self, number: int) -> None:
        """Play and learn a round, whatever is killed on the way."""
        schedule = self._training.schedule
        while not schedule.is_complete(number):
            for share in range(len(self._steps)):
                try:
                    next(self._steps[share])
                except Killed:
                    self._steps[share] = self._life(share)
            if number == 1 or schedule.is_complete(number - 1):
                self._learn(number)

    def _learn(self, number: int) -> None:
        """Learn once the rows of the round are committed, as in the schedule sync."""
        turns = self._training.config.turns_per_round
        if self._training.arena.counters.load(COMMIT) >= number * turns:
            try:
                self._worker.learn_round(number)
            except Killed:
                self._worker.begin()


@pytest.mark.shows("B2", "C5")
@pytest.mark.parametrize("every", [57, 59, 71])
@pytest.mark.parametrize(
    "game", ["treasurehunt", "pettingzoo:mpe2.simple_speaker_listener_v4"]
)
def test_an_actor_that_is_killed_is_replaced_on_its_own_with_the_same_bits(
    game: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = HUNT if game == "treasurehunt" else {}
    settings = {**settings, "schedule": "sync", "worlds": 12, "rounds": 6}
    with training_of(game, settings, 1) as alone, training_of(game, settings, 3) as shared:
        expected = train(alone)
        killer = Killer(every, monkeypatch)
        actors, played = Actors(shared), []
        for number in range(1, shared.config.rounds + 1):
            shared.schedule.open(number - 1)
            actors.advance(number)
            played.append(reports(shared, number))

        assert contents(shared) == contents(alone)
        assert played == expected
        assert killer.kills > 9


@pytest.mark.shows("B2", "C5")
@pytest.mark.parametrize("every", [57, 59, 71])
@pytest.mark.parametrize("schedule", ["sync", "pipelined"])
def test_a_run_killed_at_any_moment_continues_with_another_number_of_actors(
    schedule: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**HUNT, "schedule": schedule, "rounds": 6}
    with (
        training_of("treasurehunt", settings, 1) as alone,
        training_of("treasurehunt", settings, 1) as killed,
    ):
        expected = train(alone)
        killer, numbers = Killer(every, monkeypatch), cycle([3, 1, 4, 2])
        executor, played = None, []
        for number in range(1, killed.config.rounds + 1):
            killed.schedule.open(number - 1)
            while not killed.schedule.is_complete(number):
                try:
                    executor = executor or InProcess(killed.parts, next(numbers))
                    executor.advance(number)
                except Killed:
                    executor = None
            played.append(reports(killed, number))

        assert contents(killed) == contents(alone)
        assert played == expected
        assert killer.kills > 9


def test_a_share_whose_game_cannot_be_restored_loses_no_committed_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other actor's worlds are not affected."""
    monkeypatch.setattr(GuardedGame, "can_snapshot", property(lambda game: False))
    settings = {**HUNT, "schedule": "sync", "worlds": 8, "rounds": 2}
    with (
        training_of("treasurehunt", settings, 2) as undisturbed,
        training_of("treasurehunt", settings, 2) as training,
    ):
        train(undisturbed)
        training.schedule.open(0)
        actor_processes = [ActorProcess(training.parts, share=share) for share in (0, 1)]
        lost = 3

        def fail_in_turn(end_turn: Callable[[], Any]) -> Callable[[], Any]:
            turns = iter(range(lost + 1))

            def end() -> Any:
                if next(turns) == lost:
                    raise Killed
                return end_turn()

            return end

        for actor_process in actor_processes:
            actor_process.begin()
        actor_processes[0].complete(0)
        actor_processes[0].play_round(1)
        game = actor_processes[1].game
        monkeypatch.setattr(game, "end_turn", fail_in_turn(game.end_turn))
        with pytest.raises(Killed):
            actor_processes[1].play_round(1)
        assert training.arena.counters.load(commit_counter(1)) == lost
        replacement = ActorProcess(training.parts, share=1)
        replacement.begin()
        replacement.play_round(1)
        actor_processes[0].complete(1)

        assert training.arena.actor_reports().read(1)["interrupted"]
        turns = training.config.turns_per_round
        for agent in training.agents:
            rows, expected = (
                each.arena.rows(agent.id).columns for each in (training, undisturbed)
            )
            for name in ("action", "reward", "active", "truncated"):
                ours, theirs = rows[name][:turns], expected[name][:turns]
                np.testing.assert_array_equal(ours[:, :4], theirs[:, :4], err_msg=name)
                np.testing.assert_array_equal(ours[:lost], theirs[:lost], err_msg=name)
            assert rows["truncated"][lost, 4:].all()
            assert not rows["active"][lost : lost + 2, 4:].any()
            assert rows["active"][lost + 2, 4:].all()
