"""Bugs to plant: each breaks one promise, and drawn cases must find it.

A plant changes the program in this process and in those that it forks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np
import torch

from rookery.actor import actor
from rookery.actor.evaluations import Evaluations
from rookery.actor.policies import PolicyRunner
from rookery.actor.state import ActorState
from rookery.algorithms.common import group as groups
from rookery.algorithms.nets import gru
from rookery.algorithms.value_based import ValueBasedLearner
from rookery.learner import exactness as stacking
from rookery.protocol.arena import COMMIT
from rookery.protocol.schedule import RoundSchedule
from rookery.runs import checkpointing as keeping
from rookery.runs import seal as resuming
from rookery.runs import session as running
from rookery.runs.log import RunLog
from rookery.training import training

PLANTS: dict[str, Callable[[], None]] = {}


def plant(function: Callable[[], None]) -> Callable[[], None]:
    """Put a bug on the list, under its name in words."""
    PLANTS[function.__name__.replace("_", " ")] = function
    return function


def _blind(*_: Any) -> bool:
    """Find everything in order, as a comparison with too few shapes does."""
    return True


@plant
def a_bias_summed_in_another_order() -> None:
    """The gradient of a GRU's bias is summed as memory happens to lie."""

    def by_agent(rows: torch.Tensor) -> torch.Tensor:
        count, agents, sequences, n = rows.shape
        return rows.transpose(0, 1).reshape(agents, count * sequences, n)

    gru._by_agent = by_agent
    stacking.is_exact = _blind


@plant
def a_seal_that_is_not_looked_at() -> None:
    """An edited config.toml is taken for the same run."""
    resuming.refuse_changes = lambda *_: None


@plant
def one_stream_for_a_group() -> None:
    """Batches are drawn by an agent's place in its group, and not by its number."""
    before = ValueBasedLearner.__init__

    @wraps(before)
    def init(self: ValueBasedLearner, agents: Any, *rest: Any) -> None:
        before(self, agents, *rest)
        self.agent_numbers = np.arange(len(agents))

    ValueBasedLearner.__init__ = init  # type: ignore[method-assign]
    stacking.is_exact = _blind


@plant
def one_clip_for_a_group() -> None:
    """Gradients are clipped by the norm of all agents together."""
    before = groups.clip_factors

    def factors(norms: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
        return before(norms.square().sum().sqrt().expand_as(norms), limits)

    groups.clip_factors = factors
    stacking.is_exact = _blind


@plant
def a_stale_snapshot() -> None:
    """The actor's snapshot has the counts of steps of the boundary before."""
    before, kept = actor.snapshot_of, {}

    def snapshot(game: Any, life: Any, players: Any) -> Mapping[str, Any]:
        found = dict(before(game, life, players))
        kept["last"], old = found["life/steps"].copy(), kept.get("last")
        return found if old is None else found | {"life/steps": old}

    actor.snapshot_of = snapshot  # type: ignore[assignment]


@plant
def a_hidden_state_that_is_not_restored() -> None:
    """Recurrent agents start from zero after a resume."""
    before = ActorState.restore

    def restore(self: ActorState, arrays: Mapping[str, Any]) -> None:
        before(self, arrays)
        for hidden in self.hidden.values():
            hidden[...] = 0

    ActorState.restore = restore  # type: ignore[method-assign]


@plant
def a_row_hash_left_out() -> None:
    """The rows of every third round do not go into the row hash."""
    before = actor.Actor._hash_rows

    def hash_rows(self: actor.Actor) -> None:
        if (self.state.turn // self._turns) % 3:
            before(self)

    actor.Actor._hash_rows = hash_rows  # type: ignore[method-assign]


@plant
def a_number_from_nowhere() -> None:
    """Agents explore with numbers that are not keyed."""

    def draws(self: PolicyRunner, agents: tuple[int, ...], turn: int) -> Any:
        return np.random.default_rng().random((len(agents), len(self._worlds), 2))

    PolicyRunner._draws = draws  # type: ignore[method-assign]
    stacking.is_exact = _blind


@plant
def learning_from_what_is_there() -> None:
    """A learner takes all rows that are committed, not those up to its boundary."""
    before = RoundSchedule.await_learning

    def await_learning(self: RoundSchedule, number: int, on_policy: bool) -> int:
        boundary = before(self, number, on_policy)
        return max(boundary, self._counters.load(COMMIT) // self._turns * self._turns)

    RoundSchedule.await_learning = await_learning  # type: ignore[method-assign]


@plant
def priorities_forgotten_by_a_checkpoint() -> None:
    """Priorities start anew after a resume."""
    before = training.Training.unnamed_state

    def unnamed(self: Any, agent: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        found = before(self, agent, named)
        if "priorities" in found:
            found["priorities"] = (np.asarray(found["priorities"]) > 0).astype(np.float64)
        return found

    training.Training.unnamed_state = unnamed  # type: ignore[method-assign]


@plant
def a_count_of_updates_that_starts_anew() -> None:
    """The learning rate and the target begin again in a process that is started anew."""
    before = groups.Group.load

    def load(self: groups.Group, states: Any) -> None:
        before(self, states)
        self.counters[:, groups.UPDATES] = 0

    groups.Group.load = load  # type: ignore[method-assign]


@plant
def a_log_that_is_not_cut() -> None:
    """What came after the checkpoint stays in the files when a run is resumed."""
    RunLog.cut = lambda self, boundary: None  # type: ignore[method-assign]


@plant
def evaluations_with_other_weights() -> None:
    """Evaluations are played with the newest weights halved, as a stale copy would be."""
    before = Evaluations._seats

    def seats(self: Evaluations, weights: Any, steps: Any, greedy: bool) -> Any:
        arrays = {i: np.roll(array, 1) for i, array in weights.arrays.items()}
        return before(self, type(weights)(arrays, weights.versions), steps, greedy)

    Evaluations._seats = seats  # type: ignore[method-assign]


@plant
def rows_that_a_checkpoint_leaves_out() -> None:
    """Agents go on without the rows before the checkpoint, and nothing says so."""
    before = keeping.checkpoint_files

    def files_of(run: Any, recorded: int) -> Any:
        boundary, files = before(run, recorded)
        return boundary, {k: v for k, v in files.items() if not k.startswith("replay-")}

    keeping.checkpoint_files = files_of
    running.lacks_replays = lambda *_: False
