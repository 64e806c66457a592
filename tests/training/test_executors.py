"""Whoever takes over goes on from shared memory, wherever the one before was killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rookery.actor.process import ActorProcess
from rookery.games.guard import GuardedGame
from rookery.learner.process import worker_of
from rookery.protocol.arena import GATE
from rookery.replay.rows import Rows
from rookery.runs.configure import configure
from rookery.shm.counters import Counters
from rookery.shm.heartbeat import Heartbeat
from rookery.shm.reports import Reports
from rookery.storage.checkpoints import digest
from rookery.training.executors import OneProcess
from rookery.training.training import Training

SETTINGS: dict[str, Any] = {
    "rounds": 6,
    "turns_per_round": 8,
    "worlds": 2,
    "frames": 2,
    "updates_per_round": 2,
    "batch_size": 8,
    "replay.warmup": 8,
    "replay.capacity": 40,
    "network.width": 17,
    "game.turns": 11,
    "workers": 0,
}
AGENTS = {"1": {"algorithm": "ppo"}, "2": {"network": {"width": 16}}}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "pipelined": ("treasurehunt", {"replay.kind": "prioritised", "agents": AGENTS}),
    "sync": ("treasurehunt", {"schedule": "sync", "reward.standardise": True}),
    "replayed": ("pettingzoo:mpe2.simple_speaker_listener_v4", {"game.turns": None}),
}


class Killed(BaseException):
    """What a kill is within one process: nothing after it happens."""


class Killer:
    """Kills at every n-th moment at which something shared is about to change or has."""

    def __init__(self, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._every, self._moments, self.kills = every, 0, 0
        for owner, name in ((Counters, "store"), (Rows, "seal"), (Reports, "write")):
            method = getattr(owner, name)
            monkeypatch.setattr(owner, name, self._deadly(method))

    def _deadly(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(one: Any, *about: Any) -> None:
            if about[0] == GATE:  # main's own
                return method(one, *about)
            self._pass()
            method(one, *about)
            self._pass()

        return call

    def _pass(self) -> None:
        self._moments += 1
        if self._moments % self._every == 0:
            self.kills += 1
            raise Killed


def training_of(case: str) -> Training:
    game, more = CASES[case]
    settings = {k: v for k, v in {**SETTINGS, **more}.items() if v is not None}
    training = Training.build(*configure(game, settings=settings))
    training.publish_initial_states()
    return training


def train(training: Training) -> dict[str, str]:
    """Train with one process after the other; return every agent's digest."""
    executor: OneProcess | None = None
    for number in range(1, SETTINGS["rounds"] + 1):
        training.schedule.open(number - 1)
        while not training.schedule.is_complete(number):
            try:
                executor = executor or OneProcess(training.parts)
                executor.advance(number)
            except Killed:
                executor = None
    hashes = training.snapshot(SETTINGS["rounds"])[1]["life/hashes"]
    return {
        agent.id: digest(
            training.named_state(agent, SETTINGS["rounds"]), hashes[i].tobytes().hex()
        )
        for i, agent in enumerate(training.agents)
    }


@pytest.mark.shows("B2", "C1", "C5")
@pytest.mark.parametrize("case", CASES)
def test_a_run_killed_at_every_kind_of_moment_gives_the_bits_of_one_left_alone(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, disturbed = training_of(case), training_of(case)
    expected = train(quiet)
    killer = Killer(11, monkeypatch)

    found = train(disturbed)

    assert found == expected
    assert killer.kills > 40
    quiet.close()
    disturbed.close()


def test_a_game_that_cannot_be_snapshot_stays_with_whoever_plays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry, config = configure("treasurehunt", settings={**SETTINGS, "workers": "auto"})
    can = Training.build(entry, config)
    monkeypatch.setattr(GuardedGame, "can_snapshot", property(lambda game: False))
    cannot = Training.build(entry, config)

    assert can.executor.autoscaler is not None
    assert cannot.executor.autoscaler is None
    can.close()
    cannot.close()


class Ready:
    """A crew that has started."""

    is_ready = True


@pytest.mark.shows("A7")
def test_a_game_in_episodes_too_long_to_repeat_stays_with_whoever_plays_it() -> None:
    training = training_of("replayed")
    training.schedule.open(0)
    executor = training.executor
    executor.start(0)
    executor.advance(1)
    playing, exact = executor.now, training.snapshot(1)[1]["game/exact"]
    executor._coming = coming = Ready()

    exact[0] = False
    executor._welcome()
    assert executor.now is playing

    exact[0] = True
    executor._welcome()
    assert executor.now is coming
    executor.now = None
    training.close()


def test_who_plays_a_match_gives_signs_of_life() -> None:
    settings = {**SETTINGS, "evaluate.every_rounds": 1, "rounds": 1}
    training = Training.build(*configure("treasurehunt", settings=settings))
    training.publish_initial_states()
    training.schedule.open(0)
    heartbeat = Heartbeat()
    parts = training.parts
    actor_process = ActorProcess(
        parts.entry,
        parts.process_spec,
        parts.agents,
        parts.arena,
        parts.schedule,
        heartbeat,
    )
    actor_process.actor.begin()
    learner = worker_of(parts.process_spec, parts.agents, parts.arena, range(3))
    learner.begin()
    actor_process.play_round(1)
    learner.learn_round(1)
    before = heartbeat._beats

    actor_process.finish()

    assert heartbeat._beats - before >= 2 * SETTINGS["game.turns"]
    actor_process.close()
    training.close()
