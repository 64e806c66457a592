"""All settings by section, as `rookery settings` and docs/settings.md list them.

The descriptions are those of the fields, which are also the comments in config.toml.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rookery.config.agent import AgentSettings
from rookery.config.resolve import SettingRow, describe_settings
from rookery.config.run import AgentConfig, Config
from rookery.config.synonyms import find_synonym
from rookery.errors import ConfigError, nearest

RUN, AGENTS = "run", "agents"
"""The sections of the settings without a group, and of single agents."""
ALGORITHMS = {
    "recurrent_dqn": ("dqn", "recurrent"),
    "recurrent_ppo": ("ppo", "recurrent"),
}
"""Algorithms whose settings are in sections with other names."""


class Section(NamedTuple):
    """A group of settings."""

    name: str
    summary: str
    rows: tuple[SettingRow, ...]


def sections() -> list[Section]:
    """Return all settings of a run by section; a game's own are not among them."""
    rows = describe_settings(Config)
    groups = dict.fromkeys(row.key.partition(".")[0] for row in rows if "." in row.key)
    plain = tuple(row for row in rows if "." not in row.key)
    listed = [Section(RUN, "The run, and all agents in it.", plain)]
    for name in groups:
        summary = Config.model_fields[name].description or ""
        inner = tuple(row for row in rows if row.key.startswith(f"{name}."))
        listed.append(Section(name, summary, _without_repeats(name, inner)))
    return listed


def _without_repeats(name: str, rows: tuple[SettingRow, ...]) -> tuple[SettingRow, ...]:
    """Return the rows of a section; an agent's only if the run does not have them, too."""
    if name != AGENTS:
        return rows
    own = {
        field.alias or key
        for key, field in AgentConfig.model_fields.items()
        if key not in AgentSettings.model_fields
    }
    return tuple(row for row in rows if row.key.rpartition(".")[2] in own)


def select_sections(name: str) -> list[Section]:
    """Return the sections that a name stands for: a section, a setting or an algorithm.

    A name that other libraries use for a setting, such as `gamma`, stands for it.

    Raises:
        ConfigError: if it is none of these, with the most similar name.
    """
    every = sections()
    by_name = {section.name: section for section in every}
    if name in ALGORITHMS:
        return [by_name[section] for section in ALGORITHMS[name]]
    if name in by_name:
        return [by_name[name]]
    keys = [row.key for section in every for row in section.rows]
    synonym = find_synonym(name.rpartition(".")[2])
    named = {key for key in keys if key == name or key.rpartition(".")[2] == name}
    if selected := _with_rows(every, named or set(synonym.settings if synonym else ())):
        return selected
    if synonym:
        answer = synonym.note or f"here it is called '{synonym.settings[0]}'"
        raise ConfigError(f"no setting is named '{name}': {answer}.")
    known = [*by_name, *ALGORITHMS, *keys]
    raise ConfigError(
        f"no setting or section is named '{name}': "
        f"{nearest(name, known, 'rookery settings')}"
    )


def _with_rows(every: Iterable[Section], keys: set[str]) -> list[Section]:
    """Return the sections that have some of these settings, with those only."""
    reduced = [
        section._replace(rows=tuple(row for row in section.rows if row.key in keys))
        for section in every
    ]
    return [section for section in reduced if section.rows]
