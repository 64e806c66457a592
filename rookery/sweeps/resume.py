"""Resuming a sweep, or several seeds of one run, maybe with changed settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rookery.config.messages import KeyPath
from rookery.config.parse import plain
from rookery.config.run import all_in_one
from rookery.runs.claim import Claim
from rookery.runs.resume import describe_change
from rookery.sweeps.cells import WAITING, state_of
from rookery.sweeps.changes import change_plan
from rookery.sweeps.older import convert
from rookery.sweeps.plan import Plan
from rookery.sweeps.trust import Named


def resumed_plan(
    folder: Path,
    named: Named,
    settings: Mapping[str, Any],
    say: Callable[[str], None],
) -> Plan:
    """Return the plan of a sweep that is resumed, with changed settings.

    Args:
        folder: of the sweep, or of seeds that an earlier version has trained.
        named: code that is not built in.
        settings: to change in all cells, as a tree.
        say: called with lines for the user.

    Raises:
        ConfigError: if a cell cannot have these settings; then none gets them.
    """
    convert(folder, named, say)
    problems: dict[KeyPath, str] = {}
    asked = plain(settings, (), problems)
    if problems:
        raise all_in_one(list(problems.values()))
    if asked:
        with closing(Claim(folder)):
            change = change_plan(Plan(folder, named, asked), asked)
        if change is not None:
            say(describe_change(change))
    plan = Plan(folder, named)
    waiting = [cell for cell in plan.cells if state_of(plan, cell) == WAITING]
    if waiting and plan.is_seeds:
        seeds = ", ".join(str(cell.seed) for cell in waiting)
        say(f"starting the remaining seeds: {seeds}")
    elif waiting:
        say(f"starting the remaining {len(waiting)} cells")
    return plan
