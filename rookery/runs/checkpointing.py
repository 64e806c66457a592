"""Checkpoints of a run: what they contain, when they are written, and how to restore one.

A checkpoint holds everything a run continues from: learner states with target networks,
optimizer moments, counters and priorities; the game and the actor's counters; and the rows
that playing and learning still need. Random numbers need no state, because they are keyed.

A full disk does not end a run: what cannot be written is tried again when it is next due,
and older checkpoints stay.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.algorithms.base import Agent
from rookery.errors import ArrayFileError
from rookery.printing import command
from rookery.protocol.arena import COMMIT, MATCHES, first_row
from rookery.protocol.schedule import rounds_ahead
from rookery.runs.claim import Claim
from rookery.runs.folder import CHECKPOINTS
from rookery.runs.log import SAVED, RunLog
from rookery.runs.seal import has_other_arithmetic, machine
from rookery.specs import Array
from rookery.storage.arrays import shapes_of, to_checked_bytes
from rookery.storage.checkpoints import Check, prune, save_checkpoint
from rookery.storage.files import Attempts, remedy, replace_whole
from rookery.training.training import MEMORY, Training

WEIGHTS = "weights"
ACTOR_FILE = "actor"

Files = dict[str, dict[str, Array]]
"""The arrays of a checkpoint, by file and name."""


class Checkpointer:
    """Writes the weights and checkpoints of a run."""

    def __init__(
        self,
        folder: Path,
        training: Training,
        log: RunLog,
        attempt: Attempts,
        claim: Claim,
    ) -> None:
        self._folder, self._training, self._claim = folder, training, claim
        self._log, self._attempt = log, attempt
        self._config = training.config.checkpoints
        self._tried_at = time.monotonic()
        self.longest = 0.0
        """The seconds that the slowest checkpoint took."""
        self.saved = 0
        """The round of the newest checkpoint."""
        self.seal = ""
        """The checksum of the run's seal; '' if it has none."""
        self.inexact = ""
        """Why the run is not exact; '' if it is."""

    def save_due(self, number: int) -> None:
        """Save what is due after a round: weights, a checkpoint, both or nothing.

        No round after the next starts before this is done, so what is read stays intact.
        """
        if _is_due(self._config.weights_every_rounds, number):
            self._try_weights(number)
        minutes = (time.monotonic() - self._tried_at) / 60
        by_time = 0 < self._config.every_minutes <= minutes
        if by_time or _is_due(self._config.every_rounds, number):
            self._try_checkpoint(number)

    def save_last(self, number: int) -> str:
        """Save the last complete round; return why it could not be saved, or ''."""
        saved = self._weights_file(number).exists() or self._try_weights(number)
        saved &= number <= self.saved or self._try_checkpoint(number)
        if saved:
            return ""
        reason = self._attempt.reason(CHECKPOINTS) or self._attempt.reason(WEIGHTS)
        state = "nothing is lost yet"
        if self.saved < number and not (self._folder / MEMORY).exists():
            state = f"the newest checkpoint is of round {self.saved}"
        return (
            f"round {number} could not be saved in {self._folder} ({reason}): {state}; "
            f"{remedy(reason)}, then: {command('resume', self._folder)}"
        )

    def _weights_file(self, number: int) -> Path:
        return self._folder / WEIGHTS / f"round-{number}.safetensors"

    def _try_weights(self, number: int) -> bool:
        return self._attempt(WEIGHTS, lambda: self._save_weights(number))

    def _save_weights(self, number: int) -> None:
        arrays = {
            f"{agent}/{name}": array
            for agent, named in self._training.named_weights(number).items()
            for name, array in named.items()
        }
        path = self._weights_file(number)
        path.parent.mkdir(exist_ok=True)
        replace_whole(path, to_checked_bytes(arrays, {}))

    def _try_checkpoint(self, number: int) -> bool:
        self._tried_at = time.monotonic()  # if it fails, too: not again every round
        is_saved = self._attempt(CHECKPOINTS, lambda: self._save_checkpoint(number))
        self.longest = max(self.longest, time.monotonic() - self._tried_at)
        return is_saved

    def _save_checkpoint(self, number: int) -> None:
        folder, began = self._folder / CHECKPOINTS, time.monotonic()
        boundary, files = checkpoint_files(self._training, number)
        metadata = checkpoint_metadata(self._training, files)
        metadata |= {"seal": self.seal, "inexact": self.inexact}
        path = save_checkpoint(folder, boundary, files, metadata, self._claim)
        self.saved = number
        self._log.event(SAVED, round=number, seconds=time.monotonic() - began)
        prune(folder, path, self._config.keep)


