"""`workers=auto` is decided by timing rounds."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

import rookery
from rookery.algorithms.agents import build_agents
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure
from rookery.training import autoscale
from rookery.training.autoscale import Autoscaler, WorkerChoice, choose
from tests.small import train as train_smallest


@pytest.mark.shows("E6")
@pytest.mark.parametrize(
    ("arguments", "workers", "reason"),
    [
        ((0.1, 0.9, "pipelined", 4, 8, 1000), 4, "4 workers, because a round takes 100 ms"),
        ((0.5, 0.5, "pipelined", 2, 3, 1000), 1, "1 worker, because a round takes 500 ms"),
        ((0.1, 0.9, "sync", 2, 3, 1000), 2, "2 workers, because"),
        ((0.5, 0.5, "sync", 2, 4, 1000), 2, "2 workers, because"),
        ((0.5, 0.5, "sync", 2, 3, 1000), 0, "would hardly speed that up"),
        ((0.1, 0.9, "pipelined", 1, 8, 1000), 0, "because there is only one core"),
        ((0.9, 0.01, "pipelined", 4, 8, 1000), 0, "would hardly speed that up"),
        ((0.1, 0.9, "pipelined", 4, 8, 5), 0, "because the run is too short"),
        ((0.1, 0.9, "pipelined", 4, 1, 1000), 0, "one process"),
    ],
    ids=[
        "many",
        "halves",
        "sync",
        "sync halves",
        "sync of three",
        "one core",
        "playing",
        "short",
        "single",
    ],
)
def test_the_number_of_workers_follows_from_times_and_cores(
    arguments: tuple, workers: int, reason: str
) -> None:
    choice = choose(*arguments)

    assert reason in choice.reason
    assert choice.workers == workers


@pytest.mark.shows("E4")
@pytest.mark.parametrize("cores", [1, 2, 4, 64])
@pytest.mark.parametrize("schedule", ["sync", "pipelined", "async"])
def test_auto_never_has_more_than_one_process_more_than_cores(
    cores: int, schedule: str
) -> None:
    for play, learn in ((0.001, 1.0), (0.5, 0.5), (1.0, 0.1)):
        choice = choose(play, learn, schedule, cores, agents=100, rounds_left=10**6)
        assert choice.workers + 1 <= cores + 1


def test_a_worker_that_does_not_help_is_not_started() -> None:
    assert choose(0.5, 0.5, "pipelined", 64, 100, 10**6).workers == 1


@pytest.mark.parametrize("schedule", ["sync", "pipelined"])
def test_more_cores_never_lead_to_fewer_workers(schedule: str) -> None:
    workers = [choose(0.2, 0.8, schedule, c, 8, 10**6).workers for c in range(1, 9)]

    assert workers == sorted(workers)
    assert workers[-1] > workers[0] == 0


def autoscaler_of(**settings: object) -> Autoscaler:
    entry, config = configure("treasurehunt", settings=settings)
    return Autoscaler(config, build_agents(config, agents_of(entry, config)))


@pytest.mark.shows("E6")
def test_rounds_without_updates_are_not_timed() -> None:
    autoscaler = autoscaler_of()
    for _ in range(50):
        autoscaler.add(1.0, 0.0)
    assert not autoscaler.has_enough

    for _ in range(3):
        autoscaler.add(0.2, 0.6)

    assert autoscaler.has_enough


def test_decisions_depend_on_medians_and_on_the_rounds_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(autoscale, "cores", lambda: 2)
    autoscaler = autoscaler_of()
    for learned in (0.5, 0.6, 99.0):
        autoscaler.add(0.1, learned)

    assert autoscaler.decide(1000).workers == 2
    assert "600 ms to learn" in autoscaler.decide(1000).reason
    assert autoscaler.decide(4).workers == 0


@pytest.mark.shows("E6")
@pytest.mark.parametrize(("seconds", "is_slower"), [(0.5, False), (1.5, True)])
def test_processes_that_turn_out_slower_are_given_up(
    seconds: float, is_slower: bool
) -> None:
    autoscaler = autoscaler_of()
    autoscaler.add(0.4, 0.6)
    judged = []
    for _ in range(10):
        autoscaler.add_pooled(seconds)
        judged.append(autoscaler.is_slower)

    assert judged == [False] * 9 + [is_slower]
    assert statistics.median(autoscaler._pooled) == seconds


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

    def decide(autoscaler: Autoscaler, rounds_left: int) -> WorkerChoice:
        left.append(rounds_left)
        return WorkerChoice(0, "workers=auto: one process")

    monkeypatch.setattr(Autoscaler, "has_enough", property(lambda autoscaler: True))
    monkeypatch.setattr(Autoscaler, "decide", decide)
    rookery.resume(tmp_path / "run", rounds=9)

    assert left == [4]
