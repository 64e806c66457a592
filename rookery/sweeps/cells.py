"""How far a cell is, according to its folder; and which cells have failed."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.config.toml import read_toml
from rookery.errors import ArrayFileError, ConfigError
from rookery.runs.changes import read_history
from rookery.runs.claim import is_held
from rookery.runs.folder import CHECKPOINTS, CONFIG
from rookery.runs.log import EVALUATIONS, METRICS, read_lines, totals_of
from rookery.runs.seal import DECIDES_BITS
from rookery.storage.access import is_file
from rookery.storage.checkpoints import checkpoints_in, number_of, read_manifest
from rookery.storage.files import replace_whole
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.pruned import is_pruned

FAILURES, ATTEMPTS = "failures", "attempts"
"""Folders with a file for each cell that has failed, or is being trained."""
DONE, FAILED, RUNNING, STOPPED, WAITING = "done", "failed", "running", "stopped", "waiting"
PRUNED = "pruned"
STATES = (DONE, PRUNED, RUNNING, FAILED, STOPPED, WAITING)
"""`stopped` cells have begun and are not running; `waiting` ones have not begun. Those of a
trial that a search has ended early are `pruned`, also if they have not begun."""


def state_of(plan: Plan, cell: Cell) -> str:
    """Return how far a cell is: one of STATES."""
    if is_done(cell):
        return DONE
    if file_of(plan, FAILURES, cell).exists():
        return FAILED
    if plan.search is not None and is_pruned(plan.folder, cell.group.folder):
        return PRUNED
    if not cell.folder.exists():
        return WAITING
    if is_held(cell.folder):
        return RUNNING
    return STOPPED if has_begun(cell) else WAITING


def has_begun(cell: Cell) -> bool:
    """Whether a cell has begun, so that it can be continued."""
    return is_file(cell.folder / CONFIG)


def is_done(cell: Cell) -> bool:
    """Whether all rounds of a cell are trained and saved, with all changes of the plan.

    A cell whose files are damaged is not done: whoever takes it finds out what is wrong.
    Nor is one that was killed between its last checkpoint and its last evaluation.
    """
    saved = saved_round(cell)
    if not saved or not has_begun(cell):
        return False
    try:
        if missing_changes(cell) or read_history(cell.folder).is_pending(cell.folder):
            return False
        rounds = rounds_of(cell)
        if saved < rounds:
            return False
        evaluate = read_toml(cell.folder / CONFIG).get("evaluate", {})
        return has_last_evaluation(cell.folder, rounds, evaluate.get("every_rounds", 0))
    except ConfigError:
        return False


def has_last_evaluation(folder: Path, rounds: int, every_rounds: int) -> bool:
    """Whether the evaluation at the end of a run is logged, if there is to be one.

    It is played after the last round, and a run that continues there plays it again.
    """
    if not every_rounds or rounds % every_rounds:
        return True
    return any(line.get("round") == rounds for line in read_lines(folder / EVALUATIONS))


def missing_changes(cell: Cell) -> Sequence[Mapping[str, Any]]:
    """Return the changes in the plan that a cell that has begun does not have yet."""
    if not cell.changes:
        return ()
    return cell.changes[read_history(cell.folder).planned :]


def rounds_of(cell: Cell) -> int:
    """Return how many rounds a cell has in all, with all changes of the plan.

    That can be more than the plan says: each run can be trained longer on its own, too.
    """
    rounds = [cell.group.tree["rounds"]]
    if has_begun(cell):
        with suppress(ConfigError):  # damaged, as its own session will say
            rounds.append(read_toml(cell.folder / CONFIG).get("rounds"))
            rounds += [x["rounds"] for x in missing_changes(cell) if "rounds" in x]
    return int(next(x for x in reversed(rounds) if type(x) is int))


def saved_round(cell: Cell) -> int:
    """Return the round of a cell's newest checkpoint, 0 if it has none."""
    checkpoints = checkpoints_in(cell.folder / CHECKPOINTS)
    return number_of(checkpoints[0]) if checkpoints else 0


def summary_of(cell: Cell) -> dict[str, Any]:
    """Return what `rookery train --json` prints of a run, as its files tell."""
    lines = read_lines(cell.folder / METRICS)
    totals, rounds = totals_of(lines), saved_round(cell)
    return {
        "run": str(cell.folder),
        "rounds": rounds,
        "turns": rounds * int(cell.group.tree["turns_per_round"]),
        "updates": totals.updates,
        "seconds": totals.seconds,
        "agents": lines[-1]["agents"] if lines else {},
    }


def record_failure(plan: Plan, cell: Cell, line: str) -> None:
    """Write down that a cell has failed, so that nobody takes it again."""
    file = file_of(plan, FAILURES, cell)
    file.parent.mkdir(exist_ok=True)
    content = {
        "cell": cell.name,
        "line": line,
        "time": time.time(),
        "host": socket.gethostname(),
    }
    replace_whole(file, json.dumps(content, indent=2).encode())


def failures(plan: Plan) -> dict[str, str]:
    """Return the cells that have failed, with one line for each."""
    lines: dict[str, str] = {}
    for cell in plan.cells:
        with suppress(OSError, ValueError, KeyError):
            content: dict[str, Any] = json.loads(file_of(plan, FAILURES, cell).read_text())
            lines[cell.name] = str(content["line"])
    return lines


def unlike(plan: Plan) -> dict[str, str]:
    """Return the cells that are done and may differ from others, with why for each."""
    lines: dict[str, str] = {}
    for cell in filter(is_done, plan.cells):
        try:
            manifest = read_manifest(checkpoints_in(cell.folder / CHECKPOINTS)[0])
        except ArrayFileError as error:
            lines[cell.name] = str(error)
            continue
        planned = cell.group.seal.get("begun", {})
        changes = [
            f"{key} {manifest.get(key)} (planned with {planned[key]})"
            for key in DECIDES_BITS
            if key in planned and manifest.get(key) != planned[key]
        ]
        if manifest.get("inexact"):
            lines[cell.name] = str(manifest["inexact"])
        elif changes:
            lines[cell.name] = f"it was computed with {' and '.join(changes)}."
    return lines


def forget_failures(plan: Plan) -> None:
    """Let failed cells be tried again, as often as if they had never been tried."""
    for name in (FAILURES, ATTEMPTS):
        shutil.rmtree(plan.folder / name, ignore_errors=True)


def file_of(plan: Plan, folder: str, cell: Cell) -> Path:
    """Return the file about a cell in a folder of the sweep."""
    return file_about(plan.folder, folder, cell.name)


def file_about(sweep: Path, folder: str, cell: str) -> Path:
    """Return the file about a cell, by its name, in a folder of a sweep."""
    return sweep / folder / f"{re.sub(os.sep, ',', cell)}.json"
