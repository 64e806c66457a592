"""All games by name: built-in ones, games in a user's file, and foreign ones.

Every public game class in a module of `rookery.games.builtin` is found automatically, so
a new game is one file.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from rookery.config.base import Settings
from rookery.config.messages import shown
from rookery.errors import ConfigError, GameError, RookeryError, nearest
from rookery.games import builtin
from rookery.games.base import Game
from rookery.games.declarations import check_built, check_class, check_player
from rookery.games.gridworld import GridEngine, GridGame
from rookery.games.guard import GuardedGame
from rookery.games.hints import remedy
from rookery.games.locate import explain, is_users_class, located
from rookery.games.names import complete_name, refuse_unsupported
from rookery.games.player_guard import player_errors
from rookery.games.players import Player, PlayerStream, RandomPlayer
from rookery.local_code import name_of
from rookery.plugins import foreign_name, load_object
from rookery.stop import LEAVING

MakePlayer = Callable[..., Player]
"""A class of players: called with (spec, settings, worlds, stream)."""


@dataclass(frozen=True)
class Entry:
    """A game that can be built, and its scripted players."""

    name: str
    summary: str
    settings: type[Settings]
    players: Mapping[str, Any]
    """Scripted players by name; `random` is always among them."""
    build: Callable[..., Game]
    """Called with (settings, worlds, seed, first_world)."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that suit the game, by dotted key."""
    rules: type | None = None
    """The class of the game."""

    def build_guarded(
        self, settings: Settings, worlds: int, seed: int, first_world: int = 0
    ) -> GuardedGame:
        """Return the game, checked turn by turn."""
        game = self.build(settings, worlds, seed, first_world)
        return GuardedGame(game, self.name, first_world)

    def find_player(self, player: str | MakePlayer) -> MakePlayer:
        """Return a class of players, by name unless it is a class already."""
        if not isinstance(player, str):
            return player
        if player not in self.players:
            raise ConfigError(
                f"unknown player '{player}' for '{self.name}': "
                f"{nearest(player, self.players)}"
            )
        return self.players[player]

    def seat_players(
        self,
        game: Game,
        players: Sequence[str | MakePlayer | None],
        seed: int,
        first_world: int = 0,
    ) -> dict[int, Player]:
        """Return the players of a game by agent index.

        Args:
            game: built from this entry.
            players: one per agent, by name or as a class; None for an agent without one.
            seed: of the players' random numbers.
            first_world: the number of the game's first world.
        """
        if len(players) != len(game.agents):
            raise ConfigError(
                f"got {len(players)} players for the {len(game.agents)} agents of "
                f"'{self.name}': name one player for all agents, or one per agent."
            )
        seated = {}
        for i, (spec, player) in enumerate(zip(game.agents, players, strict=True)):
            if player is not None:
                make, stream = self.find_player(player), PlayerStream(seed, i, first_world)
                with player_errors(spec, "__init__"):
                    seated[i] = make(spec, game.settings, game.worlds, stream)
                check_player(seated[i], spec.id)
        return seated


def find(game: str | type) -> Entry:
    """Return the game of this name, in this file (`./mine.py:Zap`), or of this class."""
    name = game if isinstance(game, str) else _name_of(game)
    library, path = foreign_name(name)
    if library:
        full_path = complete_name(library, path)
        adapter = import_module(f"rookery.games.adapters.{library}")
        return _make_entry(name, adapter.open_game(full_path))
    refuse_unsupported(name)
    if ":" in name or name.endswith(".py"):
        return _make_entry(name, _load(name))
    entries = entries_by_name()
    if name not in entries and "/" in name:
        raise ConfigError(
            f"'{name}' is neither a run nor a game: check the path, or name a game that "
            "`rookery games` lists."
        )
    if name not in entries:
        raise ConfigError(f"unknown game '{name}': {nearest(name, entries)}")
    return entries[name]


def _name_of(game: Any) -> str:
    """Return the name of a game that was given as a class."""
    if not (inspect.isclass(game) and issubclass(game, Game | GridGame)):
        raise ConfigError(
            f"game is {shown(repr(game))}, expected the name of a game, or a subclass of "
            "GridGame or Game."
        )
    if game.__module__.startswith(f"{builtin.__name__}."):
        return _snake_case(game)
    return name_of(game)


def _load(name: str) -> Any:
    """Return the object at a path; what its import raises comes with a remedy."""
    try:
        return load_object(name)
    except ConfigError as error:
        cure = remedy(error.__cause__, "") if error.__cause__ is not None else ""
        if not cure:
            raise
        raise ConfigError(f"{error}: {cure}") from error


@cache
def entries_by_name() -> dict[str, Entry]:
    """Return the built-in games by name."""
    entries = [_make_entry(_snake_case(rules), rules) for rules in _builtin_games()]
    return {entry.name: entry for entry in sorted(entries, key=lambda e: e.name)}


def _builtin_games() -> Iterator[type]:
    for module in pkgutil.iter_modules(builtin.__path__, f"{builtin.__name__}."):
        for _, member in inspect.getmembers(import_module(module.name), inspect.isclass):
            is_custom = member.__module__ == module.name
            is_game = issubclass(member, Game | GridGame) and not inspect.isabstract(member)
            if is_custom and is_game and not member.__name__.startswith("_"):
                yield member


def _snake_case(rules: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", rules.__name__).lower()


def _make_entry(name: str, rules: Any) -> Entry:
    if not (inspect.isclass(rules) and issubclass(rules, Game | GridGame)):
        text = " ".join(repr(rules).split())
        raise ConfigError(
            f"'{name}' is {text:.60}, not a game: name a subclass of GridGame or Game."
        )
    if is_users_class(rules):
        check_class(rules)
    summary = (inspect.getdoc(rules) or "").split("\n")[0]
    players = {"random": RandomPlayer, **rules.players}
    build = _make_builder(name, rules)
    return Entry(name, summary, rules.Settings, players, build, rules.training, rules)


def _make_builder(name: str, rules: type[Game] | type[GridGame]) -> Callable[..., Game]:
    def build(settings: Any, worlds: int, seed: int, first_world: int = 0) -> Game:
        try:
            if issubclass(rules, Game):
                game = rules(settings, worlds, seed, first_world)
                check_built(game)
                return game
            return GridEngine(rules(settings), worlds, seed, first_world)
        except LEAVING:
            raise
        except RookeryError as error:
            if (known := located(error)) is error:
                raise  # with its own cause
            raise known from error
        except BaseException as error:
            subject = f"game '{name}' could not be built: it"
            raise GameError(explain(error, subject, rules.__name__, "game")) from error

    return build
