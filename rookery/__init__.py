"""Rookery trains groups of independent reinforcement-learning agents in one game.

The public names are loaded when they are first used, so that `import rookery` is fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; at runtime, from the table below
    from rookery.api.agents import export as export
    from rookery.api.agents import load_agent as load_agent
    from rookery.api.digest import Digest as Digest
    from rookery.api.digest import digest as digest
    from rookery.api.environments import to_gymnasium as to_gymnasium
    from rookery.api.environments import to_gymnasium_vector as to_gymnasium_vector
    from rookery.api.environments import to_pettingzoo as to_pettingzoo
    from rookery.api.evaluate import Evaluation as Evaluation
    from rookery.api.evaluate import evaluate as evaluate
    from rookery.api.games import Check as Check
    from rookery.api.games import Description as Description
    from rookery.api.games import check as check
    from rookery.api.games import describe as describe
    from rookery.api.games import list_games as list_games
    from rookery.api.health import Status as Status
    from rookery.api.health import health as health
    from rookery.api.nodes import Nodes as Nodes
    from rookery.api.nodes import nodes as nodes
    from rookery.api.replay import record as record
    from rookery.api.replay import replay as replay
    from rookery.api.results import Estimate as Estimate
    from rookery.api.results import Runs as Runs
    from rookery.api.results import interval as interval
    from rookery.api.results import plot as plot
    from rookery.api.results import table as table
    from rookery.api.runs import diff as diff
    from rookery.api.runs import list_runs as list_runs
    from rookery.api.settings import settings as settings
    from rookery.api.sweep import sweep as sweep
    from rookery.api.sweep_results import Sweep as Sweep
    from rookery.api.train import resume as resume
    from rookery.api.train import train as train
    from rookery.bench.measure import Report as Report
    from rookery.bench.measure import run_bench as run_bench
    from rookery.errors import AlgorithmError as AlgorithmError
    from rookery.errors import ConfigError as ConfigError
    from rookery.errors import GameError as GameError
    from rookery.errors import ObservationError as ObservationError
    from rookery.errors import PlayerError as PlayerError
    from rookery.errors import ProbeError as ProbeError
    from rookery.errors import RookeryError as RookeryError
    from rookery.errors import RookeryWarning as RookeryWarning
    from rookery.evaluation.play import Match as Match
    from rookery.evaluation.play import play as play
    from rookery.evaluation.recordings import Recording as Recording
    from rookery.evaluation.trained import TrainedAgent as TrainedAgent
    from rookery.reproduction.reproduce import Reproduction as Reproduction
    from rookery.reproduction.reproduce import reproduce as reproduce
    from rookery.runs.run import Run as Run
    from rookery.studies.crossplay import Crossplay as Crossplay
    from rookery.studies.crossplay import crossplay as crossplay
    from rookery.studies.independence.proof import independence as independence
    from rookery.studies.independence.report import Independence as Independence
    from rookery.studies.schelling import Schelling as Schelling
    from rookery.studies.schelling import schelling as schelling
    from rookery.training.training import Round as Round

_NAMES = {
    "bench.measure": ("Report", "run_bench"),
    "api.digest": ("Digest", "digest"),
    "api.games": ("Check", "Description", "check", "describe", "list_games"),
    "api.health": ("Status", "health"),
    "api.nodes": ("Nodes", "nodes"),
    "api.results": ("Estimate", "Runs", "interval", "plot", "table"),
    "api.evaluate": ("Evaluation", "evaluate"),
    "api.replay": ("record", "replay"),
    "api.agents": ("export", "load_agent"),
    "api.runs": ("diff", "list_runs"),
    "api.settings": ("settings",),
    "api.environments": ("to_gymnasium", "to_gymnasium_vector", "to_pettingzoo"),
    "api.sweep": ("sweep",),
    "api.sweep_results": ("Sweep",),
    "api.train": ("resume", "train"),
    "errors": (
        "AlgorithmError",
        "ConfigError",
        "GameError",
        "ObservationError",
        "PlayerError",
        "ProbeError",
        "RookeryError",
        "RookeryWarning",
    ),
    "evaluation.play": ("Match", "play"),
    "evaluation.recordings": ("Recording",),
    "evaluation.trained": ("TrainedAgent",),
    "reproduction.reproduce": ("Reproduction", "reproduce"),
    "runs.run": ("Run",),
    "studies.crossplay": ("Crossplay", "crossplay"),
    "studies.independence.proof": ("independence",),
    "studies.independence.report": ("Independence",),
    "studies.schelling": ("Schelling", "schelling"),
    "training.training": ("Round",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rookery' has no attribute '{name}'")
    return getattr(import_module(f"rookery.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


class _Package(ModuleType):
    """The package itself; a public name wins over a module of the same name.

    Without it, importing `rookery.replay.rows` would turn `rookery.replay`, the function,
    into a module.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