def _is_due(every: int, number: int) -> bool:
    return every > 0 and number % every == 0


def checkpoint_files(training: Training, recorded: int) -> tuple[int, Files]:
    """Return the boundary of a checkpoint that is taken now, and its files."""
    boundary, snapshot = training.snapshot(recorded)
    files = {ACTOR_FILE: snapshot}
    for agent in training.agents:
        number = agent.number
        if not agent.is_scripted:
            files[f"agent-{number}"] = training.named_state(agent, boundary)
        if training.config.checkpoints.replay or not _learns_off_policy(agent):
            turns = _turns_kept(training, agent, boundary, _first(training, agent))
            files[f"replay-{number}"] = {"rows": training.arena.rows(agent.id).raw(turns)}
    return boundary, files


def _learns_off_policy(agent: Agent) -> bool:
    """Whether an agent has a replay that a checkpoint can leave out.

    All others keep a few rounds of rows that they cannot continue without: frames to
    stack, and transitions that are still open.
    """
    return agent.learns and not agent.on_policy


def checkpoint_metadata(
    training: Training, files: Mapping[str, Mapping[str, Array]]
) -> dict[str, Any]:
    """Return what the manifest of a checkpoint records besides its files."""
    hashes = files[ACTOR_FILE]["life/hashes"]
    return {
        "rows": {
            agent.id: hashes[i].tobytes().hex() for i, agent in enumerate(training.agents)
        },
        "schedule": training.config.schedule,
        "first": {agent.id: _first(training, agent) for agent in training.agents},
        **machine(training.bits),
    }


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
    """Bring a run to the boundary of a checkpoint that `fit_check` has accepted."""
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
    training.resume_from(boundary, boundary)


def continue_from_memory(training: Training, recorded: int) -> None:
    """Continue from the memory files that a killed run left behind.

    The evaluations of the last rounds may be finished without having been logged; their
    reports are still in memory, and those that were logged are known.
    """
    kept = training.arena.match_reports().count - 1  # one may be half written
    training.resume_from(recorded, max(0, training.arena.counters.load(MATCHES) - kept))


def lacks_replays(training: Training, files: Mapping[str, Any]) -> bool:
    """Whether a checkpoint leaves out rows that an agent would have used."""
    return any(f"replay-{agent.number}" not in files for agent in training.agents)


def fit_check(training: Training) -> Check:
    """Return a function that refuses checkpoints of other runs, judging by shapes alone."""

    def check(manifest: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
        boundary = manifest["round"]
        if not 0 <= boundary <= training.config.rounds:
            raise ArrayFileError(_misfit(f"round {boundary}", manifest))
        if not _has_rows(training, manifest):
            raise ArrayFileError(_misfit("manifest", manifest))
        expected = _expected_shapes(training, boundary, manifest["first"])
        required = {name for name in expected if not name.startswith("replay-")}
        for name in sorted(required | set(shapes)):
            if shapes.get(name) != expected.get(name):
                raise ArrayFileError(_misfit(f"'{name}'", manifest))

    return check


def _misfit(part: str, manifest: Mapping[str, Any]) -> str:
    problem = f"the checkpoint's {part} does not fit this run"
    if has_other_arithmetic(manifest):  # which may have stored other rows
        return (
            f"{problem}: another version of Rookery wrote it; resume it with that version."
        )
    return f"{problem}: its settings have changed since; put config.toml back as it was."


def _has_rows(training: Training, manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest has row hashes and first rows of exactly the run's agents."""
    rows, first = manifest.get("rows"), manifest.get("first")
    ids = [agent.id for agent in training.agents]
    if not (isinstance(rows, dict) and isinstance(first, dict)):
        return False
    hashes = all(isinstance(value, str) for value in rows.values())
    turns = all(type(value) is int and abs(value) < 2**62 for value in first.values())
    return list(rows) == ids and list(first) == ids and hashes and turns


def _expected_shapes(
    training: Training, boundary: int, first: Mapping[str, int]
) -> dict[str, Any]:
    """Return the shapes in every file that a checkpoint of a boundary can have."""
    shapes = {ACTOR_FILE: shapes_of(training.arena.snapshots().read_slot(0))}
    for agent in training.agents:
        number = agent.number
        turns = _turns_kept(training, agent, boundary, first[agent.id])
        if not agent.is_scripted:
            slot = training.arena.states(agent.id).read_slot(0)
            shapes[f"agent-{number}"] = shapes_of(training.named(agent, slot))
        row_bytes = training.arena.rows(agent.id).row_bytes
        shapes[f"replay-{number}"] = {"rows": ((len(turns), row_bytes), "|u1")}
    return shapes
