"""Warnings about the number of workers."""

from __future__ import annotations

import pytest

from rookery.algorithms.agents import build_agents
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure
from rookery.training import warnings
from rookery.training.warnings import advise


@pytest.mark.shows("E4")
@pytest.mark.parametrize(
    ("workers", "warning"),
    [(2, ""), (3, "workers is 3, but there are 2 cores"), (9, "only 3 agents learn")],
)
def test_more_workers_than_cores_or_agents_are_warned_about(
    workers: int, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings, "cores", lambda: 2)
    entry, config = configure("treasurehunt", settings={"workers": workers})

    lines = "\n".join(advise(config, build_agents(config, agents_of(entry, config))))

    assert warning in lines if warning else lines == ""


@pytest.mark.shows("E4")
@pytest.mark.parametrize(
    ("actors", "workers", "warning"),
    [
        (2, 1, ""),
        (3, 1, "actors is 3, but there are 2 cores"),
        (2, 0, "actors is 2, but workers is 0: one process plays the shares of all actors"),
    ],
)
def test_actors_that_cannot_be_faster_are_warned_about(
    actors: int, workers: int, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings, "cores", lambda: 2)
    settings = {"actors": actors, "workers": workers}
    entry, config = configure("treasurehunt", settings=settings)

    lines = "\n".join(advise(config, build_agents(config, agents_of(entry, config))))

    assert warning in lines if warning else lines == ""
