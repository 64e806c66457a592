"""Numbers that change while an agent learns: pure functions of its own counts."""

from __future__ import annotations

import math

from rookery.config.agent import EpsilonConfig, RateConfig


def epsilon(settings: EpsilonConfig, steps: int) -> float:
    """Return the chance of a random action after so many steps of the agent's own."""
    done = min(1.0, steps / settings.steps)
    return settings.start + (settings.end - settings.start) * done


def learning_rate(base: float, settings: RateConfig, updates: int) -> float:
    """Return the learning rate of an update, counted from 0."""
    if updates < settings.warmup:
        return base * (updates + 1) / settings.warmup
    if settings.schedule == "constant" or settings.updates is None:
        return base  # a run fills in how many updates it has; elsewhere there is no end
    done = min(1.0, (updates - settings.warmup) / settings.updates)
    if settings.schedule == "cosine":
        done = 0.5 - 0.5 * math.cos(math.pi * done)
    return base * (1.0 + (settings.end - 1.0) * done)
