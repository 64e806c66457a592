"""Rookery trains groups of independent reinforcement-learning agents in one game.

The public names are loaded when they are first used, so that `import rookery` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; at runtime, from the table below
    from rookery.api.environments import to_gymnasium as to_gymnasium
    from rookery.api.environments import to_gymnasium_vector as to_gymnasium_vector
    from rookery.api.environments import to_pettingzoo as to_pettingzoo
    from rookery.api.train import resume as resume
    from rookery.api.train import train as train
    from rookery.errors import AlgorithmError as AlgorithmError
    from rookery.errors import ConfigError as ConfigError
    from rookery.errors import GameError as GameError
    from rookery.errors import PlayerError as PlayerError
    from rookery.errors import ProbeError as ProbeError
    from rookery.errors import RookeryError as RookeryError
    from rookery.evaluation.play import Match as Match
    from rookery.evaluation.play import play as play
    from rookery.evaluation.recordings import Recording as Recording
    from rookery.evaluation.trained import TrainedAgent as TrainedAgent
    from rookery.runs.run import Run as Run
    from rookery.studies.crossplay import Crossplay as Crossplay
    from rookery.studies.crossplay import crossplay as crossplay
    from rookery.studies.independence.proof import independence as independence
    from rookery.studies.independence.report import Independence as Independence
    from rookery.studies.schelling import Schelling as Schelling
    from rookery.studies.schelling import schelling as schelling

_NAMES = {
    "api.environments": ("to_gymnasium", "to_gymnasium_vector", "to_pettingzoo"),
    "api.train": ("resume", "train"),
    "errors": (
        "AlgorithmError",
        "ConfigError",
        "GameError",
        "PlayerError",
        "ProbeError",
        "RookeryError",
    ),
    "evaluation.play": ("Match", "play"),
    "evaluation.recordings": ("Recording",),
    "evaluation.trained": ("TrainedAgent",),
    "runs.run": ("Run",),
    "studies.crossplay": ("Crossplay", "crossplay"),
    "studies.independence.proof": ("independence",),
    "studies.independence.report": ("Independence",),
    "studies.schelling": ("Schelling", "schelling"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rookery' has no attribute '{name}'")
    return getattr(import_module(f"rookery.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
