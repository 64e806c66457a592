"""Quantities that change while an agent learns: functions of its own counts."""

from __future__ import annotations

import math

from rookery.config.agent import AgentSettings, EpsilonConfig, RateConfig


def epsilon(settings: EpsilonConfig, steps: int) -> float:
    """Return the probability of a random action after so many of the agent's steps."""
    progress = min(1.0, steps / settings.steps)
    return settings.start + (settings.end - settings.start) * progress


def varies(settings: RateConfig) -> bool:
    """Whether a learning rate depends on the agent's updates."""
    return settings.warmup > 0 or settings.schedule != "constant"


def learning_rate(base: float, settings: RateConfig, updates: int) -> float:
    """Return the learning rate of an update, counted from 0."""
    if updates < settings.warmup:
        return base * (updates + 1) / settings.warmup
    if settings.schedule == "constant" or settings.updates is None:
        return base  # a run fills in its number of updates; without one there is no end
    progress = min(1.0, (updates - settings.warmup) / settings.updates)
    if settings.schedule == "cosine":
        progress = 0.5 - 0.5 * math.cos(math.pi * progress)
    return base * (1.0 + (settings.end - 1.0) * progress)


def updates_due(settings: AgentSettings, usable: int) -> int:
    """Return how many updates a round has, given the usable transitions in the replay."""
    enough = max(settings.replay.warmup, settings.batch_size)
    return settings.updates_per_round if usable >= enough else 0
