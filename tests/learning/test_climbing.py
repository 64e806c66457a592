"""The climbing game: independent learners miss its optimum, optimistic ones find it."""

from pathlib import Path

import pytest

import rookery

pytestmark = [pytest.mark.learning, pytest.mark.timeout(300)]

TABLE = {
    "algorithm": "tabular",
    "rounds": 600,
    "turns_per_round": 2,
    "worlds": 10,
    "schedule": "sync",
    "updates_per_round": 1,
    "batch_size": 10,
    "replay": {"capacity": 20, "warmup": 1},
    "epsilon": {"end": 0.05, "steps": 4_000},
    "tabular": {"entries": 2},
}
NETWORK = {
    "algorithm": "dqn",
    "rounds": 400,
    "turns_per_round": 2,
    "worlds": 16,
    "schedule": "sync",
    "updates_per_round": 2,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "reward": {"scale": 0.1},
    "network": {"width": 16},
    "replay": {"capacity": 640, "warmup": 32},
    "epsilon": {"end": 0.05, "steps": 4_000},
}
LEARNERS = {
    "a table": (TABLE, {}, False),
    "a hysteretic table": (TABLE, {"tabular": {"entries": 2, "hysteresis": 0.1}}, True),
    "a lenient table": (
        TABLE,
        {"tabular": {"entries": 2, "leniency": 500.0, "cooling": 0.999}},
        True,
    ),
    "a network": (NETWORK, {}, False),
    "a hysteretic network": (NETWORK, {"dqn": {"hysteresis": 0.1}}, True),
}


@pytest.mark.parametrize(("base", "own", "finds"), LEARNERS.values(), ids=LEARNERS)
def test_only_optimistic_learners_find_the_optimum(base, own, finds, tmp_path: Path):
    run = rookery.train(
        "climbing", run=tmp_path / "run", workers=0, seed=0, **{**base, **own}
    )

    match = rookery.play("climbing", run.players(), episodes=8)
    assert bool((match.returns == 11).all()) == finds
