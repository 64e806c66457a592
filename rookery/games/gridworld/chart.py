"""The map of a grid game: from the text that its author draws to rows of chars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rookery.errors import ConfigError
from rookery.games.gridworld.rules import GridGame, Kind
from rookery.games.sources import Sources, text_line

START_SPOT = "P"
BLANKS = " ."


def read_map(rules: GridGame, things: Sequence[Kind]) -> tuple[int, int, list[str]]:
    """Return the height and width of the map, and its rows.

    Without a map, the settings must have a height and a width, and there are no rows.
    """
    game, text = type(rules).__name__, rules.map
    if not isinstance(text, str):
        raise ConfigError(
            f"{_prefix(rules, '')}the map of {game} is a {type(text).__name__}, expected "
            "text: join the rows with line breaks."
        )
    rows = text.splitlines()
    while rows and not rows[0].strip():
        rows = rows[1:]
    while rows and not rows[-1].strip():
        rows = rows[:-1]
    if not rows:
        settings: Any = rules.settings
        if not (hasattr(settings, "height") and hasattr(settings, "width")):
            raise ConfigError(
                f"{_prefix(rules, '')}{game} has neither a map nor a size: assign "
                "self.map, or declare the settings height and width."
            )
        return settings.height, settings.width, []
    _check_chars(rules, rows, things)
    _check_widths(rules, rows)
    width = max(len(row) for row in rows)
    return len(rows), width, [row.ljust(width) for row in rows]


def _check_chars(rules: GridGame, rows: Sequence[str], things: Sequence[Kind]) -> None:
    """Refuse chars that have no meaning, or two."""
    meanings = {
        char: ["a start spot" if char == START_SPOT else "nothing"]
        for char in (START_SPOT, *BLANKS)
    }
    for kind in things:
        meanings.setdefault(kind.char, []).append(kind.name)
    game = type(rules).__name__
    for number, row in enumerate(rows, start=1):
        for column, char in enumerate(row, start=1):
            if char not in meanings:
                raise ConfigError(
                    f"{_prefix(rules, row)}the map of {game} uses {char!r} in row "
                    f"{number}, column {column}, but no Kind has that char: known are "
                    f"{' '.join(sorted(meanings.keys() - {' '}))}."
                )
            if len(meanings[char]) > 1:
                raise ConfigError(
                    f"{_prefix(rules, row)}the map of {game} uses {char!r}, which stands "
                    f"for {' and '.join(meanings[char])}: give them different chars."
                )


def _check_widths(rules: GridGame, rows: Sequence[str]) -> None:
    """Refuse short rows, unless empty cells are drawn as spaces, which editors strip."""
    indent = min(len(row) - len(row.lstrip()) for row in rows if row.strip())
    if any(" " in row[indent:] for row in rows):
        return
    width = max(len(row) for row in rows)
    for number, row in enumerate(rows, start=1):
        if len(row) < width:
            raise ConfigError(
                f"{_prefix(rules, row)}row {number} of the map of {type(rules).__name__} "
                f"has {len(row)} cells, expected {width} like the longest row: fill it up "
                "with '.'."
            )


def _prefix(rules: GridGame, row: str) -> str:
    """Return the place of a row of the map, as the beginning of a message."""
    for source in Sources(type(rules)).classes:
        where = text_line(source, row, "map")
        if where:
            return f"{where}: "
    return Sources(type(rules)).prefix()
