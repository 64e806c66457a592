"""Every algorithm learns to balance four CartPoles at once, within seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rookery

GAME = "gymnasium:CartPole-v1"
COPIES = 4
ENOUGH = 75.0
"""Out of 500; random actions get about 20, and always the same action about 9."""

pytestmark = [pytest.mark.learning, pytest.mark.timeout(300)]

QUICK: dict[str, Any] = {
    "turns_per_round": 32,
    "worlds": 8,
    "frames": 1,
    "network.width": 64,
    "learning_rate": 2e-3,
    "game.copies": COPIES,
    "workers": 0,
}
VALUES: dict[str, Any] = {
    "rounds": 60,
    "updates_per_round": 40,
    "epsilon.steps": 3_000,
    "epsilon.end": 0.05,
    "target.rate": 0.02,
    "replay.warmup": 200,
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "iqn": {**VALUES, "rounds": 50},
    "dqn": VALUES,
    "ppo": {"rounds": 120},
    "vtrace": {
        "rounds": 150,
        "learning_rate": 1e-3,
        "reward.scale": 0.1,
        "vtrace.passes": 2,
    },
    "recurrent_dqn": {
        **VALUES,
        "updates_per_round": 32,
        "batch_size": 16,
        "reward.scale": 0.1,
    },
    "recurrent_ppo": {"rounds": 80, "reward.scale": 0.1},
}


@pytest.mark.shows("A2")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_of_four_agents_balances_its_pole(algorithm: str, tmp_path: Path) -> None:
    settings = {**QUICK, **ALGORITHMS[algorithm], "algorithm": algorithm}
    run = rookery.train(GAME, run=tmp_path / "run", **settings)

    match = rookery.play(GAME, run.players(), episodes=20, game={"copies": COPIES})

    assert (match.returns.mean(axis=0) >= ENOUGH).all()
