"""What a user's game or player class declares, checked before anything is built.

Everything found here would otherwise fail later, in a line that is not the user's, or
never: pydantic does not validate defaults, and a text in place of a tuple is a tuple of
letters.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from rookery.config.base import Settings
from rookery.config.messages import describe_problem, shown
from rookery.errors import ConfigError, PlayerError
from rookery.games.base import Game
from rookery.games.gridworld.rules import GridGame, GridSettings
from rookery.games.locate import is_users_class
from rookery.games.players import Player
from rookery.games.sources import Sources


def check_class(rules: type) -> None:
    """Raise a `ConfigError` with everything that is wrong with a user's game class."""
    problems = [*_class_problems(rules)]
    if problems:
        raise ConfigError(*problems)


def _class_problems(rules: type) -> Iterator[str]:
    base = GridGame if issubclass(rules, GridGame) else Game
    sources = Sources(rules)
    yield from _settings_problems(rules, sources, grid=base is GridGame)
    yield from _count_problems(rules, sources)
    if inspect.isabstract(rules):
        missing = sorted(vars_of(rules, "__abstractmethods__"))
        heads = [f"{name}{_parameters(getattr(base, name))}" for name in missing]
        yield (
            f"{sources.prefix()}{rules.__name__} lacks {' and '.join(missing)}: write the "
            f"methods {' and '.join(heads)}."
        )
    yield from _signature_problems(rules, base, sources)
    yield from _player_problems(rules, sources)
    training: Any = vars_of(rules, "training")
    if not isinstance(training, Mapping) or not all(isinstance(k, str) for k in training):
        yield (
            f"{sources.prefix('training')}{rules.__name__}.training is {shown(training)}, "
            "expected a dict of settings by name, such as {'discount': 0.9}."
        )


def training_label(rules: type) -> str:
    """Return the name and place of a game's `training`, for messages."""
    return f"{Sources(rules).prefix('training')}{rules.__name__}.training"


def vars_of(kind: type, name: str) -> Any:
    """Return a class attribute; None if there is none."""
    return getattr(kind, name, None)


def _settings_problems(rules: type, sources: Sources, grid: bool) -> Iterator[str]:
    model: Any = vars_of(rules, "Settings")
    base, name = (GridSettings, "grid.GridSettings") if grid else (Settings, "Settings")
    if not (inspect.isclass(model) and issubclass(model, base)):
        yield (
            f"{sources.prefix('Settings')}{rules.__name__}.Settings is not a subclass of "
            f"{name}: write class Settings({name})."
        )
        return
    own = Sources(model)
    for key, field in model.model_fields.items():
        if field.is_required() or field.default_factory is not None:
            continue
        # Only this field is given; what other fields lack is no concern here.
        try:
            model.model_validate({key: field.default})
        except ValidationError as error:
            errors = [e for e in error.errors() if e["loc"][:1] == (key,)]
            if errors:
                text = describe_problem((key,), errors, ())
                yield (
                    f"{own.prefix(key)}the default of {rules.__name__}'s setting {text}: "
                    "change the default or the limit."
                )


def _count_problems(rules: type, sources: Sources) -> Iterator[str]:
    counts: Any = vars_of(rules, "counts")
    if isinstance(counts, str) or not isinstance(counts, tuple | list):
        example = counts if isinstance(counts, str) else "apples"
        yield (
            f"{sources.prefix('counts')}{rules.__name__}.counts is {shown(counts)}, "
            f"expected a tuple of names: write ('{example}',)."
        )
        return
    for name in counts:
        if not isinstance(name, str) or not name.isidentifier():
            yield (
                f"{sources.prefix('counts')}{rules.__name__}.counts has {shown(name)}, "
                "expected a name that can follow `me.`."
            )
    if len(set(map(str, counts))) < len(counts):
        yield (
            f"{sources.prefix('counts')}{rules.__name__}.counts has a name twice: "
            f"{', '.join(map(str, counts))}."
        )


