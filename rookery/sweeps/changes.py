"""Changing settings of a sweep that has begun, for all of its cells.

What was asked for is in the plan before it is in any cell, and cells that have begun are
given it when they are trained next. So all get it, whenever a process is killed, and also
those that another process trains right now. Cells that have not begun start with it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rookery.config.parse import merge
from rookery.config.resolve import resolve
from rookery.config.toml import to_toml
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.evaluation.probes import probe_of
from rookery.games.registry import Entry
from rookery.runs.changes import Change, Differences
from rookery.runs.resume import (
    changed_config,
    differences,
    probes_in,
    refuse_fewer_rounds,
    resumed_config,
)
from rookery.runs.run import Run
from rookery.runs.seal import sealed_settings
from rookery.sweeps.cells import has_begun, missing_changes
from rookery.sweeps.plan import Cell, Group, Plan, write_plan


def change_plan(plan: Plan, asked: Mapping[str, Any]) -> Change | None:
    """Write changed settings into a plan, and return the change in the first cell.

    Args:
        plan: of the sweep, whose folder this process has claimed.
        asked: the settings to change, as a tree.

    Returns:
        None if all cells have these settings already; then nothing is written.

    Raises:
        ConfigError: if a cell cannot have these settings; then none gets them.
    """
    if plan.search is not None:
        raise ConfigError(
            f"{plan.folder} is a search, whose trials are compared as they were planned: "
            "change the settings of one of its runs, or plan another sweep."
        )
    changed = [_check(plan, cell, asked) for cell in plan.cells if has_begun(cell)]
    groups = []
    for cell in plan.cells[: len(plan.groups)]:  # one of each group
        group = changed_group(cell.group, cell.folder, cell.entry, asked)
        before, after = (resolve(x.tree, cell.entry.settings) for x in (cell.group, group))
        probe_of(after)
        ids = [spec.id for spec in agents_of(cell.entry, before)]
        changed.append(differences(before, after, ids))
        groups.append(group)
    first = next(filter(None, changed), None)
    if first is None:
        return None
    write_plan(plan.folder, plan.seeds, groups, [*plan.changes, asked])
    return Change(time=time.time(), round=0, settings=first)


def _check(plan: Plan, cell: Cell, asked: Mapping[str, Any]) -> Differences:
    """Return what a change means for a cell that has begun, if it can be made."""
    run = Run(cell.folder, cell.entry.name, list(plan.named.algorithms))
    for change in reversed(missing_changes(cell)):
        asked = merge(change, asked)
    config = resumed_config(run, settings=asked, probes=plan.named.probes)
    refuse_fewer_rounds(cell.folder, run.config, config)
    ids = [spec.id for spec in agents_of(run.entry, run.config)]
    return differences(run.config, config, ids)


def changed_group(
    group: Group, folder: Path, entry: Entry, asked: Mapping[str, Any]
) -> Group:
    """Return a group with changed settings.

    Args:
        group: as it was; a probe in it is known to be trusted.
        folder: of one of its cells, to be named in errors.
        entry: the game.
        asked: the settings to change, as a tree.

    Raises:
        ConfigError: if a setting cannot be changed.
    """
    config = changed_config(folder, entry, group.tree, asked, probes_in(group.tree))
    seal = group.seal
    if seal:
        ids = [spec.id for spec in agents_of(entry, config)]
        seal = {**seal, "settings": sealed_settings(config, ids)}
    return replace(group, config=to_toml(config), seal=seal)
