"""What a checkpoint holds, and how a run goes on from one.

Everything: states with targets, moments, counts and priorities; the game and the actor's
own counts; the rows that learners still need. What is random needs no place: numbers are
keyed, and none is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.algorithms.base import Agent
from rookery.errors import ArrayFileError
from rookery.protocol.arena import COMMIT, MATCHES, first_row
from rookery.protocol.schedule import rounds_ahead
from rookery.runs.arithmetic import is_of_another_version, machine
from rookery.specs import Array
from rookery.storage.arrays import shapes_of
from rookery.storage.checkpoints import Check
from rookery.training.training import Training

ACTOR_FILE = "actor"


def files_of(training: Training, recorded: int) -> tuple[int, dict[str, dict[str, Array]]]:
    """Return the boundary that a checkpoint is of, and its files by name."""
    boundary, snapshot = training.snapshot(recorded)
    files = {ACTOR_FILE: snapshot}
    for agent in training.agents:
        number = agent.number
        if not agent.is_scripted:
            files[f"agent-{number}"] = training.named_state(agent, boundary)
        if training.config.checkpoints.replay or not learns_off_policy(agent):
            files[f"replay-{number}"] = _rows_of(training, agent, boundary)
    return boundary, files


def learns_off_policy(agent: Agent) -> bool:
    """Whether an agent has a replay worth leaving out.

    All others keep a few rounds of rows, which they cannot go on without: frames to stack,
    and steps that are still open.
    """
    return agent.learns and not agent.on_policy


def about(training: Training, files: Mapping[str, Mapping[str, Array]]) -> dict[str, Any]:
    """Return what a manifest says beside the files."""
    hashes = files[ACTOR_FILE]["life/hashes"]
    return {
        "rows": {
            agent.id: hashes[i].tobytes().hex() for i, agent in enumerate(training.agents)
        },
        "schedule": training.config.schedule,
        "matches": training.matches,
        "first": {agent.id: _first(training, agent) for agent in training.agents},
        **machine(),
    }


def _rows_of(training: Training, agent: Agent, boundary: int) -> dict[str, Array]:
    turns = _turns_kept(training, agent, boundary, _first(training, agent))
    return {"rows": training.arena.rows(agent.id).raw(turns)}


def _first(training: Training, agent: Agent) -> int:
    return training.arena.counters.load(first_row(agent.id))


def _turns_kept(training: Training, agent: Agent, boundary: int, first: int) -> range:
    """Return the turns whose rows playing and learning still need after a boundary."""
    rows, config = training.arena.rows(agent.id), training.config
    last = boundary * config.turns_per_round
    kept = rows.slots - rounds_ahead(config) * config.turns_per_round - 1
    return range(max(first, last - kept), last)


def restore(
    training: Training,
    files: Mapping[str, Mapping[str, Array]],
    manifest: Mapping[str, Any],
) -> None:
    """Put a run where a checkpoint was taken that `fitting` has found to fit."""
    boundary = int(manifest["round"])
    turn = boundary * training.config.turns_per_round
    if files[ACTOR_FILE]["life/turn"][0] != turn:
        raise ArrayFileError(_misfit(f"'{ACTOR_FILE}'", manifest))
    for agent in training.agents:
        name = f"replay-{agent.number}"
        first = turn
        if name in files:
            first = manifest["first"][agent.id]
            turns = _turns_kept(training, agent, boundary, first)
            training.arena.rows(agent.id).raw(turns, files[name]["rows"])
        training.arena.counters.store(first_row(agent.id), first)
        if not agent.is_scripted:
            state = training.unnamed_state(agent, files[f"agent-{agent.number}"])
            version = boundary if agent.learns else 0
            training.arena.states(agent.id).publish(version, state)
    training.arena.snapshots().publish(boundary, files[ACTOR_FILE])
    training.arena.counters.store(COMMIT, turn)
    training.resume_from(boundary, int(manifest["matches"]))


def fitting(training: Training) -> Check:
    """Return what refuses a checkpoint that is not of this run, by its shapes alone."""

    def check(manifest: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
        boundary = manifest["round"]
        if not 0 <= boundary <= training.config.rounds:
            raise ArrayFileError(_misfit(f"round {boundary}", manifest))
        if not (_is_count(manifest.get("matches")) and _are_rows(training, manifest)):
            raise ArrayFileError(_misfit("manifest", manifest))
        wanted = _wanted(training, boundary, manifest["first"])
        needed = {name for name in wanted if not name.startswith("replay-")}
        for name in sorted(needed | set(shapes)):
            if shapes.get(name) != wanted.get(name):
                raise ArrayFileError(_misfit(f"'{name}'", manifest))

    return check


def _misfit(what: str, manifest: Mapping[str, Any]) -> str:
    unfit = f"the checkpoint's {what} does not fit this run"
    if is_of_another_version(manifest):  # which may have kept other rows
        return f"{unfit}: another version of Rookery wrote it; go on with that version."
    return f"{unfit}: its settings have changed since; put config.toml back as it was."


def _is_count(found: Any) -> bool:
    return type(found) is int and 0 <= found < 2**62


def _are_rows(training: Training, manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest has row hashes and first rows of exactly our agents."""
    rows, first = manifest.get("rows"), manifest.get("first")
    ids = [agent.id for agent in training.agents]
    if not (isinstance(rows, dict) and isinstance(first, dict)):
        return False
    texts = all(isinstance(one, str) for one in rows.values())
    turns = all(type(one) is int and abs(one) < 2**62 for one in first.values())
    return list(rows) == ids and list(first) == ids and texts and turns


def _wanted(training: Training, boundary: int, first: Mapping[str, int]) -> dict[str, Any]:
    """Return the shapes in every file that a checkpoint of a boundary may have."""
    wanted = {ACTOR_FILE: shapes_of(training.arena.snapshots().read_slot(0))}
    for agent in training.agents:
        number = agent.number
        turns = _turns_kept(training, agent, boundary, first[agent.id])
        if not agent.is_scripted:
            slot = training.arena.states(agent.id).read_slot(0)
            wanted[f"agent-{number}"] = shapes_of(training.named(agent, slot))
        row_bytes = training.arena.rows(agent.id).row_bytes
        wanted[f"replay-{number}"] = {"rows": ((len(turns), row_bytes), "|u1")}
    return wanted


def go_on_from_memory(training: Training, recorded: int) -> None:
    """Go on with what lies in the files of a run that was killed.

    The last rounds may be complete without having been written down: their reports are
    still there.
    """
    # The last ones may not have been written down; main knows those that were.
    kept = training.arena.match_reports().count - 1  # one may be half written
    training.resume_from(recorded, max(0, training.arena.counters.load(MATCHES) - kept))


def lacks_replays(training: Training, files: Mapping[str, Any]) -> bool:
    """Whether an agent goes on without rows that it would have used."""
    numbers = [agent.number for agent in training.agents]
    return any(f"replay-{number}" not in files for number in numbers)
