"""PettingZoo games by path: `mpe2.simple_spread_v3`, `./mine.py:env`."""

from __future__ import annotations

import os
from typing import Any

from rookery.errors import ConfigError
from rookery.games.adapters.game import ForeignGame
from rookery.games.adapters.in_turn import InTurn
from rookery.games.adapters.settings import (
    keyword_settings,
    signature_source,
    takes_render_mode,
)
from rookery.games.adapters.world import Unfit
from rookery.plugins import attribute, load_module

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "hide")

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import aec_to_parallel, aec_to_parallel_wrapper
from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper

CHECKS = (AssertOutOfBoundsWrapper, OrderEnforcingWrapper)
"""Wrappers that only look whether the caller keeps the rules, which the actor does. They
took more than a third of a turn of simple_spread."""
FACTORIES = ("parallel_env", "env")
NEEDED = ("possible_agents", "observation_space", "action_space", "reset", "step")


class PettingZooGame(ForeignGame):
    """`worlds` copies of one PettingZoo game."""

    def make_copy(self, **more: Any) -> Any:
        return as_parallel(self.factory(**self.keywords, **more))


def open_game(path: str) -> type[PettingZooGame]:
    """Return the game named by `module`, `module:function` or `./file.py:function`."""
    source, colon, name = path.rpartition(":")
    factory: Any = None
    if source and name:
        module = load_module(source)
        factory = attribute(module, name, source)
    elif path and not colon:
        module = load_module(path)
        found = [getattr(module, known, None) for known in FACTORIES]
        factory = next(filter(None, found), None)
    if not callable(factory):
        raise ConfigError(
            f"'{path}' names no PettingZoo game: it must be a module with a function "
            "'parallel_env' or 'env', or end in ':' and the name of such a function."
        )
    arguments = signature_source(factory, module)
    about = {
        "__doc__": f"The PettingZoo game {path}.",
        "Settings": keyword_settings(arguments, path),
        "is_drawable": takes_render_mode(arguments),
        "path": path,
        "factory": staticmethod(factory),
    }
    return type("PettingZooGame", (PettingZooGame,), about)


def as_parallel(copy: Any) -> Any:
    """Return a game in which all agents speak at once, converted if need be."""
    if isinstance(copy, AECEnv):
        copy = without_checks(copy)
        if not copy.metadata.get("is_parallelizable", False):
            return InTurn(copy)
        copy = aec_to_parallel(copy)
    elif type(copy) is aec_to_parallel_wrapper:
        copy.aec_env = without_checks(copy.aec_env)
    lacking = [name for name in NEEDED if not hasattr(copy, name)]
    if lacking:
        raise Unfit(
            f"made a {type(copy).__name__} without {', '.join(lacking)}",
            "the function must return a PettingZoo ParallelEnv or AECEnv",
        )
    return copy


def without_checks(copy: AECEnv[Any, Any, Any]) -> AECEnv[Any, Any, Any]:
    """Return a game without the outermost wrappers that change nothing."""
    while type(copy) in CHECKS:
        copy = copy.env
    return copy
