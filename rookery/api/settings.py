"""`rookery.settings`: the settings of a run, by section."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rookery.config.catalog import Section, sections, select_sections
from rookery.config.resolve import describe_settings
from rookery.errors import ConfigError

if TYPE_CHECKING:
    from rookery.games.registry import Entry


class SettingsList(Sequence[Section]):
    """Settings by section; each has a name, a summary, and rows.

    A row has `key`, `type`, `default` (as in config.toml) and `description`. Printed, it is
    a table.
    """

    def __init__(self, listed: Sequence[Section]) -> None:
        self._sections = tuple(listed)

    def __getitem__(self, index: Any) -> Any:
        return self._sections[index]

    def __len__(self) -> int:
        return len(self._sections)

    def __repr__(self) -> str:
        rows = [row for section in self._sections for row in section.rows]
        width = max(len(row.key) for row in rows) + 2
        lines = []
        for section in self._sections:
            lines += ["", f"{section.name}: {section.summary}"]
            for row in section.rows:
                lines.append(f"  {row.key:{width}}{row.default:14} {row.description}")
        return "\n".join(lines[1:])

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return {
            "sections": [
                {
                    "name": section.name,
                    "summary": section.summary,
                    "settings": [row._asdict() for row in section.rows],
                }
                for section in self._sections
            ]
        }


def settings(section: str | None = None) -> SettingsList:
    """List all settings of a run, or those of one section, with defaults and meanings.

    Args:
        section: the name of a section (`dqn`, `replay`), of a setting (`discount`), or of
            a game, whose own settings are then listed.
    """
    if section is None:
        return SettingsList(sections())
    try:
        return SettingsList(select_sections(section))
    except ConfigError as unknown:
        entry = _game_or_none(section)
        if entry is None:
            raise _with_game(section, unknown) from None
    rows = describe_settings(entry.settings, "game")
    defaults = ", ".join(f"{key}={value}" for key, value in entry.training.items())
    summary = f"{entry.summary} Trained with {defaults} by default." if defaults else ""
    return SettingsList([Section(section, summary or entry.summary, tuple(rows))])


def _with_game(name: str, unknown: ConfigError) -> ConfigError:
    """Return the error for a name that is unknown, with a game that it may stand for."""
    from rookery.games.registry import entries_by_name

    games = list(entries_by_name())
    close = [game for game in games if len(name) > 2 and name.lower() in game]
    close = close or difflib.get_close_matches(name.lower(), games, n=1)
    if not close:
        return unknown
    text = str(unknown).rstrip(".")
    pointer = " Or the game" if text.endswith("?") else "; or the game"
    return ConfigError(f"{text}{pointer} '{close[0]}'?")


def _game_or_none(name: str) -> Entry | None:
    """Return the game of this name; None for a name that can only be a setting's."""
    from rookery.games.registry import entries_by_name, find

    return find(name) if name in entries_by_name() or ":" in name else None
