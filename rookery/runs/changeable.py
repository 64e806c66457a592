"""What can be changed when a run is resumed."""

from __future__ import annotations

from fnmatch import fnmatchcase

UNSEALED = (
    "workers",
    "actors",
    "restarts.limit",
    "restarts.silence",
    "checkpoints.every_rounds",
    "checkpoints.every_minutes",
    "checkpoints.keep",
    "checkpoints.replay",
    "checkpoints.weights_every_rounds",
    "probe.code",
)
"""Settings that decide neither what a run computes nor what it measures.

The seal leaves them out, so config.toml can be edited as well.
"""
RATE = ("rate.rounds", "rate.updates")
"""How far a falling learning rate is spread; set on resume, it changes what is computed."""
CHANGEABLE = (
    "rounds",
    "evaluate.*",
    "record.*",
    "probe.*",
    "checkpoints.*",
    "workers",
    "actors",
    "restarts.*",
    *RATE,
)
"""Patterns of the settings that can be changed on resume."""


def is_changeable(key: str) -> bool:
    """Whether a setting, by its dotted name, can be changed on resume."""
    if key.startswith("agents."):
        return key.endswith(tuple(f".{name}" for name in RATE))
    return any(fnmatchcase(key, pattern) for pattern in CHANGEABLE)
