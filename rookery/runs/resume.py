"""Resuming a run with changed settings: what was asked for, and what follows from it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.algorithms.agents import build_agents
from rookery.config.messages import shown
from rookery.config.parse import merge, parse_overrides
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import read_toml
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.evaluation.probes import check_named
from rookery.games.registry import Entry
from rookery.printing import command
from rookery.protocol.schedule import rounds_ahead
from rookery.runs.changeable import CHANGEABLE, is_changeable
from rookery.runs.changes import (
    Change,
    Differences,
    finish_change,
    write_change,
    write_planned,
)
from rookery.runs.configure import tree_of
from rookery.runs.folder import CHECKPOINTS, CONFIG
from rookery.runs.log import METRICS, read_lines
from rookery.runs.run import Run
from rookery.runs.seal import all_settings
from rookery.specs import AgentSpec
from rookery.storage.checkpoints import checkpoints_in, number_of
from rookery.training.training import MEMORY


def resumed_config(
    run: Run,
    overrides: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    probes: Sequence[str] = (),
) -> Config:
    """Return a run's configuration, with the settings that are changed on resume.

    A learning rate that falls over all rounds of the run keeps falling as it did if the
    number of rounds is changed: `rate.rounds` is then set to the old number.

    Args:
        run: the run.
        overrides: settings from the command line, KEY=VALUE each.
        settings: settings from Python, with dotted keys or as a tree.
        probes: code of probes that the user has named besides.

    Raises:
        ConfigError: if a setting cannot be changed, or names code that the user does not.
    """
    finish_change(run.path)
    tree = read_toml(run.path / CONFIG)
    asked = merge(parse_overrides(overrides), tree_of(settings or {}))
    return changed_config(run.path, run.entry, tree, asked, probes)


def changed_config(
    folder: Path,
    entry: Entry,
    tree: Mapping[str, Any],
    asked: Mapping[str, Any],
    probes: Sequence[str] = (),
) -> Config:
    """Return a configuration with changed settings, as `resumed_config` does.

    Args:
        folder: of the run, to be named in errors.
        entry: its game.
        tree: the configuration as it was.
        asked: the settings to change, as a tree.
        probes: code of probes that the user has named besides.

    Raises:
        ConfigError: if a setting cannot be changed, or names code that the user does not.
    """
    recorded = resolve(tree, entry.settings)
    config = resolve(merge(tree, asked), entry.settings)
    specs = agents_of(entry, recorded)
    changed = differences(recorded, config, [spec.id for spec in specs])
    refuse_unchangeable(folder, entry, changed)
    check_named(config, [*probes, *probes_in(asked)], str(folder / CONFIG))
    if "rounds" in changed and falls_over_all_rounds(config, specs):
        rate = {"rate": {"rounds": recorded.rounds}}
        config = resolve(merge(merge(tree, asked), rate), entry.settings)
    return config


def probes_in(settings: Mapping[str, Any]) -> list[str]:
    """Return the code of the probe that a tree of settings names, if any."""
    group = settings.get("probe")
    name = group.get("code") if isinstance(group, Mapping) else None
    return [] if name is None else [str(name)]


def differences(old: Config, new: Config, agents: Sequence[str]) -> Differences:
    """Return the settings that differ between two configurations of a run."""
    before, after = all_settings(old, agents), all_settings(new, agents)
    return {
        key: (before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    }


def refuse_unchangeable(folder: Path, entry: Entry, changed: Differences) -> None:
    """Refuse settings that cannot be changed on resume.

    Raises:
        ConfigError: naming them, and how to train a new run from the same agents instead.
    """
    refused = {key: new for key, (_, new) in changed.items() if not is_changeable(key)}
    if not refused:
        return
    values = {key: _text(value).strip("'") for key, value in refused.items()}
    settings = [f"{key}={value}" for key, value in values.items()]
    new_run = command("train", entry.name, *settings, f'agents."*".from={folder}')
    raise ConfigError(
        f"{', '.join(refused)} cannot be changed when a run is resumed, only "
        f"{', '.join(CHANGEABLE)}: start a new run from these agents: {new_run}"
    )


def falls_over_all_rounds(config: Config, specs: Sequence[AgentSpec]) -> bool:
    """Whether the learning rate of an agent falls until the last round of the run."""
    rates = [config.agent(spec.id).rate for spec in specs]
    return any(
        rate.schedule != "constant" and rate.rounds is None and rate.updates is None
        for rate in rates
    )


def refuse_fewer_rounds(folder: Path, recorded: Config, config: Config) -> None:
    """Refuse a number of rounds below that which may have been trained already.

    Raises:
        ConfigError: with the least number.
    """
    if config.rounds >= recorded.rounds:
        return
    trained = _saved_round(folder)
    if (folder / MEMORY).exists():  # which can be ahead of the log
        lines = read_lines(folder / METRICS)
        logged = int(lines[-1].get("round", 0)) if lines else 0
        trained = max(trained, logged + max(2, rounds_ahead(recorded)))
    trained = min(trained, recorded.rounds)
    if config.rounds < trained:
        raise ConfigError(
            f"rounds is {config.rounds}, but {folder} has trained {trained} already: give "
            f"at least rounds={trained}."
        )


def _saved_round(folder: Path) -> int:
    checkpoints = checkpoints_in(folder / CHECKPOINTS)
    return number_of(checkpoints[0]) if checkpoints else 0


def record_change(
    folder: Path,
    recorded: Config,
    config: Config,
    specs: Sequence[AgentSpec],
    boundary: int,
    planned: int | None = None,
) -> Change | None:
    """Write changed settings into the folder of a run, and return the change, if any.

    Args:
        folder: of the run, which this process has claimed.
        recorded: the configuration in the folder.
        config: the new configuration.
        specs: of the game's agents.
        boundary: the last round that was trained with the old settings.
        planned: how many changes in the plan of its sweep the configuration contains.
    """
    settings = differences(recorded, config, [spec.id for spec in specs])
    if not settings:
        if planned is not None:
            write_planned(folder, planned)
        return None
    why = ""
    if boundary and _changes_rate(recorded, config, specs):
        why = f"the schedule of the learning rate was changed after round {boundary}"
    change = Change(time=time.time(), round=boundary, settings=settings, inexact=why)
    write_change(folder, config, change, planned)
    return change


def _changes_rate(old: Config, new: Config, specs: Sequence[AgentSpec]) -> bool:
    """Whether a change affects the learning rate of an agent."""
    pairs = zip(build_agents(old, specs), build_agents(new, specs), strict=True)
    return any(
        after.learns
        and after.settings.rate.schedule != "constant"
        and before.settings.rate.updates != after.settings.rate.updates
        for before, after in pairs
    )


def describe_change(change: Change) -> str:
    """Return changed settings in one line, and what becomes of a falling learning rate."""
    changed = change.settings
    names = sorted(changed, key=lambda name: (name != "rounds", name))
    values = [f"{key} {' → '.join(map(_text, changed[key]))}" for key in names]
    line = f"changed: {', '.join(values)}."
    if "rounds" in changed and changed.get("rate.rounds") == (None, changed["rounds"][0]):
        old, new = changed["rounds"]
        line += (
            f" The learning rate falls over the first {old} rounds, as before; to let it "
            f"fall over all, resume with rate.rounds={new}."
        )
    return line


def _text(value: Any) -> str:
    return "unset" if value is None else shown(value)
