"""Gymnasium games by path: `CartPole-v1`, `lbforaging/Foraging-8x8-2p-2f-coop-v3`.

A game whose action space is a tuple or a list has one agent per entry. Any other has one
agent, and `copies` puts several of them side by side.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field

from rookery.errors import ConfigError, nearest
from rookery.games.adapters.copies import Copies
from rookery.games.adapters.game import ForeignGame
from rookery.games.adapters.lists import Lists
from rookery.games.adapters.settings import RENDER_MODE, Keywords, keyword_settings, rebuilt
from rookery.games.adapters.world import Unfit
from rookery.plugins import describe_error, is_file, load_module

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "hide")

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec, load_env_creator

LIMIT = "max_episode_steps"
LEAKY = ("lbforaging",)
"""Packages whose games keep something of the last episode when they are reset."""


class GymnasiumKeywords(Keywords):
    """What can be chosen about any Gymnasium game."""

    copies: int = Field(
        default=1,
        ge=1,
        le=4096,
        description="How many copies of a game for one agent lie side by side, each with "
        "an agent of its own. They do not touch: an agent whose copy has ended waits until "
        "all have, and then all start anew.",
    )


class LimitedKeywords(GymnasiumKeywords):
    """Where the game itself has no limit of this name, Gymnasium's can be set."""

    max_episode_steps: int | None = Field(
        default=None,
        ge=1,
        description="After how many turns an episode is truncated; as Gymnasium has it "
        "registered unless set.",
    )


class GymnasiumGame(ForeignGame):
    """`worlds` times one Gymnasium game."""

    spec: ClassVar[EnvSpec]

    def make_copy(self, **more: Any) -> Any:
        first = self._make_one(**more)
        copies = getattr(self.settings, "copies", 1)
        if is_many(first.action_space):
            if copies > 1:
                raise Unfit(
                    "is a game of several agents", "copies are for games of one agent"
                )
            return Lists(first)
        return Copies([first, *(self._make_one(**more) for _ in range(copies - 1))])

    def _make_one(self, **more: Any) -> Any:
        spec, keywords = self.spec, dict(self.keywords)
        if isinstance(self.settings, LimitedKeywords) and self.settings.max_episode_steps:
            spec = replace(spec, max_episode_steps=self.settings.max_episode_steps)
        copy = gymnasium.make(replace(spec, kwargs={**spec.kwargs, **keywords, **more}))
        if not isinstance(copy, gymnasium.Env):
            raise Unfit(f"made a {type(copy).__name__}", "return a gymnasium.Env")
        return copy


def is_many(space: Any) -> bool:
    """Whether an action space is that of several agents."""
    return isinstance(space, spaces.Tuple | list | tuple)


def open_game(path: str) -> type[GymnasiumGame]:
    """Return the game named by an id, `module/id`, `module:id` or `./file.py:name`."""
    spec = find_spec(path)
    creator = creator_of(spec, path)
    base: type[Keywords] = GymnasiumKeywords if _takes(creator, LIMIT) else LimitedKeywords
    if creator.__module__.partition(".")[0] in LEAKY:
        base = rebuilt(base)
    # Our own checks say more, and each call through a wrapper costs time.
    spec = replace(spec, disable_env_checker=True, order_enforce=False)
    about = {
        "__doc__": f"The Gymnasium game {path}.",
        "Settings": keyword_settings(creator, path, base, spec.kwargs),
        "is_drawable": _is_drawable(creator),
        "path": path,
        "spec": spec,
    }
    return type("GymnasiumGame", (GymnasiumGame,), about)


def find_spec(path: str) -> EnvSpec:
    """Return what Gymnasium knows of a game; modules register theirs when imported."""
    source, colon, name = path.rpartition(":")
    if colon and source and name:
        made = getattr(load_module(source), name, None)
        if callable(made):
            return EnvSpec(name, made)
    elif path not in gymnasium.registry and "/" in path and not is_file_like(path):
        source, _, name = path.partition("/")
        load_module(source)
    for known in (path, name):
        if known in gymnasium.registry:
            return gymnasium.registry[known]
    raise ConfigError(
        f"'{path}' names no Gymnasium game: {nearest(name, gymnasium.registry)} Write an "
        "id, module/id, or ./file.py:name."
    )


def is_file_like(path: str) -> bool:
    """Whether a path is meant as a file, and lacks the name of what is in it."""
    return path.startswith(".") or (is_file(path) and path.endswith(".py"))


def creator_of(spec: EnvSpec, path: str) -> Any:
    """Return the class or function that makes a game."""
    try:
        point = spec.entry_point
        return load_env_creator(point) if isinstance(point, str) else point
    except Exception as error:
        raise ConfigError(
            f"'{path}' could not be imported: {describe_error(error).rstrip('.')}: install "
            "what the game needs."
        ) from error


def _takes(creator: Any, keyword: str) -> bool:
    return keyword in inspect.signature(creator).parameters


def _is_drawable(creator: Any) -> bool:
    """Whether it can be made so that it draws; a function says no more than its words."""
    if not hasattr(creator, "metadata"):
        return _takes(creator, RENDER_MODE)
    words = inspect.signature(creator).parameters.values()
    takes = any(word.name == RENDER_MODE or word.kind is word.VAR_KEYWORD for word in words)
    return takes and "rgb_array" in creator.metadata.get("render_modes", [])
