"""Drawn groups of three agents: settings of every kind, from a seeded generator.

What agents of one group must share is drawn once; what may differ is drawn for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.algorithms.base import Agent
from rookery.config.agent import AgentSettings
from rookery.specs import AgentSpec, Part

AGENTS = 3
PARTS = {
    "view": Part((2, 2, 3), np.dtype(np.uint8), scale=1 / 255),
    "self": Part((3,), np.dtype(np.float32)),
}


class Chance:
    """A generator that picks settings."""

    def __init__(self, *seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def of(self, *options: Any) -> Any:
        """Return one of some options."""
        return options[int(self.generator.integers(len(options)))]

    def between(self, low: float, high: float) -> float:
        return float(self.generator.uniform(low, high))

    def whole(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return int(self.generator.integers(low, high + 1))


def draw_group(chance: Chance, **chosen: Any) -> list[Agent]:
    """Return three agents that learn as one group, with some settings chosen for all."""
    actions, masked = chance.of(2, 3, 5), chance.of(False, True)
    names = tuple(f"do {i}" for i in range(actions))
    shared = shared_settings(chance)
    return [
        Agent(
            number,
            AgentSpec(str(number), "tester", PARTS, names, masked),
            AgentSettings.model_validate(
                merge(merge(shared, own_settings(chance)), chosen)
            ),
        )
        for number in range(AGENTS)
    ]


def shared_settings(chance: Chance) -> dict[str, Any]:
    return {
        "frames": chance.whole(1, 3),
        "n_step": chance.whole(1, 4),
        "batch_size": chance.whole(3, 6),
        "network": {
            "width": chance.of(7, 16),
            "depth": chance.whole(1, 2),
            "channels": chance.of(0, 0, 16),
            "quantiles": chance.whole(1, 4),
        },
        "gradient": {"accumulate": chance.of(1, 1, 2)},
        "replay": {"kind": chance.of("uniform", "prioritised")},
    }


def own_settings(chance: Chance) -> dict[str, Any]:
    return {
        "learning_rate": chance.of(1e-3, 3e-3, 1e-2),
        "discount": chance.of(0.5, 0.9, 1.0),
        "discount_per": chance.of("turn", "step"),
        "updates_per_round": chance.whole(1, 2),
        "reward": {
            "scale": chance.of(1.0, 0.5, 3.0),
            "clip": chance.of(None, 1.0),
            "standardise": chance.of(False, True),
        },
        "rate": {
            "schedule": chance.of("constant", "linear", "cosine"),
            "end": chance.of(0.0, 0.5),
            "updates": chance.whole(2, 6),
            "warmup": chance.of(0, 0, 2),
        },
        "target": {"every": chance.whole(1, 2), "rate": chance.of(0.05, 0.3, 1.0)},
        "gradient": {"clip": chance.of(0.05, 1.0, 100.0)},
        "replay": {
            "capacity": chance.of(40, 60, 200),
            "warmup": chance.of(1, 25),
            "exponent": chance.of(0.0, 0.6, 1.0),
            "correction": chance.of(0.0, 0.4, 1.0),
        },
    }


def value_parts(chance: Chance) -> dict[str, Any]:
    """Return the parts of a learner of values."""
    return {
        "double": chance.of(True, False),
        "dueling": chance.of(True, False),
        "noisy": chance.of(False, False, True),
        "threshold": chance.of(0.3, 1.0, 5.0),
        "gap": chance.of(0.0, 0.6),
        "retrace": chance.of(None, None, 0.5, 0.9, 1.0),
    }


def actor_critic_parts(chance: Chance) -> dict[str, Any]:
    """Return what learners of a policy share."""
    return {
        "entropy": chance.of(0.0, 0.01, 0.3),
        "value": chance.of(0.5, 2.0),
        "passes": chance.whole(1, 2),
        "minibatches": chance.of(1, 2, 5),
    }


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for name, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(name), dict)
        found[name] = merge(base[name], value) if both else value
    return found