def _player_problems(rules: type, sources: Sources) -> Iterator[str]:
    players: Any = vars_of(rules, "players")
    if not isinstance(players, Mapping):
        yield (
            f"{sources.prefix('players')}{rules.__name__}.players is {shown(players)}, "
            "expected a dict of Player classes by name, such as {'honest': Honest}."
        )
        return
    for name, player in players.items():
        label = f"player {name!r} of {rules.__name__}"
        if isinstance(player, Player):
            kind = type(player).__name__
            yield (
                f"{sources.prefix('players')}{label} is an object, expected a class: "
                f"write {kind}, not {kind}(…)."
            )
        elif inspect.isclass(player) and issubclass(player, Player):
            if is_users_class(player):
                yield from _player_class_problems(player)
        elif inspect.isclass(player) or not callable(player):
            yield (
                f"{sources.prefix('players')}{label} is {_named(player)}, expected a "
                "subclass of Player."
            )


def _player_class_problems(player: type[Player]) -> Iterator[str]:
    sources = Sources(player)
    if inspect.isabstract(player):
        yield (
            f"{sources.prefix()}{player.__name__} has no act method: write "
            "act(self, observation, turn), which returns one action per world."
        )
    yield from _signature_problems(player, Player, sources)


def check_built(game: Any) -> None:
    """Raise a `ConfigError` if a game's constructor has left out something."""
    kind = type(game)
    lacks = [name for name in ("settings", "worlds", "agents") if not hasattr(game, name)]
    if lacks:
        raise ConfigError(
            f"{Sources(kind).prefix('__init__')}{kind.__name__}.__init__ does not set "
            f"{' or '.join(f'self.{name}' for name in lacks)}: call super().__init__("
            "settings, worlds, seed, first_world), and assign self.agents."
        )


def check_player(player: Any, agent: str) -> None:
    """Raise a `PlayerError` if what was built for an agent cannot act for it."""
    if not isinstance(player, Player):
        raise PlayerError(
            f"the player of agent '{agent}' is {_named(player)}, expected a Player: "
            "subclass rookery.games.players.Player."
        )
    for attribute in ("spec", "settings", "worlds", "memory"):
        if not hasattr(player, attribute):
            where = Sources(type(player)).prefix("__init__")
            raise PlayerError(
                f"{where}{type(player).__name__}.__init__ does not call "
                "super().__init__(*args): write it as its first line."
            )

    check_memory(player)


def check_memory(player: Player) -> None:
    """Raise a `PlayerError` if a player's memory cannot be saved and reset."""
    for name, array in player.memory.items():
        is_array = isinstance(array, np.ndarray)
        if not is_array or array.shape[:1] != (player.worlds,):
            text = f"{array.shape} {array.dtype}" if is_array else shown(array)
            where = Sources(type(player)).prefix("memory")
            raise PlayerError(
                f"{where}{type(player).__name__} keeps {text} in memory['{name}'], "
                "expected an array with one entry per world: np.zeros(self.worlds)."
            )


def _signature_problems(kind: type, base: type, sources: Sources) -> Iterator[str]:
    """Yield the methods that cannot be called as those of `base` are."""
    for name, original in vars(base).items():
        method = inspect.getattr_static(kind, name, None)
        is_public = not name.startswith("_") or name == "__init__"
        if not inspect.isfunction(original) or not is_public or method is original:
            continue
        where = sources.prefix(name)
        if isinstance(method, staticmethod | classmethod | property):
            yield (
                f"{where}{kind.__name__}.{name} is a {type(method).__name__}, expected a "
                "plain method: remove the decorator."
            )
        elif not inspect.isfunction(method):
            yield (
                f"{where}{kind.__name__}.{name} is {_named(method)}, but '{name}' is a "
                f"method of {base.__name__}: choose another name."
            )
        elif not _accepts(method, original):
            yield (
                f"{where}{kind.__name__}.{name} takes {_parameters(method)}, expected "
                f"{_parameters(original)}: write def {name}{_parameters(original)}."
            )


def _accepts(method: Any, original: Any) -> bool:
    """Whether a method can be called with the arguments of another, by position."""
    try:
        inspect.signature(method).bind(*inspect.signature(original).parameters)
    except TypeError:
        return False
    return True


def _parameters(method: Any) -> str:
    signature = inspect.signature(method)
    names = [
        ("*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else "")
        + p.name
        for p in signature.parameters.values()
    ]
    return f"({', '.join(names)})"


def _named(value: Any) -> str:
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if callable(value):
        return f"the function {getattr(value, '__name__', 'it')}"
    return shown(value)
