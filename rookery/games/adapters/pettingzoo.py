"""PettingZoo games by path: `mpe2.simple_spread_v3`, `./mine.py:env`."""

from __future__ import annotations

import os
from typing import Any

from rookery.errors import ConfigError
from rookery.games.adapters.game import ForeignGame
from rookery.games.adapters.parallel import AdapterError, AecAdapter, ParallelGame
from rookery.games.adapters.settings import (
    pass_on_render_mode,
    settings_from_signature,
    signature_source,
    takes_render_mode,
)
from rookery.plugins import attribute, load_module

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "hide")

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import aec_to_parallel, aec_to_parallel_wrapper
from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper

CHECKS = (AssertOutOfBoundsWrapper, OrderEnforcingWrapper)
"""Wrappers that only check the caller, which the actor does not need. They took more than
a third of the time of simple_spread."""
FACTORIES = ("parallel_env", "env")
NEEDED = ("possible_agents", "observation_space", "action_space", "reset", "step")


class PettingZooGame(ForeignGame):
    """`worlds` copies of one PettingZoo game."""

    def make_copy(self, **keywords: Any) -> ParallelGame:
        return as_parallel(self.factory(**self.keywords, **keywords))


def open_game(path: str) -> type[PettingZooGame]:
    """Return the game named by `module`, `module:function` or `./file.py:function`."""
    source, colon, name = path.rpartition(":")
    factory: Any = None
    if source and name:
        module = load_module(source)
        factory = attribute(module, name, source)
    elif path and not colon:
        module = load_module(path)
        factories = [getattr(module, name, None) for name in FACTORIES]
        factory = next(filter(None, factories), None)
    if not callable(factory):
        raise ConfigError(
            f"'{path}' is not a PettingZoo game: name a module with a function "
            "'parallel_env' or 'env', or a function as module:function."
        )
    arguments = signature_source(factory, module)
    attributes = {
        "__doc__": f"The PettingZoo game {path}.",
        "Settings": settings_from_signature(arguments, path),
        "is_drawable": takes_render_mode(arguments),
        "drawing_advice": pass_on_render_mode(arguments),
        "path": path,
        "factory": staticmethod(factory),
    }
    return type("PettingZooGame", (PettingZooGame,), attributes)


def as_parallel(copy: Any) -> ParallelGame:
    """Return a game in the form of PettingZoo's parallel games, converted if needed."""
    if isinstance(copy, AECEnv):
        copy = without_checks(copy)
        if not copy.metadata.get("is_parallelizable", False):
            return AecAdapter(copy)
        copy = aec_to_parallel(copy)
    elif type(copy) is aec_to_parallel_wrapper:
        copy.aec_env = without_checks(copy.aec_env)
    missing = [name for name in NEEDED if not hasattr(copy, name)]
    if missing:
        raise AdapterError(
            f"made a {type(copy).__name__} without {', '.join(missing)}",
            "return a PettingZoo ParallelEnv or AECEnv",
        )
    return copy


def without_checks(copy: AECEnv[Any, Any, Any]) -> AECEnv[Any, Any, Any]:
    """Return a game without the outermost wrappers that only check the caller."""
    while type(copy) in CHECKS:
        copy = copy.env
    return copy
