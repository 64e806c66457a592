"""Learning rates and exploration, by hand."""

from __future__ import annotations

import pytest

from rookery.algorithms.common.schedules import epsilon, learning_rate
from rookery.config.agent import EpsilonConfig, RateConfig


@pytest.mark.shows("D5")
@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({}, {0: 1.0, 5: 1.0, 10**9: 1.0}),
        ({"warmup": 4}, {0: 0.25, 1: 0.5, 3: 1.0, 4: 1.0, 100: 1.0}),
        (
            {"schedule": "linear", "end": 0.2, "updates": 10},
            {0: 1.0, 1: 0.92, 5: 0.6, 10: 0.2, 11: 0.2, 10**9: 0.2},
        ),
        (
            {"schedule": "cosine", "end": 0.0, "updates": 8},
            {0: 1.0, 2: 0.8535533906, 4: 0.5, 6: 0.1464466094, 8: 0.0, 9: 0.0},
        ),
        (
            {"schedule": "linear", "end": 0.0, "updates": 10, "warmup": 2},
            {0: 0.5, 1: 1.0, 2: 1.0, 7: 0.5, 12: 0.0},
        ),
    ],
    ids=["constant", "warm-up", "linear", "cosine", "linear after warm-up"],
)
def test_learning_rates_by_hand(settings, rates):
    result = {
        update: learning_rate(2e-3, RateConfig(**settings), update) for update in rates
    }

    assert result == pytest.approx({update: 2e-3 * rate for update, rate in rates.items()})


@pytest.mark.shows("D5")
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_a_learning_rate_never_rises_again_after_its_warmup(schedule):
    settings = RateConfig(schedule=schedule, end=0.1, updates=20, warmup=5)

    rates = [learning_rate(1.0, settings, update) for update in range(40)]

    assert rates[:5] == sorted(rates[:5])
    assert rates[5:] == sorted(rates[5:], reverse=True)


@pytest.mark.parametrize(
    ("steps", "expected"), [(0, 1.0), (25, 0.8), (50, 0.6), (100, 0.2), (10**9, 0.2)]
)
def test_exploration_falls_linearly_and_stays(steps, expected):
    settings = EpsilonConfig(start=1.0, end=0.2, steps=100)

    assert epsilon(settings, steps) == pytest.approx(expected)


def test_exploration_can_rise():
    settings = EpsilonConfig(start=0.0, end=1.0, steps=4)

    assert [epsilon(settings, steps) for steps in (0, 1, 4)] == [0.0, 0.25, 1.0]
