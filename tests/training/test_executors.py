"""Executors: taking over from one that was killed, switching, and assigning agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rookery.actor.process import ActorProcess
from rookery.games.guard import GuardedGame
from rookery.learner.learner import LearnerWorker
from rookery.protocol.arena import GATE
from rookery.replay.rows import Rows
from rookery.runs.configure import configure
from rookery.shm.counters import Counters
from rookery.shm.heartbeat import Heartbeat
from rookery.shm.reports import Reports
from rookery.storage.checkpoints import digest
from rookery.training import executors
from rookery.training.autoscale import Autoscaler
from rookery.training.executors import InProcess, ProcessPool
from rookery.training.round_model import ONE, Processes
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
    """Stands for a kill in one process: nothing happens after it."""


class Killer:
    """Kills before or after every n-th change of shared memory."""

    def __init__(self, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._every, self._points, self.kills = every, 0, 0
        for owner, name in ((Counters, "store"), (Rows, "seal"), (Reports, "write")):
            method = getattr(owner, name)
            monkeypatch.setattr(owner, name, self._deadly(method))

    def _deadly(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(owner: Any, *arguments: Any) -> None:
            if arguments[0] == GATE:  # written by main
                return method(owner, *arguments)
            self._pass()
            method(owner, *arguments)
            self._pass()

        return call

    def _pass(self) -> None:
        self._points += 1
        if self._points % self._every == 0:
            self.kills += 1
            raise Killed


def training_of(case: str) -> Training:
    game, changes = CASES[case]
    settings = {k: v for k, v in {**SETTINGS, **changes}.items() if v is not None}
    training = Training.build(*configure(game, settings=settings))
    training.publish_initial_states()
    return training


def train(training: Training) -> dict[str, str]:
    """Train, with a new executor after every kill; return every agent's digest."""
    executor: InProcess | None = None
    for number in range(1, SETTINGS["rounds"] + 1):
        training.schedule.open(number - 1)
        while not training.schedule.is_complete(number):
            try:
                executor = executor or InProcess(training.parts)
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
def test_a_run_that_is_killed_again_and_again_gives_the_same_bits(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed, killed = training_of(case), training_of(case)
    expected = train(undisturbed)
    killer = Killer(11, monkeypatch)

    digests = train(killed)

    assert digests == expected
    assert killer.kills > 40
    undisturbed.close()
    killed.close()


def test_a_game_without_snapshots_is_never_handed_over(
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
    """A process pool that has started."""

    is_ready, processes = True, Processes(1, 1)


@pytest.mark.shows("A7")
def test_a_game_is_not_handed_over_in_an_episode_too_long_to_repeat() -> None:
    training = training_of("replayed")
    training.schedule.open(0)
    executor = training.executor
    executor.start(0)
    executor.advance(1)
    before, exact = executor.now, training.snapshot(1)[1]["game/exact"]
    pool = Ready()

    exact[0] = False
    autoscaler = Autoscaler(training.config, training.agents)
    executor._hand_over_when_ready(pool, autoscaler)
    assert executor.now is before
    assert autoscaler.now == ONE

    exact[0] = True
    executor._hand_over_when_ready(pool, autoscaler)
    assert executor.now is pool
    assert autoscaler.now == Processes(1, 1)
    executor.now = None
    training.close()


def test_the_heart_beats_during_evaluations() -> None:
    settings = {**SETTINGS, "evaluate.every_rounds": 1, "rounds": 1}
    training = Training.build(*configure("treasurehunt", settings=settings))
    training.publish_initial_states()
    training.schedule.open(0)
    heartbeat = Heartbeat()
    parts = training.parts
    actor_process = ActorProcess(parts, heartbeat)
    actor_process.complete(actor_process.begin())
    process_spec = replace(parts.process_spec, hosted=range(3))
    worker = LearnerWorker(process_spec, parts.agents, parts.arena)
    worker.begin()
    actor_process.play_round(1)
    actor_process.complete(1)
    worker.learn_round(1)
    before = heartbeat._beats

    actor_process.finish()

    assert heartbeat._beats - before >= 2 * SETTINGS["game.turns"]
    actor_process.close()
    training.close()


def test_the_heart_beats_while_rows_are_hashed() -> None:
    training, heartbeat = training_of("pipelined"), Heartbeat()
    training.schedule.open(0)
    actor_process = ActorProcess(training.parts, heartbeat)
    actor_process.complete(actor_process.begin())
    actor_process.play_round(1)
    before = heartbeat._beats

    actor_process.complete(1)

    turns = len(training.agents) * SETTINGS["turns_per_round"]
    assert heartbeat._beats - before >= turns
    actor_process.close()
    training.close()


def test_the_progress_of_a_worker_is_that_of_an_agent_no_other_worker_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a worker that hangs would seem to advance with the others."""
    monkeypatch.setattr(executors, "cores", lambda: 4)
    least = {"agents": {"1": {"updates_per_round": 1}}}  # the least work: it is shared
    training = Training.build(*configure("treasurehunt", settings={**SETTINGS, **least}))

    pool = ProcessPool(training.parts, Processes(1, 2))

    assert pool.hosted == {"worker 0": [0, 1], "worker 1": [1, 2]}
    assert pool.supervisor._progress == {
        "actor": "snapshot 0",
        "worker 0": "version 0",
        "worker 1": "version 2",
    }
    training.close()
