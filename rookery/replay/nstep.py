"""N-step transitions, assembled from rows.

A transition opens in a row in which the agent is active. It closes at the agent's n-th next
active row, or at its closing row (the one after its episode ended). All rewards in between
belong to it. Everything here is a pure function of rows, so a restarted learner computes
the same transitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.kernels import kernel
from rookery.specs import Array


@dataclass(frozen=True)
class Segment:
    """The rows of some consecutive turns in all worlds; every array is (turns, worlds)."""

    active: Array
    rewards: Array
    terminated: Array
    truncated: Array


@dataclass(frozen=True)
class Transitions:
    """The transitions that open in the rows of a segment; arrays are (turns, worlds)."""

    closes: Array
    """The row it closes at, as an index into the segment; past its end: not closed yet."""
    returns: Array
    """The discounted sum of rewards before that row; 0 if it has not closed yet."""
    discounts: Array
    """The discount of the value bootstrapped from that row; 0 after `terminated`."""


def n_step_transitions(
    segment: Segment, n_step: int, discount: float, per_step: bool
) -> Transitions:
    """Assemble the transitions of a segment.

    Args:
        segment: the rows.
        n_step: after how many active rows a transition closes.
        discount: per turn, or per step of the agent.
        per_step: whether to discount by the agent's own steps (its active rows).
    """
    shape = segment.active.shape
    closes, returns, discounts = (
        np.empty(shape, np.int64),
        *np.zeros((2, *shape), np.float32),
    )
    _assemble(
        np.ascontiguousarray(segment.active),
        np.ascontiguousarray(segment.rewards, np.float64),
        np.ascontiguousarray(segment.terminated),
        np.ascontiguousarray(segment.truncated),
        n_step,
        discount ** np.arange(len(segment.active) + 1),
        per_step,
        closes,
        returns,
        discounts,
    )
    return Transitions(closes, returns, discounts)


@kernel
def _assemble(
    active: Array,
    rewards: Array,
    terminated: Array,
    truncated: Array,
    n_step: int,
    powers: Array,
    per_step: bool,
    closes: Array,
    returns: Array,
    discounts: Array,
) -> None:
    """Follow each row until its transition closes; `powers` are those of the discount."""
    turns, worlds = active.shape
    for opens in range(turns):
        for world in range(worlds):
            closes[opens, world] = turns
            if not active[opens, world]:
                continue
            total, own_steps = 0.0, 0
            for row in range(opens, turns - 1):
                elapsed = own_steps if per_step else row - opens
                total += powers[elapsed] * rewards[row, world]
                ends = terminated[row, world] or truncated[row, world]
                # The agent's last step is over in the closing row, though it is not active.
                if active[row + 1, world] or ends:
                    own_steps += 1
                if ends or own_steps == n_step:
                    elapsed = own_steps if per_step else row + 1 - opens
                    closes[opens, world] = row + 1
                    returns[opens, world] = total
                    if not terminated[row, world]:
                        discounts[opens, world] = powers[elapsed]
                    break
