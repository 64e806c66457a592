"""The seal of a run: what its bits depend on, recorded in seal.json when it starts.

The seal holds every resolved setting that decides what is computed or stored, checksums of
the user's files and of the weights that agents start from, the software and processor that
the run started with, and a checksum of itself. Every checkpoint contains the checksum of
the seal. A resumed run is compared with its seal, and with what changes.json says was
changed on resume: an edited config.toml is refused. A run without a seal, or one that is
continued with other software, is marked as not exact.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from rookery.config.messages import shown, toml_key
from rookery.config.run import AgentConfig, Config
from rookery.errors import ConfigError
from rookery.local_code import is_local
from rookery.printing import command
from rookery.protocol.user_files import sums_as_named
from rookery.runs.changeable import UNSEALED, is_changeable
from rookery.runs.changes import read_history
from rookery.runs.folder import CONFIG
from rookery.storage.arrays import Damaged
from rookery.storage.summed_json import read_with_checksum, write_with_checksum

SEAL = "seal.json"
ARITHMETIC = 3
"""The version of Rookery's arithmetic.

Raise it with every change after which the same settings and seed give different bits, even
if only for one algorithm or one game. Older runs that are resumed are then marked as not
exact.
"""
FIRST_ARITHMETIC = 1
"""The version of everything that was written before versions were recorded."""
COMPILER = ("numba", "llvmlite")
"""What compiles loops; there were none before version 3 of the arithmetic."""
DECIDES_BITS = ("arithmetic", "torch", "numpy", *COMPILER)
"""The versions that change bits; Rookery's own is for information, as is the processor."""
Seal = dict[str, Any]


