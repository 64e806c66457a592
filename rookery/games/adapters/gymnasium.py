"""Gymnasium games by path: `CartPole-v1`, `lbforaging/Foraging-8x8-2p-2f-coop-v3`.

A game whose action space is a tuple or list has one agent per entry. Any other has one
agent, and the setting `copies` plays several of them side by side.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field

from rookery.errors import ConfigError, nearest
from rookery.games.adapters.game import ForeignGame
from rookery.games.adapters.parallel import (
    AdapterError,
    CopiesAdapter,
    ParallelGame,
    TupleAdapter,
)
from rookery.games.adapters.settings import (
    RENDER_MODE,
    ForeignSettings,
    pass_on_render_mode,
    settings_from_signature,
    takes_render_mode,
    with_rebuilding,
)
from rookery.plugins import describe_error, is_file, load_module

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "hide")

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec, load_env_creator

TIME_LIMIT = "max_episode_steps"
NEED_REBUILDING = ("lbforaging",)
"""Packages whose games keep something of the last episode when they are reset."""


class GymnasiumSettings(ForeignSettings):
    """The settings of every Gymnasium game."""

    copies: int = Field(
        default=1,
        ge=1,
        le=4096,
        description="Number of independent copies of a single-agent game, each with its "
        "own agent. An agent whose copy has ended waits until all have ended; then all "
        "restart.",
    )


class TimeLimitSettings(GymnasiumSettings):
    """For games without their own argument of this name: Gymnasium's time limit."""

    max_episode_steps: int | None = Field(
        default=None,
        ge=1,
        description="Turns until an episode is truncated; the registered limit by default.",
    )


class GymnasiumGame(ForeignGame):
    """`worlds` copies of one Gymnasium game."""

    spec: ClassVar[EnvSpec]

    def make_copy(self, **keywords: Any) -> ParallelGame:
        first = self._make(**keywords)
        copies = getattr(self.settings, "copies", 1)
        if not isinstance(first.action_space, spaces.Tuple | list | tuple):
            others = [self._make(**keywords) for _ in range(copies - 1)]
            return CopiesAdapter([first, *others])
        if copies > 1:
            raise AdapterError("has several agents", "leave copies at 1")
        return TupleAdapter(first)

    def _make(self, **keywords: Any) -> Any:
        spec, settings = self.spec, self.settings
        if isinstance(settings, TimeLimitSettings) and settings.max_episode_steps:
            spec = replace(spec, max_episode_steps=settings.max_episode_steps)
        keywords = {**spec.kwargs, **self.keywords, **keywords}
        copy = gymnasium.make(replace(spec, kwargs=keywords))
        if not isinstance(copy, gymnasium.Env):
            raise AdapterError(f"made a {type(copy).__name__}", "return a gymnasium.Env")
        return copy


def open_game(path: str) -> type[GymnasiumGame]:
    """Return the game named by an id, `module/id`, `module:id` or `./file.py:name`."""
    spec = find_spec(path)
    creator = creator_of(spec, path)
    base: type[ForeignSettings] = TimeLimitSettings
    if _takes(creator, TIME_LIMIT):
        base = GymnasiumSettings
    if creator.__module__.partition(".")[0] in NEED_REBUILDING:
        base = with_rebuilding(base)
    # Rookery's own checks report more, and each call through a wrapper costs time.
    spec = replace(spec, disable_env_checker=True, order_enforce=False)
    attributes = {
        "__doc__": f"The Gymnasium game {path}.",
        "Settings": settings_from_signature(creator, path, base, spec.kwargs),
        "is_drawable": _is_drawable(creator),
        "drawing_advice": _drawing_advice(creator),
        "path": path,
        "spec": spec,
    }
    return type("GymnasiumGame", (GymnasiumGame,), attributes)


def find_spec(path: str) -> EnvSpec:
    """Return the registered spec of a game, importing the module that registers it."""
    source, colon, name = path.rpartition(":")
    if colon and source and name:
        creator = getattr(load_module(source), name, None)
        if callable(creator):
            return EnvSpec(name, creator)
    elif path not in gymnasium.registry and "/" in path and not is_file_like(path):
        source, _, name = path.partition("/")
        load_module(source)
    for key in (path, name):
        if key in gymnasium.registry:
            return gymnasium.registry[key]
    raise ConfigError(
        f"'{path}' is not a Gymnasium game: {nearest(name, gymnasium.registry)} Write an "
        "id, module/id, or ./file.py:name."
    )


def is_file_like(path: str) -> bool:
    """Whether a path is that of a file, without the name of a game in it."""
    return path.startswith(".") or (is_file(path) and path.endswith(".py"))


def creator_of(spec: EnvSpec, path: str) -> Any:
    """Return the class or function that makes the game."""
    try:
        point = spec.entry_point
        return load_env_creator(point) if isinstance(point, str) else point
    except Exception as error:
        raise ConfigError(
            f"'{path}' could not be imported: {describe_error(error).rstrip('.')}: install "
            "the packages it needs."
        ) from error


def _takes(creator: Any, keyword: str) -> bool:
    return keyword in inspect.signature(creator).parameters


def _is_drawable(creator: Any) -> bool:
    """Whether the game can be made with render_mode='rgb_array'."""
    if not hasattr(creator, "metadata"):  # a function, which has only its signature
        return _takes(creator, RENDER_MODE)
    modes = creator.metadata.get("render_modes", [])
    return takes_render_mode(creator) and "rgb_array" in modes


def _drawing_advice(creator: Any) -> str:
    """Return what to change in a game that cannot be drawn."""
    if not hasattr(creator, "metadata") or not takes_render_mode(creator):
        return pass_on_render_mode(creator)
    return "add 'rgb_array' to the render_modes in its metadata, if it can draw images"
