"""The settings of the long results: foraging, spreading out, and CartPole.

The pages docs/published.md and docs/algorithms.md say how they were found.
"""

from __future__ import annotations

from typing import Any

FORAGING_GAME = "gymnasium:lbforaging/Foraging-8x8-2p-2f-coop-v3"
SPREAD_GAME = "pettingzoo:mpe2.simple_spread_v3"
CARTPOLE_GAME = "gymnasium:CartPole-v1"

COMMON: dict[str, Any] = {
    "game.reward": "sum",
    "workers": 0,
    "worlds": 16,
    "turns_per_round": 50,
    "frames": 1,
    "checkpoints.weights_every_rounds": 0,
    "checkpoints.replay": False,
}
"""Agents share the reward, which is the sum of all, as in the published runs."""
FORAGING: dict[str, Any] = {
    "rounds": 1_500,
    "batch_size": 512,
    "updates_per_round": 50,
    "learning_rate": 3e-4,
    "rate.schedule": "linear",
    "rate.end": 0.05,
    "discount": 0.9,
    "n_step": 2,
    "target.rate": 0.03,
    "reward.scale": 10,
    "replay.kind": "prioritised",
    "replay.capacity": 250_000,
    "replay.exponent": 0.9,
    "replay.correction": 0,
    "epsilon.start": 0.1,
    "epsilon.end": 0.01,
    "epsilon.steps": 1_000_000,
    "epsilon.temperature": 0.1,
    "network.width": 128,
}
SPREAD: dict[str, Any] = {
    "rounds": 2_500,
    "batch_size": 256,
    "updates_per_round": 25,
    "learning_rate": 1e-3,
    "rate.schedule": "linear",
    "rate.end": 0.05,
    "discount": 0.8,
    "n_step": 1,
    "target.rate": 0.02,
    "reward.scale": 0.3,
    "replay.capacity": 100_000,
    "epsilon.end": 0.02,
    "epsilon.steps": 100_000,
    "network.width": 128,
}
CARTPOLES: dict[str, Any] = {
    "worlds": 8,
    "turns_per_round": 32,
    "frames": 1,
    "network.width": 64,
    "learning_rate": 2e-3,
    "game.copies": 4,
    "workers": 0,
}
VALUE_BASED: dict[str, Any] = {
    "rounds": 250,
    "updates_per_round": 100,
    "network.width": 128,
    "rate.schedule": "linear",
    "rate.end": 0.02,
    "reward.scale": 0.1,
    "epsilon.steps": 8_000,
    "epsilon.end": 0.04,
    "target.rate": 0.03,
    "replay.warmup": 200,
}
ACTOR_CRITICS: dict[str, Any] = {"rounds": 300, "reward.scale": 0.1}
