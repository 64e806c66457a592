"""Shell completion of games, settings and run folders, without importing torch.

Every function gets what has been typed so far and returns the words that continue it.
"""

from __future__ import annotations

from pathlib import Path

import typer


def complete_game(incomplete: str) -> list[str]:
    """Return the built-in games that begin like this."""
    from rookery.games.registry import entries_by_name

    return [name for name in entries_by_name() if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Return the runs, and the folders that may contain some, that begin like this."""
    parent, _, begun = incomplete.rpartition("/")
    folder = Path(f"{parent}/") if parent or incomplete.startswith("/") else Path()
    try:
        inner = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
    return [
        f"{parent}/{path.name}" if "/" in incomplete else path.name
        for path in inner
        if path.name.startswith(begun) and (begun or not path.name.startswith("."))
    ]


def complete_game_or_run(incomplete: str) -> list[str]:
    """Return the games and the folders that begin like this."""
    return complete_game(incomplete) + complete_run(incomplete)


def complete_setting(context: typer.Context, incomplete: str) -> list[str]:
    """Return the settings that begin like this, each ready for its value."""
    from rookery.config.catalog import sections

    keys = [row.key for section in sections() for row in section.rows]
    if incomplete.startswith("game."):
        keys += _game_settings(context.params.get("game"))
    return [f"{key}=" for key in keys if key.startswith(incomplete) and "<" not in key]


def _game_settings(game: str | None) -> list[str]:
    """Return the settings of a built-in game; a user's code is not imported for this."""
    from rookery.config.resolve import describe_settings
    from rookery.games.registry import entries_by_name

    entry = entries_by_name().get(game or "")
    return [row.key for row in describe_settings(entry.settings, "game")] if entry else []


def complete_section(incomplete: str) -> list[str]:
    """Return the sections of settings and the games that begin like this."""
    from rookery.config.catalog import sections

    names = [section.name for section in sections()]
    return [n for n in names if n.startswith(incomplete)] + complete_game(incomplete)
