"""Batches of runs do not repeat finished ones; measures of sweeps are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

Load = Callable[[str], ModuleType]


def run(folder: str, seed: int) -> dict[str, Any]:
    """Create a file; fail if it exists."""
    (Path(folder) / f"made-{seed}").touch(exist_ok=False)
    return {"score": seed * 10}


def test_finished_runs_are_not_repeated(load: Load, tmp_path: Path) -> None:
    batch, name = load("batch"), str(tmp_path)
    path = tmp_path / "results" / "runs.jsonl"
    for seeds in (1, 2):
        jobs = [(name, seed) for seed in range(seeds)]
        results = batch.run_all(jobs, ("folder", "seed"), run, path, 1)

    assert results == [
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
    assert outcome.total_return() == pytest.approx(3.0)
    assert outcome.late_reward() == pytest.approx(25.0)


def test_scores_are_in_the_unit_of_the_published_ones(load: Load) -> None:
    published = load("published")

    assert published.score_of("foraging", {"0": 0.4, "1": 0.5}) == pytest.approx(0.9)
    assert published.score_of("spread", {"a": -9.0, "b": -12.0}) == pytest.approx(-10.5)
