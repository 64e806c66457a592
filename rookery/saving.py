"""What a checkpoint holds, and how a run goes on from one.

Everything: states with targets, moments, counts and priorities; the game and the actor's
own counts; the rows that learners still need. What is random needs no place: numbers are
keyed, and none is counted.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rookery.borders import rounds_ahead
from rookery.checkpoints import CheckpointError
from rookery.company import Member
from rookery.memory.arena import COMMIT, MATCHES, first_row
from rookery.specs import Array
from rookery.training import Training

ACTOR_FILE = "actor"


def files_of(training: Training, border: int) -> dict[str, dict[str, Array]]:
    """Return the files of a checkpoint, by name."""
    files = {ACTOR_FILE: training.snapshot(border)}
    for member in training.members:
        number = member.plan.number
        if member.algorithm is not None:
            files[f"agent-{number}"] = training.named_state(member, border)
        if training.config.checkpoints.replay:
            files[f"replay-{number}"] = _rows_of(training, member, border)
    return files


def about(training: Training, files: Mapping[str, Mapping[str, Array]]) -> dict[str, Any]:
    """Return what a manifest says beside the files."""
    hashes = files[ACTOR_FILE]["life/hashes"]
    return {
        "rows": {
            member.id: hashes[i].tobytes().hex()
            for i, member in enumerate(training.members)
        },
        "schedule": training.config.schedule,
        "matches": training.matches,
        **machine(),
    }


def machine() -> dict[str, str]:
    """Return what bits may depend on besides settings and seed."""
    return {"torch": torch.__version__, "processor": _processor(), "numpy": np.__version__}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(
                x.split(":")[1].strip() for x in lines if x.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.machine()


def _rows_of(training: Training, member: Member, border: int) -> dict[str, Array]:
    """Return the rows that playing and learning still need after a border."""
    rows, config = training.arena.rows(member.id), training.config
    last = border * config.turns_per_round
    kept = rows.slots - rounds_ahead(config) * config.turns_per_round - 1
    first = max(training.arena.words.load(first_row(member.id)), last - kept)
    return {"first": np.array([first]), "rows": rows.raw(range(first, last)).copy()}


def restore(
    training: Training,
    files: Mapping[str, Mapping[str, Array]],
    manifest: Mapping[str, Any],
) -> None:
    """Put a run where a checkpoint was taken.

    Raises:
        CheckpointError: if it is of another kind of run.
    """
    border = int(manifest["round"])
    check_fit(training, files)
    for member in training.members:
        name = f"replay-{member.plan.number}"
        first = border * training.config.turns_per_round
        if name in files:
            first = _put_rows(training, member, files[name])
        training.arena.words.store(first_row(member.id), first)
        if member.algorithm is not None:
            state = training.unnamed_state(member, files[f"agent-{member.plan.number}"])
            version = border if member.learns else 0
            training.arena.states(member.id).publish(version, state)
    snapshot = files[ACTOR_FILE]
    training.arena.snapshots().publish(border, snapshot)
    training.arena.words.store(COMMIT, int(snapshot["life/turn"][0]))
    training.go_on_from(border, int(manifest["matches"]))


def _put_rows(training: Training, member: Member, file: Mapping[str, Array]) -> int:
    """Put an agent's rows where they were; return the turn of the first."""
    first, data = int(file["first"][0]), file["rows"]
    training.arena.rows(member.id).raw(range(first, first + len(data)), data)
    return first


def check_fit(training: Training, files: Mapping[str, Mapping[str, Array]]) -> None:
    """Refuse a checkpoint whose arrays are not those of this run.

    Raises:
        CheckpointError: naming the first that differs.
    """
    wanted = {ACTOR_FILE: _shapes(training.arena.snapshots().read_slot(0))}
    for member in training.members:
        if member.algorithm is not None:
            slot = training.arena.states(member.id).read_slot(0)
            named = training.named(member, slot)
            wanted[f"agent-{member.plan.number}"] = _shapes(named)
    for name, shapes in wanted.items():
        if name not in files or _shapes(files[name]) != shapes:
            raise CheckpointError(
                f"the checkpoint's '{name}' does not fit this run: its settings have "
                "changed since; put config.toml back as it was."
            )


def _shapes(arrays: Mapping[str, Array]) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (array.shape, array.dtype.str) for name, array in arrays.items()}


def go_on_from_memory(training: Training, recorded: int) -> None:
    """Go on with what lies in the files of a run that was killed.

    The last rounds may be complete without having been written down: their reports are
    still there.
    """
    learning = [member for member in training.members if member.learns]
    begun = all(training.arena.states(member.id).version >= 0 for member in learning)
    if begun:
        # The last one may not have been written down; main knows those that were.
        matches = max(0, training.arena.words.load(MATCHES) - 1)
        training.go_on_from(recorded, matches)


def differences(manifest: Mapping[str, Any]) -> list[str]:
    """Return a line for everything that was different when a checkpoint was written."""
    return [
        f"the checkpoint was written with {name} {manifest.get(name)}, and this is "
        f"{now}: the run goes on, but its bits may differ from an unbroken one's."
        for name, now in machine().items()
        if manifest.get(name) != now
    ]
