"""What can be played, by name: our own games, a user's file, and foreign games.

Every public game in a module of `rookery.games.builtin` is found here, so a new game is
one file.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import rookery.games.builtin
from rookery.config.base import Settings
from rookery.errors import ConfigError, GameError, RookeryError, nearest
from rookery.games.base import Game
from rookery.games.gridworld import GridEngine, GridGame
from rookery.games.players import RandomPlayer
from rookery.plugins import foreign_name, load_object, locate_error
from rookery.stop import LEAVING


@dataclass(frozen=True)
class Entry:
    """A game that can be built."""

    name: str
    summary: str
    settings: type[Settings]
    players: Mapping[str, Any]
    """Scripted players by name; `random` is always among them."""
    build: Callable[..., Game]
    """Called with (settings, worlds, seed, first_world)."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of training that suit the game, by dotted key."""


def find(name: str) -> Entry:
    """Return the game of this name, or in this file (`./mine.py:Zap`)."""
    tongue, path = foreign_name(name)
    if tongue:
        foreign = import_module(f"rookery.games.adapters.{tongue}")
        return _entry(name, foreign.open_game(path))
    if ":" in name or name.endswith(".py"):
        return _entry(name, load_object(name))
    entries = entries_by_name()
    if name not in entries and "/" in name:
        raise ConfigError(
            f"'{name}' is neither a run nor a game: check the path, or name a game that "
            "`rookery games` lists."
        )
    if name not in entries:
        raise ConfigError(f"unknown game '{name}': {nearest(name, entries)}")
    return entries[name]


@cache
def entries_by_name() -> dict[str, Entry]:
    """Return our own games by name."""
    entries = [_entry(_name(found), found) for found in _own_games()]
    return {entry.name: entry for entry in sorted(entries, key=lambda e: e.name)}


def _own_games() -> Iterator[type]:
    folder = rookery.games.builtin
    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        for _, found in inspect.getmembers(import_module(module.name), inspect.isclass):
            own = found.__module__ == module.name
            playable = issubclass(found, Game | GridGame) and not inspect.isabstract(found)
            if own and playable and not found.__name__.startswith("_"):
                yield found


def _name(found: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", found.__name__).lower()


def _entry(name: str, found: Any) -> Entry:
    if not (inspect.isclass(found) and issubclass(found, Game | GridGame)):
        shown = " ".join(repr(found).split())
        raise ConfigError(
            f"'{name}' is {shown:.60}, not a game: name a class that extends GridGame "
            "or Game."
        )
    summary = (inspect.getdoc(found) or "").split("\n")[0]
    players = {"random": RandomPlayer, **found.players}
    build = _builder(name, found)
    return Entry(name, summary, found.Settings, players, build, found.training)


def _builder(name: str, found: type[Game] | type[GridGame]) -> Callable[..., Game]:
    def build(settings: Any, worlds: int, seed: int, first_world: int = 0) -> Game:
        try:
            if issubclass(found, Game):
                return found(settings, worlds, seed, first_world)
            return GridEngine(found(settings), worlds, seed, first_world)
        except (RookeryError, *LEAVING):
            raise
        except BaseException as error:
            raise GameError(
                f"game '{name}' raised while it was built: {locate_error(error)}: the "
                "mistake is in the game."
            ) from error

    return build
