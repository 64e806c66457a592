"""Resolve a command line, or a call from Python, to a game and its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.config.messages import shown
from rookery.config.parse import merge, nested, parse_overrides
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import read_toml
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of, assign_seats
from rookery.games.declarations import training_label
from rookery.games.registry import Entry, entries_by_name, find
from rookery.local_code import is_code, name_of


def configure(
    game: str | type | None,
    overrides: Sequence[str] = (),
    config_file: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Entry, Config]:
    """Return the game and its configuration.

    Later sources win: the game's own training settings, the file, the overrides, and
    `settings`.

    Args:
        game: its name or its class; on the command line it can be an override instead.
        overrides: settings from the command line, KEY=VALUE each.
        config_file: a TOML file of settings.
        settings: settings from Python, with dotted keys or as a tree; classes and
            functions stand for their names.
    """
    if game is not None and not isinstance(game, str):
        game = find(game).name
    if game and "=" in game:
        overrides = [game, *overrides]
        game = None
    tree: dict[str, Any] = read_toml(config_file) if config_file else {}
    asked = merge(parse_overrides(overrides), tree_of(settings or {}))
    tree = merge(tree, asked)
    name = _game_name(game, asked, tree, config_file)
    entry = find(name)
    if not isinstance(tree.get("game", {}), Mapping):
        raise ConfigError(f"game must be a group of settings, got {shown(tree['game'])}")
    named = {"game": {"name": name}}
    full = merge(merge(tree_of(entry.training), tree), named)
    try:
        return entry, resolve(full, entry.settings)
    except ConfigError as error:
        resolve(merge(tree, named), entry.settings)  # raises if the user's own are wrong
        label = training_label(entry.rules) if entry.rules else f"training of {name}"
        raise ConfigError(*(f"{label}: {text}" for text in error.problems)) from None


def tree_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree from settings whose keys can be dotted, with names for classes."""
    return nested(_named(settings))


def _named(value: Any) -> Any:
    """Return a value with names in place of classes and functions."""
    if isinstance(value, Mapping):
        return {key: _named(inner) for key, inner in value.items()}
    return name_of(value) if is_code(value) else value


def _game_name(
    game: str | None,
    asked: Mapping[str, Any],
    tree: Mapping[str, Any],
    config_file: Path | None,
) -> str:
    """Return the name of the game; a file can only name a built-in game.

    So a file from elsewhere cannot make Rookery import code.

    Args:
        game: its name, if one was given by itself.
        asked: the settings without those of the file.
        tree: all settings.
        config_file: the file.
    """
    named, written = _name_in(asked), _name_in(tree)
    if game is not None and named not in (None, game):
        raise ConfigError(
            f"two games are named, {shown(game)} and game.name={shown(named)}: name one."
        )
    if game is not None:
        return game
    if isinstance(named, str):
        return named
    if not isinstance(written, str):
        raise ConfigError("no game given: name one that `rookery games` lists.")
    if written not in entries_by_name():
        raise ConfigError(
            f"{config_file or 'game.name'} names {shown(written)}, which is not a built-in "
            "game. If you trust this code, name it on the command line, too."
        )
    return written


def _name_in(tree: Mapping[str, Any]) -> Any:
    group = tree.get("game")
    return group.get("name") if isinstance(group, dict) else None


def seat(
    entry: Entry, config: Config, players: str | None
) -> tuple[Config, list[Any] | None]:
    """Return the configuration with its players, and the seats if players were named."""
    agents = agents_of(entry, config)
    ids = [spec.id for spec in agents]
    config.check_agents(ids)
    if players is not None:
        named = assign_seats(agents, players.split(","))
        if len(named) != len(ids):
            raise ConfigError(
                f"--players names {len(named)} players for {len(ids)} agents: name one "
                "for all, or one per agent."
            )
        seats = {i: {"player": name} for i, name in zip(ids, named, strict=True)}
        raw = config.model_dump(exclude={"game", "agents"}, exclude_unset=True)
        game = config.game.settings.model_dump() | {"name": entry.name}
        config = resolve({**raw, "game": game, "agents": seats}, entry.settings)
    if not config.agents:
        return config, None
    return config, [config.agent(i).player or "random" for i in ids]
