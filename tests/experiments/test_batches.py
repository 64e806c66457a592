"""Batches of runs: what is finished is kept, and measures count what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.paths import EXPERIMENTS

Load = Callable[[str], ModuleType]


@pytest.fixture(autouse=True)
def beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts import each other from their own folder."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))


def run(folder: str, seed: int) -> dict[str, Any]:
    """Leave a file, which is an error if it is there already."""
    (Path(folder) / f"made-{seed}").touch(exist_ok=False)
    return {"score": seed * 10}


def test_what_is_finished_is_not_made_again(load: Load, tmp_path: Path) -> None:
    batch, name = load("batch"), str(tmp_path)
    path = tmp_path / "results" / "runs.jsonl"
    for seeds in (1, 2):
        jobs = [(name, seed) for seed in range(seeds)]
        found = batch.carry_out(jobs, ("folder", "seed"), run, path, 1)

    assert found == [
        {"folder": name, "seed": 0, "score": 0},
        {"folder": name, "seed": 1, "score": 10},
    ]


EPISODES = [
    {
        "turns": 50,
        "returns": {"0": 3.0, "1": 1.0},
        "counts": {"hares": {"0": 2, "1": 0}},
    },
    {
        "turns": 50,
        "returns": {"0": 0.0, "1": 2.0},
        "counts": {"hares": {"0": 2, "1": 2}},
    },
]


def test_measures_of_sweeps_count_agents_and_turns(load: Load) -> None:
    rewards = np.zeros((2, 8, 2))
    rewards[:, :6], rewards[0, 6:, 1] = 100.0, 1.0

    outcome = load("literature").Outcome(EPISODES, rewards)

    assert outcome.per_100_turns("hares") == pytest.approx(3.0)
    assert outcome.of_all() == pytest.approx(3.0)
    assert outcome.late() == pytest.approx(25.0)


def test_published_scores_are_in_the_unit_they_were_published_in(load: Load) -> None:
    published = load("published")

    assert published.score_of("foraging", {"0": 0.4, "1": 0.5}) == pytest.approx(0.9)
    assert published.score_of("spread", {"a": -9.0, "b": -12.0}) == pytest.approx(-10.5)
