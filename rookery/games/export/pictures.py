"""The render modes of Rookery's games, in the terms of Gymnasium and PettingZoo."""

from __future__ import annotations

from typing import Any

from rookery.errors import ConfigError
from rookery.games.adapters.game import ForeignGame
from rookery.games.base import Game
from rookery.games.gridworld import GridEngine
from rookery.games.guard import GuardedGame

RGB, TEXT, HUMAN = "rgb_array", "ansi", "human"
FPS = 5


def render_modes(game: Game) -> list[str]:
    """Return how a game can be shown: as an image, as text, or printed at every step."""
    if isinstance(game, GridEngine):
        return [RGB, TEXT, HUMAN]
    is_drawable = type(game).render is not Game.render
    if isinstance(game, ForeignGame):
        is_drawable = game.is_drawable
    return [RGB] if is_drawable else []


def check_mode(name: str, game: Game, mode: str | None) -> None:
    """Refuse a render mode that the game does not have."""
    modes = render_modes(game)
    if mode is not None and mode not in modes:
        known = f"it has {', '.join(modes)}" if modes else "leave it out"
        raise ConfigError(f"'{name}' has no render_mode {mode!r}: {known}.")


def render(game: GuardedGame, mode: str | None, world: int = 0) -> Any:
    """Return a world as an image or as text; None if every step prints it already."""
    if mode is None:
        modes = " or ".join(f"render_mode='{mode}'" for mode in render_modes(game.game))
        raise ConfigError(
            f"'{game.name}' was made without a render mode: "
            f"{f'make it with {modes}' if modes else 'it has no picture to show'}."
        )
    if mode == RGB:
        return game.render(world)
    return show(game, world) if mode == TEXT else None


def show(game: GuardedGame, world: int = 0) -> str:
    """Return a world of a grid game as text."""
    assert isinstance(game.game, GridEngine)
    return game.game.show(world)
