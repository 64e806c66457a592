"""N-step transitions, assembled from rows.

A transition opens in a row in which the agent is active. It closes at the agent's n-th next
active row, or at its closing row (the one after its episode ended). All rewards in between
belong to it. Everything here is a pure function of rows, so a restarted learner computes
the same transitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    """The discounted sum of rewards before that row."""
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
    turns = len(segment.active)
    row = np.arange(turns)[:, None] + np.zeros_like(segment.active, np.int64)
    end_row = _next_flagged(segment.terminated | segment.truncated, row)
    closing_row = end_row + 1
    next_active = _shifted(_next_flagged(segment.active, row), turns)
    nth_active = row
    for _ in range(n_step):
        nth_active = _at(next_active, nth_active, turns)
    closes = np.minimum(nth_active, closing_row)
    clock = np.cumsum(segment.active, axis=0) if per_step else row
    returns, elapsed = _discounted_sums(segment.rewards, row, closes, clock, discount)
    if per_step:  # the closing row is not active, but the agent's last step is over there
        elapsed = elapsed + ~_at(segment.active, closes, True)
    is_terminal = (closes == closing_row) & _at(segment.terminated, end_row, False)
    discounts = np.where(is_terminal, 0.0, discount**elapsed)
    closes = np.where(segment.active & (closes < turns), closes, turns)
    return Transitions(closes, returns.astype(np.float32), discounts.astype(np.float32))


def _next_flagged(flags: Array, row: Array) -> Array:
    """Return for each row the first flagged row from it on; past the end if none is."""
    flagged = np.where(flags, row, len(flags))
    return np.minimum.accumulate(flagged[::-1], axis=0)[::-1]


def _shifted(values: Array, fill: int) -> Array:
    """Return for each row the value of the row after it."""
    return np.concatenate([values[1:], np.full_like(values[:1], fill)])


def _at(values: Array, rows: Array, fill: int | bool) -> Array:
    """Return the values of some rows, and `fill` past the end."""
    padded = np.concatenate([values, np.full_like(values[:1], fill)])
    return np.take_along_axis(padded, np.minimum(rows, len(values)), axis=0)


def _discounted_sums(
    rewards: Array, row: Array, closes: Array, clock: Array, discount: float
) -> tuple[Array, Array]:
    """Return the discounted rewards of each row's transition, and the time it takes.

    Time is measured by the clock: a reward at row t' is discounted by clock[t'] - clock[t].
    """
    turns = len(rewards)
    sums = np.zeros(rewards.shape)
    longest = int((np.minimum(closes, turns) - row).max(initial=0))
    for offset in range(longest):
        later = row + offset
        within = (later < closes) & (later < turns)
        elapsed = np.maximum(_at(clock, later, 0) - clock, 0)
        sums += np.where(within, discount**elapsed * _at(rewards, later, 0), 0)
    return sums, np.maximum(_at(clock, closes, 0) - clock, 0)
