"""`workers=auto`: decided by what was measured."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from rookery.algorithms.agents import build_agents
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure
from rookery.training import autoscale as tuning
from rookery.training import warnings as advice
from rookery.training.autoscale import Autoscaler, choose
from rookery.training.warnings import advise


@pytest.mark.shows("E6")
@pytest.mark.parametrize(
    ("about", "workers", "words"),
    [
        ((0.1, 0.9, "pipelined", 4, 8, 1000), 4, "4 workers, since playing takes 100 ms"),
        ((0.5, 0.5, "pipelined", 2, 3, 1000), 1, "1 worker, since playing takes 500 ms"),
        ((0.1, 0.9, "sync", 2, 3, 1000), 2, "2 workers, since"),
        ((0.5, 0.5, "sync", 2, 4, 1000), 2, "2 workers, since"),
        ((0.5, 0.5, "sync", 2, 3, 1000), 0, "too little to gain"),
        ((0.1, 0.9, "pipelined", 1, 8, 1000), 0, "one process, since there is one core"),
        ((0.9, 0.01, "pipelined", 4, 8, 1000), 0, "too little to gain"),
        ((0.1, 0.9, "pipelined", 4, 8, 5), 0, "one process, since the run is short"),
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
    about: tuple, workers: int, words: str
) -> None:
    found = choose(*about)

    assert words in found.reason
    assert found.workers == workers


@pytest.mark.shows("E4")
@pytest.mark.parametrize("cores", [1, 2, 4, 64])
@pytest.mark.parametrize("schedule", ["sync", "pipelined", "async"])
def test_auto_never_has_more_than_one_process_more_than_cores(
    cores: int, schedule: str
) -> None:
    for play, learn in ((0.001, 1.0), (0.5, 0.5), (1.0, 0.1)):
        found = choose(play, learn, schedule, cores, agents=100, rounds_left=10**6)
        assert found.workers + 1 <= cores + 1


def test_no_worker_more_than_helps() -> None:
    assert choose(0.5, 0.5, "pipelined", 64, 100, 10**6).workers == 1


@pytest.mark.parametrize("schedule", ["sync", "pipelined"])
def test_more_cores_never_make_fewer_workers_pay(schedule: str) -> None:
    found = [choose(0.2, 0.8, schedule, c, 8, 10**6).workers for c in range(1, 9)]

    assert found == sorted(found)
    assert found[-1] > found[0] == 0


def tuner_of(**settings: object) -> Autoscaler:
    entry, config = configure("treasurehunt", settings=settings)
    return Autoscaler(config, build_agents(config, agents_of(entry, config)))


@pytest.mark.shows("E6")
def test_the_tuner_waits_for_rounds_that_were_learned() -> None:
    autoscaler = tuner_of()
    for _ in range(50):
        autoscaler.add(1.0, 0.0)
    assert not autoscaler.has_enough

    for _ in range(3):
        autoscaler.add(0.2, 0.6)

    assert autoscaler.has_enough


def test_the_tuner_decides_by_medians_and_by_the_rounds_that_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "cores", lambda: 2)
    autoscaler = tuner_of()
    for learned in (0.5, 0.6, 99.0):
        autoscaler.add(0.1, learned)

    assert autoscaler.decide(1000).workers == 2
    assert "learning 600 ms" in autoscaler.decide(1000).reason
    assert autoscaler.decide(4).workers == 0


@pytest.mark.shows("E6")
@pytest.mark.parametrize(("seconds", "is_slower"), [(0.5, False), (1.5, True)])
def test_processes_that_turn_out_slower_are_given_up(
    seconds: float, is_slower: bool
) -> None:
    autoscaler = tuner_of()
    autoscaler.add(0.4, 0.6)
    found = []
    for _ in range(10):
        autoscaler.add_in_company(seconds)
        found.append(autoscaler.is_slower)

    assert found == [False] * 9 + [is_slower]
    assert statistics.median(autoscaler._in_company) == seconds


def test_cores_are_those_that_a_container_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning.os, "sched_getaffinity", lambda pid: set(range(8)))

    for text, cores in (("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8)):
        monkeypatch.setattr(Path, "read_text", lambda path, text=text: text)
        assert tuning.cores() == cores


@pytest.mark.shows("E4")
@pytest.mark.parametrize(
    ("workers", "words"),
    [(2, ""), (3, "workers is 3, but there are 2 cores"), (9, "only 3 agents learn")],
)
def test_more_workers_than_cores_or_agents_are_warned_about(
    workers: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice, "cores", lambda: 2)
    entry, config = configure("treasurehunt", settings={"workers": workers})

    found = "\n".join(advise(config, build_agents(config, agents_of(entry, config))))

    assert words in found if words else found == ""
