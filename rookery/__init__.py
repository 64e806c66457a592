"""Rookery trains groups of independent reinforcement-learning agents in one game.

The names below are the library. They are loaded when first used, so that importing
`rookery` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rookery.api import resume, train
    from rookery.errors import (
        AlgorithmError,
        ConfigError,
        GameError,
        PlayerError,
        ProbeError,
        RookeryError,
    )
    from rookery.evaluation.play import MatchResult, play
    from rookery.evaluation.recordings import Recording
    from rookery.evaluation.trained import TrainedAgent
    from rookery.runs.run import Run
    from rookery.studies.crossplay import crossplay
    from rookery.studies.crossplay_report import Crossplay
    from rookery.studies.independence.proof import independence
    from rookery.studies.independence.report import Independence
    from rookery.studies.schelling import Schelling, schelling

__all__ = [
    "AlgorithmError",
    "ConfigError",
    "Crossplay",
    "GameError",
    "Independence",
    "MatchResult",
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
    "Crossplay": "studies.crossplay_report",
    "GameError": "errors",
    "Independence": "studies.independence.report",
    "MatchResult": "evaluation.play",
    "PlayerError": "errors",
    "ProbeError": "errors",
    "Recording": "evaluation.recordings",
    "RookeryError": "errors",
    "Run": "runs.run",
    "Schelling": "studies.schelling",
    "TrainedAgent": "evaluation.trained",
    "crossplay": "studies.crossplay",
    "independence": "studies.independence.proof",
    "play": "evaluation.play",
    "resume": "api",
    "schelling": "studies.schelling",
    "train": "api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rookery' has no attribute '{name}'")
    return getattr(import_module(f"rookery.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
