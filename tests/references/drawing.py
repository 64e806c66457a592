"""Random groups of three agents, with settings of every kind.

Settings that agents of a group must share are drawn once; the others for each agent.
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


class Sampler:
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


def draw_group(sampler: Sampler, **settings: Any) -> list[Agent]:
    """Return three agents that learn as one group, with some settings given for all."""
    actions, masked = sampler.of(2, 3, 5), sampler.of(False, True)
    names = tuple(f"do {i}" for i in range(actions))
    shared = shared_settings(sampler)
    return [
        Agent(
            number,
            AgentSpec(str(number), "tester", PARTS, names, masked),
            AgentSettings.model_validate(
                merge(merge(shared, own_settings(sampler)), settings)
            ),
        )
        for number in range(AGENTS)
    ]


def shared_settings(sampler: Sampler) -> dict[str, Any]:
    return {
        "frames": sampler.whole(1, 3),
        "n_step": sampler.whole(1, 4),
        "batch_size": sampler.whole(3, 6),
        "network": {
            "width": sampler.of(7, 16),
            "depth": sampler.whole(1, 2),
            "channels": sampler.of(0, 0, 16),
            "quantiles": sampler.whole(1, 4),
        },
        "gradient": {"accumulate": sampler.of(1, 1, 2)},
        "replay": {"kind": sampler.of("uniform", "prioritised")},
    }


def own_settings(sampler: Sampler) -> dict[str, Any]:
    return {
        "learning_rate": sampler.of(1e-3, 3e-3, 1e-2),
        "discount": sampler.of(0.5, 0.9, 1.0),
        "discount_per": sampler.of("turn", "step"),
        "updates_per_round": sampler.whole(1, 2),
        "reward": {
            "scale": sampler.of(1.0, 0.5, 3.0),
            "clip": sampler.of(None, 1.0),
            "standardise": sampler.of(False, True),
        },
        "rate": {
            "schedule": sampler.of("constant", "linear", "cosine"),
            "end": sampler.of(0.0, 0.5),
            "updates": sampler.whole(2, 6),
            "warmup": sampler.of(0, 0, 2),
        },
        "target": {"every": sampler.whole(1, 2), "rate": sampler.of(0.05, 0.3, 1.0)},
        "gradient": {"clip": sampler.of(0.05, 1.0, 100.0)},
        "replay": {
            "capacity": sampler.of(40, 60, 200),
            "warmup": sampler.of(1, 25),
            "exponent": sampler.of(0.0, 0.6, 1.0),
            "correction": sampler.of(0.0, 0.4, 1.0),
        },
    }


def value_parts(sampler: Sampler) -> dict[str, Any]:
    """Return the options of value-based algorithms."""
    return {
        "double": sampler.of(True, False),
        "dueling": sampler.of(True, False),
        "noisy": sampler.of(False, False, True),
        "threshold": sampler.of(0.3, 1.0, 5.0),
        "gap": sampler.of(0.0, 0.6),
        "retrace": sampler.of(None, None, 0.5, 0.9, 1.0),
    }


def dqn_parts(sampler: Sampler) -> dict[str, Any]:
    """Return the options of DQN."""
    return {**value_parts(sampler), "hysteresis": sampler.of(1.0, 1.0, 0.2)}


def actor_critic_parts(sampler: Sampler) -> dict[str, Any]:
    """Return the settings that actor-critic algorithms share."""
    return {
        "entropy": sampler.of(0.0, 0.01, 0.3),
        "value": sampler.of(0.5, 2.0),
        "passes": sampler.whole(1, 2),
        "minibatches": sampler.of(1, 2, 5),
    }


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        is_group = isinstance(value, dict) and isinstance(base.get(name), dict)
        merged[name] = merge(base[name], value) if is_group else value
    return merged
