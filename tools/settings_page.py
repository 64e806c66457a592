"""docs/settings.md: all settings, from the same descriptions as config.toml."""

from __future__ import annotations

from collections.abc import Iterable

from rookery.config.catalog import sections
from rookery.config.resolve import SettingRow, describe_settings
from rookery.config.synonyms import SYNONYMS
from rookery.games.registry import entries_by_name

INTRODUCTION = """\
# Settings

Every setting of a run, with its default. The same list is printed by `rookery settings`,
`rookery settings dqn` shows one section, and `rookery settings cleanup` the settings of a
game. Settings are given on the command line (`rookery train cleanup discount=0.9
replay.capacity=50_000`), in Python (`rookery.train("cleanup", discount=0.9,
replay={"capacity": 50_000})`), or in a TOML file (`--config mine.toml`). Every run writes
all of its settings to `config.toml` in its folder.

Many settings can also be given to single agents, by id or by pattern:
`agents.0.discount=0.5`, `agents."hunter*".algorithm=ppo`. These are the settings above
`seed` in the first table, and those in all other sections except `game`, `evaluate`,
`record`, `probe`, `checkpoints` and `restarts`. All others hold for the whole run.
"""
SYNONYMS_TITLE = """\
## Names from other libraries

A name in this list is answered with Rookery's.

| elsewhere | here | |
| --- | --- | --- |
"""


def write_settings() -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for section in sections():
        parts.append(f"## {section.name}\n\n{section.summary}\n\n{_table(section.rows)}")
    parts.append(
        "## Games\n\nThe settings of the built-in games, as `game.NAME`. Those of your own "
        "games are the fields of their `Settings`.\n"
    )
    for entry in entries_by_name().values():
        rows = describe_settings(entry.settings, "game")
        parts.append(f"### {entry.name}\n\n{entry.summary}\n\n{_table(rows)}")
    parts.append(SYNONYMS_TITLE + "\n".join(_synonym_rows()) + "\n")
    return "\n".join(parts)


def _table(rows: Iterable[SettingRow]) -> str:
    lines = ["| setting | default | type | meaning |", "| --- | --- | --- | --- |"]
    for row in rows:
        cells = (f"`{row.key}`", f"`{row.default}`", row.type, row.description)
        escaped = (cell.replace("|", r"\|") for cell in cells)
        lines.append(f"| {' | '.join(escaped)} |")
    return "\n".join(lines) + "\n"


def _synonym_rows() -> list[str]:
    rows = []
    for synonym in dict.fromkeys(SYNONYMS.values()):
        names = ", ".join(f"`{n}`" for n, other in SYNONYMS.items() if other is synonym)
        targets = ", ".join(f"`{name}`" for name in synonym.settings) or "–"
        rows.append(f"| {names} | {targets} | {synonym.note} |")
    return rows