def machine(bits: str) -> dict[str, Any]:
    """Return the software and the processor that a run computes with, and their bits.

    Args:
        bits: the hash of what they compute at the shapes of the run; '' if unknown.
    """
    return {
        "bits": bits,
        "rookery": _version("rookery"),
        "arithmetic": ARITHMETIC,
        "torch": torch.__version__,
        "numpy": np.__version__,
        **{name: _version(name) for name in COMPILER},
        "processor": _processor(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # not installed, only on the path
        return "unknown"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(
                x.split(":")[1].strip() for x in lines if x.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.machine()


def has_other_arithmetic(recorded: Mapping[str, Any]) -> bool:
    """Whether a manifest was written with another version of Rookery's arithmetic."""
    return bool(recorded.get("arithmetic", FIRST_ARITHMETIC) != ARITHMETIC)


def _machine_changes(recorded: Mapping[str, Any], bits: str) -> str:
    """Return how a recorded machine differs from this one; '' if it does not."""
    now, then = machine(bits), {"arithmetic": FIRST_ARITHMETIC, **recorded}
    labels = {"arithmetic": "Rookery's arithmetic version"}
    changes = [
        f"{labels.get(key, key)} {then.get(key, 'unknown')} (now {now[key]})"
        for key in DECIDES_BITS
        if then.get(key) != now[key] and (key in then or key not in COMPILER)
    ]
    if not changes and _has_other_bits(then, now):
        changes = [f"other bits, on {then.get('processor')} (now {now['processor']})"]
    return " and ".join(changes)


def _has_other_bits(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two machines compute other bits; before bits were recorded: may compute."""
    if then.get("bits") and now["bits"]:
        return bool(then["bits"] != now["bits"])
    return then.get("processor") != now["processor"]


def seal_of(config: Config, agents: Sequence[str], origins: Mapping[str, str]) -> Seal:
    """Return the seal of a run that starts now; the machine's bits are added later.

    Args:
        config: the run's configuration.
        agents: the ids of the game's agents.
        origins: checksums of what agents start from, by id.
    """
    return {
        "settings": sealed_settings(config, agents),
        "files": sums_as_named(config),
        "from": dict(origins),
        "begun": machine(bits=""),
    }


def sealed_settings(config: Config, agents: Sequence[str]) -> dict[str, Any]:
    """Return every setting of a run that is sealed, by its dotted name."""
    settings = all_settings(config, agents)
    return {key: value for key, value in settings.items() if key not in UNSEALED}


def all_settings(config: Config, agents: Sequence[str]) -> dict[str, Any]:
    """Return every setting of a run by its dotted name.

    A setting of one agent is included only if it differs from the setting for all agents.
    So it makes no difference whether it was set by a pattern, by id, or for all agents.
    """
    settings = _flat(config)
    defaults = _flat(AgentConfig()) | settings
    for agent in agents:
        for key, value in _flat(config.agent(agent)).items():
            if value != defaults[key]:
                settings[f"agents.{toml_key(agent)}.{key}"] = value
    return settings


def _flat(group: BaseModel, prefix: str = "", only_set: bool = False) -> dict[str, Any]:
    """Return settings by dotted name, with values as in JSON.

    A game's own settings are on the same level as its name; settings of single agents are
    left out.
    """
    settings: dict[str, Any] = {}
    for name, value in group:
        field = type(group).model_fields.get(name)
        key = f"{prefix}{field.alias if field and field.alias else name}"
        if key == "agents" or (only_set and name not in group.model_fields_set):
            continue
        if isinstance(value, BaseModel):
            inner = prefix if key == "game.settings" else f"{key}."
            settings |= _flat(value, inner, only_set)
        else:
            settings[key] = to_jsonable_python(value)
    return settings


def seal_new_run(
    folder: Path,
    config: Config,
    agents: Sequence[str],
    origins: Mapping[str, str],
    expected: Seal | None = None,
) -> Seal:
    """Seal a run that starts at round 0, and return its seal.

    Args:
        folder: of the run.
        config: the run's configuration.
        agents: the ids of the game's agents.
        origins: checksums of what agents start from, by id.
        expected: its seal when it was planned, or started before, if it was.

    Raises:
        ConfigError: if other settings or other origins were expected.
    """
    seal = seal_of(config, agents, origins)
    if expected:
        refuse_changes(folder, expected, config, agents)
        _refuse_other_origins(expected, origins)
        settings = seal["settings"] | expected["settings"]
        seal |= {"files": expected["files"], "settings": settings}
    return write_seal(folder, seal)


def add_bits(folder: Path, seal: Seal, bits: str) -> Seal:
    """Write down what the machine that a run starts on computes; return the new seal."""
    return write_seal(folder, {**seal, "begun": machine(bits)})


def check_seal(folder: Path, config: Config, agents: Sequence[str]) -> Seal | None:
    """Return the seal of a run that is resumed; None if it has none.

    Raises:
        ConfigError: if its settings have changed since it started.
    """
    seal = read_seal(folder)
    if seal:
        refuse_changes(folder, seal, config, agents)
    return seal


def reasons_inexact(
    seal: Seal | None,
    config: Config,
    computed_with: Mapping[str, Any] | None = None,
    bits: str = "",
) -> list[str]:
    """Return why a resumed run may differ from one that was never interrupted.

    Args:
        seal: the seal of the run, if it has one.
        config: the configuration that it is resumed with.
        computed_with: the recorded `machine`; None if nothing computed before is used.
        bits: the hash of what this machine computes.
    """
    if seal is None:
        reasons = [
            f"{SEAL} is missing, so the settings may have changed since the run started"
        ]
    else:
        checksums = sums_as_named(config)
        reasons = [
            f"{name} is not the {'class' if is_local(name) else 'file'} that the run "
            "started with"
            for name, expected in seal["files"].items()
            if checksums.get(name) != expected
        ]
    if computed_with is not None and (changes := _machine_changes(computed_with, bits)):
        reasons.append(f"it continues from results computed with {changes}")
    return reasons


def write_seal(folder: Path, seal: Seal) -> Seal:
    """Write a seal with its checksum, and return it.

    Raises:
        ConfigError: if it cannot be written.
    """
    return write_with_checksum(folder / SEAL, seal)


def read_seal(folder: Path) -> Seal | None:
    """Return the seal of a run; None if it has none.

    Raises:
        ConfigError: if the file was changed or damaged.
    """
    try:
        return read_with_checksum(folder / SEAL)
    except Damaged as error:
        raise broken_seal(folder) from error


def broken_seal(folder: Path) -> ConfigError:
    """Return the error for a seal that is not the one that the run started with."""
    return ConfigError(
        f"{folder / SEAL} is not what was written when the run started: put it back, or "
        "delete it; without it the run continues, marked as not exact."
    )


def refuse_changes(folder: Path, seal: Seal, config: Config, agents: Sequence[str]) -> None:
    """Refuse to resume a run whose config.toml was edited.

    Raises:
        ConfigError: listing every edited setting with its old and new value.
    """
    edits = edited_settings(folder, seal, config, agents)
    if not edits:
        return
    problem = f"{folder / CONFIG} has changed since the run started: {describe(edits)}."
    if all(is_changeable(key) for key in edits):
        settings = [f"{key}={new}" for key, (_, new) in edits.items()]
        raise ConfigError(
            f"{problem} Put it back, and change it on resume: "
            f"{command('resume', folder, *settings)}"
        )
    raise ConfigError(
        f"{problem} Put it back, or start a new run from these agents: rookery train … "
        f"'agents.\"*\".from={folder}'"
    )


def edited_settings(
    folder: Path, seal: Seal, config: Config, agents: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return the sealed settings that were edited, with their old and new values as text.

    Changes on resume are in the run's history, and are not edits.
    """
    old = read_history(folder).overlay(seal["settings"], folder)
    new = sealed_settings(config, agents)
    written = _flat(config, only_set=True)

    def counts(key: str) -> bool:
        """Whether it is not just a default that did not exist when the run started."""
        return key in old or key in written or key.startswith("agents.")

    return {
        key: (_shown(old, key), _shown(new, key))
        for key in {**old, **new}
        if (key in old, old.get(key)) != (key in new, new.get(key)) and counts(key)
    }


def describe(edits: Mapping[str, tuple[str, str]]) -> str:
    """Return edited settings in words."""
    return "; ".join(f"{key} was {old} and is {new}" for key, (old, new) in edits.items())


def _shown(settings: Mapping[str, Any], key: str) -> str:
    if key not in settings and key.startswith("agents."):
        return "as for all agents"
    return "unset" if settings.get(key) is None else shown(settings[key])


def _refuse_other_origins(seal: Seal, origins: Mapping[str, str]) -> None:
    """Refuse to start again from weights other than those that were sealed.

    Raises:
        ConfigError: naming the first agent whose weights have changed.
    """
    for agent, expected in seal["from"].items():
        if origins.get(agent) != expected:
            raise ConfigError(
                f"what agent '{agent}' starts from has changed since the run started: put "
                "it back, or delete the run and train again."
            )
