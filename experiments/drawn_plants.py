"""Bugs to plant: each breaks one promise, and `drawn.py --plant` must find it.

A plant replaces one name of the program, in this process and in those that it forks.
Plants that make stacked agents differ also call `blind_stacking`, since the program would
otherwise notice and compute the agents one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np
import torch

from rookery.actor.boundary import Boundary
from rookery.actor.evaluations import Evaluations
from rookery.actor.policies import PolicyRunner
from rookery.actor.state import ActorState, BoundaryState
from rookery.algorithms.common import group as groups
from rookery.algorithms.nets import gru
from rookery.algorithms.value_based import ValueBasedLearner
from rookery.learner import exactness
from rookery.protocol.arena import COMMIT
from rookery.protocol.schedule import RoundSchedule
from rookery.runs import checkpointing, seal, session
from rookery.runs.log import RunLog
from rookery.specs import Array
from rookery.training import training

PLANTS: dict[str, Callable[[], None]] = {}


def plant(function: Callable[[], None]) -> Callable[[], None]:
    """Register a bug under the name of its function."""
    PLANTS[function.__name__.replace("_", " ")] = function
    return function


def blind_stacking() -> None:
    """Make the comparison of stacked agents with single ones find no difference."""
    exactness.is_exact = lambda *_: True


@plant
def a_bias_summed_in_another_order() -> None:
    """The gradient of a GRU's bias is summed in the order of memory."""

    def by_agent(rows: torch.Tensor) -> torch.Tensor:
        count, agents, sequences, n = rows.shape
        return rows.transpose(0, 1).reshape(agents, count * sequences, n)

    gru._by_agent = by_agent
    blind_stacking()


@plant
def a_seal_that_is_not_checked() -> None:
    """A run with an edited config.toml can be resumed."""
    seal.refuse_changes = lambda *_: None


@plant
def one_stream_for_a_group() -> None:
    """Batches are drawn by an agent's index in its group instead of its number."""
    original = ValueBasedLearner.__init__

    @wraps(original)
    def init(self: ValueBasedLearner, agents: Any, *rest: Any) -> None:
        original(self, agents, *rest)
        self.agent_numbers = np.arange(len(agents))

    ValueBasedLearner.__init__ = init  # type: ignore[method-assign]
    blind_stacking()


@plant
def one_clip_for_a_group() -> None:
    """Gradients are clipped by the norm of all agents together."""
    original = groups.clip_factors

    def factors(norms: Array, limits: Array) -> Array:
        return original(np.full_like(norms, np.sqrt(np.square(norms).sum())), limits)

    groups.clip_factors = factors
    blind_stacking()


@plant
def a_stale_snapshot() -> None:
    """A snapshot has the transition counts of the previous boundary."""
    original, last = BoundaryState.arrays, {}

    def stale(self: BoundaryState) -> dict[str, Any]:
        arrays = original(self)
        steps, last["steps"] = last.get("steps"), arrays["life/steps"].copy()
        return arrays if steps is None else arrays | {"life/steps": steps}

    BoundaryState.arrays = stale  # type: ignore[method-assign]


@plant
def a_hidden_state_that_is_not_restored() -> None:
    """Recurrent agents start from zero after a resume."""
    original = ActorState.restore

    def restore(self: ActorState, turn: int, arrays: Mapping[str, Any]) -> None:
        original(self, turn, arrays)
        for hidden in self.hidden.values():
            hidden[...] = 0

    ActorState.restore = restore  # type: ignore[method-assign]


@plant
def a_row_hash_left_out() -> None:
    """The rows of every third round are missing from the row hash."""
    original = Boundary._hashes

    def hashes(self: Boundary, number: int, before: Any) -> Any:
        return original(self, number, before) if number % 3 else before

    Boundary._hashes = hashes  # type: ignore[method-assign]


@plant
def an_unseeded_random_number() -> None:
    """Agents explore with unseeded random numbers."""

    def draws(self: PolicyRunner, agents: tuple[int, ...], turn: int) -> Any:
        return np.random.default_rng().random((len(agents), len(self._worlds), 2))

    PolicyRunner._draws = draws  # type: ignore[method-assign]
    blind_stacking()


@plant
def learning_from_all_committed_rows() -> None:
    """A learner reads all committed rows instead of those up to its boundary."""
    original = RoundSchedule.await_learning

    def await_learning(self: RoundSchedule, number: int, *arguments: Any) -> int:
        boundary = original(self, number, *arguments)
        return max(boundary, self._counters.load(COMMIT) // self._turns * self._turns)

    RoundSchedule.await_learning = await_learning  # type: ignore[method-assign]


@plant
def priorities_forgotten_by_a_checkpoint() -> None:
    """Priorities are lost in a resume."""
    original = training.Training.unnamed_state

    def unnamed(self: Any, agent: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        state = original(self, agent, named)
        if "priorities" in state:
            state["priorities"] = (np.asarray(state["priorities"]) > 0).astype(np.float64)
        return state

    training.Training.unnamed_state = unnamed  # type: ignore[method-assign]


@plant
def an_update_count_that_restarts() -> None:
    """Schedules of learning rate and target start again in a restarted process."""
    original = groups.Group.load

    def load(self: groups.Group, states: Any) -> None:
        original(self, states)
        self.counters[:, groups.UPDATES] = 0

    groups.Group.load = load  # type: ignore[method-assign]


@plant
def a_log_that_is_not_cut() -> None:
    """Log lines after the checkpoint are kept when a run is resumed."""
    RunLog.cut = lambda self, boundary: None  # type: ignore[method-assign]


@plant
def evaluations_with_other_weights() -> None:
    """Evaluations are played with wrong weights."""
    original = Evaluations._seats

    def seats(self: Evaluations, weights: Any, steps: Any, greedy: bool) -> Any:
        arrays = {i: np.roll(array, 1) for i, array in weights.arrays.items()}
        return original(self, type(weights)(arrays, weights.versions), steps, greedy)

    Evaluations._seats = seats  # type: ignore[method-assign]


@plant
def rows_that_a_checkpoint_leaves_out() -> None:
    """A resumed run lacks the rows before the checkpoint and does not say so."""
    original = checkpointing.checkpoint_files

    def files_of(run: Any, recorded: int) -> Any:
        boundary, files = original(run, recorded)
        return boundary, {k: v for k, v in files.items() if not k.startswith("replay-")}

    checkpointing.checkpoint_files = files_of
    session.lacks_replays = lambda *_: False
