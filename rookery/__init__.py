"""Rookery trains groups of independent reinforcement-learning agents in one game.

The names below are the library. They are loaded when first used, so that importing
`rookery` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rookery.dilemmas import Schelling, schelling
    from rookery.encounters import Crossplay
    from rookery.errors import (
        AlgorithmError,
        ConfigError,
        GameError,
        PlayerError,
        ProbeError,
        RookeryError,
    )
    from rookery.library import resume, train
    from rookery.meetings import crossplay
    from rookery.playing import Match, play
    from rookery.proof import independence
    from rookery.recordings import Recording
    from rookery.runs import Run
    from rookery.trained import TrainedAgent
    from rookery.verdicts import Independence

__all__ = [
    "AlgorithmError",
    "ConfigError",
    "Crossplay",
    "GameError",
    "Independence",
    "Match",
    "PlayerError",
    "ProbeError",
    "Recording",
    "RookeryError",
    "Run",
    "Schelling",
    "TrainedAgent",
    "crossplay",
    "independence",
    "play",
    "resume",
    "schelling",
    "train",
]

_HOMES = {
    "AlgorithmError": "errors",
    "ConfigError": "errors",
    "Crossplay": "encounters",
    "GameError": "errors",
    "Independence": "verdicts",
    "Match": "playing",
    "PlayerError": "errors",
    "ProbeError": "errors",
    "Recording": "recordings",
    "RookeryError": "errors",
    "Run": "runs",
    "Schelling": "dilemmas",
    "TrainedAgent": "trained",
    "crossplay": "meetings",
    "independence": "proof",
    "play": "playing",
    "resume": "library",
    "schelling": "dilemmas",
    "train": "library",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rookery' has no attribute '{name}'")
    return getattr(import_module(f"rookery.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
