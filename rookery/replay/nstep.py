"""Steps: what one agent saw, did and got, put together from rows.

A step opens in a row in which the agent is active and closes at its n-th next active row,
or at its closing row (the one after its episode ended). Rewards in between belong to it.
Everything here is a pure function of rows, so a learner that starts anew computes the
same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.specs import Array


@dataclass(frozen=True)
class Stretch:
    """Some turns of all worlds; every array is (turns, worlds)."""

    active: Array
    rewards: Array
    terminated: Array
    truncated: Array


@dataclass(frozen=True)
class Transitions:
    """The steps that open in a stretch; every array is (turns, worlds)."""

    closes: Array
    """The row it closes at, counted from the stretch's first; beyond it: not closed."""
    returns: Array
    """The discounted sum of rewards up to there."""
    discounts: Array
    """What the value of the row it closes at counts for; 0 after `terminated`."""


def n_step_transitions(
    stretch: Stretch, n_step: int, discount: float, per_step: bool
) -> Transitions:
    """Put together the steps of a stretch.

    Args:
        stretch: the rows.
        n_step: after how many active rows a step closes.
        discount: per turn, or per step of the agent's own.
        per_step: whether the discount counts the agent's own steps.
    """
    turns = len(stretch.active)
    here = np.arange(turns)[:, None] + np.zeros_like(stretch.active, np.int64)
    ended = stretch.terminated | stretch.truncated
    last = _next(ended, here)
    closing = last + 1  # the row after the one that ended it
    reached = here
    follower = _shifted(_next(stretch.active, here), turns)
    for _ in range(n_step):
        reached = _at(follower, reached, turns)
    closes = np.minimum(reached, closing)
    clock = np.cumsum(stretch.active, axis=0) if per_step else here
    returns, elapsed = _sums(stretch.rewards, here, closes, clock, discount)
    if per_step:  # at its closing row the agent is not active, yet its step is over
        elapsed = elapsed + ~_at(stretch.active, closes, True)
    over = (closes == closing) & _at(stretch.terminated, last, False)
    discounts = np.where(over, 0.0, discount**elapsed)
    closes = np.where(stretch.active & (closes < turns), closes, turns)
    return Transitions(closes, returns.astype(np.float32), discounts.astype(np.float32))


def _next(flags: Array, here: Array) -> Array:
    """Return for each row the first row at or after it with a flag; else past the end."""
    found = np.where(flags, here, len(flags))
    return np.minimum.accumulate(found[::-1], axis=0)[::-1]


def _shifted(rows: Array, fill: int) -> Array:
    """Return each row's next row's entry."""
    return np.concatenate([rows[1:], np.full_like(rows[:1], fill)])


def _at(values: Array, rows: Array, fill: int | bool) -> Array:
    """Return `values` at some rows, and `fill` past the end."""
    padded = np.concatenate([values, np.full_like(values[:1], fill)])
    return np.take_along_axis(padded, np.minimum(rows, len(values)), axis=0)


def _sums(
    rewards: Array, here: Array, closes: Array, clock: Array, discount: float
) -> tuple[Array, Array]:
    """Return discounted sums of rewards up to where steps close, and clock ticks there.

    The clock's reading at row t' less that at t is the power of the discount.
    """
    turns = len(rewards)
    sums = np.zeros(rewards.shape)
    longest = int((np.minimum(closes, turns) - here).max(initial=0))
    for ahead in range(longest):
        rows = here + ahead
        within = (rows < closes) & (rows < turns)
        elapsed = np.maximum(_at(clock, rows, 0) - clock, 0)
        sums += np.where(within, discount**elapsed * _at(rewards, rows, 0), 0)
    return sums, np.maximum(_at(clock, closes, 0) - clock, 0)
