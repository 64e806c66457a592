"""What a run was asked to do, sealed when it begins: seal.json in its folder.

It holds every setting that decides what is computed or kept, as it was resolved, with the
sums of the user's own files, of what agents start from, and of itself; and what the run
began to compute with. Every checkpoint names the seal's sum. Whoever goes on with a run
compares: other settings are refused, and a run whose seal is missing is not called exact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from rookery.config.messages import shown, toml_key
from rookery.config.run import AgentConfig, Config
from rookery.errors import ConfigError
from rookery.protocol.process_spec import sums_as_named
from rookery.runs.folder import CONFIG
from rookery.storage.access import cannot_write, is_file
from rookery.storage.arrays import Damaged, opened, parse_json
from rookery.storage.checkpoints import sum_of_manifest
from rookery.storage.files import replace_whole

SEAL = "seal.json"
RESUMABLE = (
    "workers",
    "restarts.limit",
    "restarts.silence",
    "checkpoints.every_rounds",
    "checkpoints.every_minutes",
    "checkpoints.keep",
    "checkpoints.replay",
    "checkpoints.weights_every_rounds",
    "probe.code",
)
"""What does not change what a run computes, and may be changed when it goes on."""

Seal = dict[str, Any]


def seal_of(
    config: Config,
    agents: Sequence[str],
    origins: Mapping[str, str],
    begun: Mapping[str, Any],
) -> Seal:
    """Return the seal of a run.

    Args:
        config: what it is asked to do.
        agents: the ids of the game's agents.
        origins: the sums of what agents start from, by id.
        begun: what it begins to compute with.
    """
    return {
        "settings": settings_of(config, agents),
        "files": sums_as_named(config),
        "from": dict(origins),
        "begun": dict(begun),
    }


def settings_of(config: Config, agents: Sequence[str]) -> dict[str, Any]:
    """Return every setting of a run that is sealed, by its dotted name.

    Of an agent, only what is not as for all. So it makes no difference how a setting came
    to be what it is: by a pattern, an id, or for all agents.
    """
    common = _flat(config)
    alike = _flat(AgentConfig()) | common
    found = {key: value for key, value in common.items() if key not in RESUMABLE}
    for agent in agents:
        for key, value in _flat(config.agent(agent)).items():
            if value != alike[key]:
                found[f"agents.{toml_key(agent)}.{key}"] = value
    return found


def _flat(group: BaseModel, place: str = "", only_set: bool = False) -> dict[str, Any]:
    """Return values by dotted name, as JSON holds them.

    A game's own settings lie beside its name; those of single agents are left out.
    """
    found: dict[str, Any] = {}
    for name, value in group:
        field = type(group).model_fields.get(name)
        key = f"{place}{field.alias if field and field.alias else name}"
        if key == "agents" or (only_set and name not in group.model_fields_set):
            continue
        if isinstance(value, BaseModel):
            inner = place if key == "game.settings" else f"{key}."
            found |= _flat(value, inner, only_set)
        else:
            found[key] = to_jsonable_python(value)
    return found


def write_seal(folder: Path, seal: Seal) -> Seal:
    """Write a seal with its sum, and return it.

    Raises:
        ConfigError: if it cannot be written.
    """
    return write_summed(folder / SEAL, seal)


def read_seal(folder: Path) -> Seal | None:
    """Return the seal of a run; None if it has none.

    Raises:
        ConfigError: if it is not what was written.
    """
    try:
        return read_summed(folder / SEAL)
    except Damaged as error:
        raise broken(folder) from error


def write_summed(path: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Write a file with its own sum, whole and onto the disk; return what it holds.

    Raises:
        ConfigError: if it cannot be written.
    """
    whole = {**about, "sum": sum_of_manifest(about)}
    try:
        replace_whole(path, json.dumps(whole, indent=2).encode())
    except OSError as error:
        raise cannot_write(path, error) from error
    return whole


def read_summed(path: Path) -> dict[str, Any] | None:
    """Return what `write_summed` has written; None if there is no such file.

    Raises:
        Damaged: if it is not what was written.
    """
    if not is_file(path):
        return None
    with opened(path) as file:
        data = file.read()
    about = parse_json(data)
    if not isinstance(about, dict) or about.get("sum") != sum_of_manifest(about):
        raise Damaged("it is not what was written")
    return about


def broken(folder: Path) -> ConfigError:
    """Return the error for a seal that is not the one that the run began with."""
    return ConfigError(
        f"{folder / SEAL} is not what was written when the run began: put it back, or "
        "delete it; without it the run goes on, marked as not exact."
    )


def refuse_changes(folder: Path, seal: Seal, config: Config, agents: Sequence[str]) -> None:
    """Refuse to go on with other settings than a run began with.

    Raises:
        ConfigError: with everything that differs, and what it was.
    """
    if changed := changes(seal, config, agents):
        raise ConfigError(
            f"{folder / CONFIG} has changed since the run began: {changed}. Put it back, "
            "or start a new run from these agents: rookery train … "
            f"'agents.\"*\".from={folder}'"
        )


def changes(seal: Seal, config: Config, agents: Sequence[str]) -> str:
    """Return which settings differ from those that were sealed; '' if none does."""
    was, now = seal["settings"], settings_of(config, agents)
    written = _flat(config, only_set=True)

    def counts(key: str) -> bool:
        """Whether it is no default that there was not yet when the run began."""
        return key in was or key in written or key.startswith("agents.")

    found = [
        f"{key} was {_shown(was, key)} and is {_shown(now, key)}"
        for key in {**was, **now}
        if (key in was, was.get(key)) != (key in now, now.get(key)) and counts(key)
    ]
    return "; ".join(found)


def _shown(settings: Mapping[str, Any], key: str) -> str:
    if key not in settings and key.startswith("agents."):
        return "as for all agents"
    return "unset" if settings.get(key) is None else shown(settings[key])


def changed_files(seal: Seal, config: Config) -> list[str]:
    """Return the user's files that are not what they were when a run began."""
    now = sums_as_named(config)
    return [name for name, wanted in seal["files"].items() if now.get(name) != wanted]


def refuse_other_origins(seal: Seal, origins: Mapping[str, str]) -> None:
    """Refuse to begin again from other weights than a run began with.

    Raises:
        ConfigError: naming the first agent whose weights these are.
    """
    for agent, wanted in seal["from"].items():
        if origins.get(agent) != wanted:
            raise ConfigError(
                f"what agent '{agent}' starts from has changed since the run began: put "
                "it back, or delete the run and train again."
            )
