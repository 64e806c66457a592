"""Paths: what followed a step, one row of the agent's own after the other.

Retrace compares a step with every row of its path, so all of them are read: up to so many
ends, or to the end of the episode or of what is known. Ends after that count nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.common.batches import Columns, Given, masks_of
from rookery.replay.buffer import Batch, ReplayReader
from rookery.specs import Array


@dataclass(frozen=True)
class Paths(Batch):
    """Steps with what followed; what is next or returned has (steps × ends) entries."""

    taken: Array
    """(steps × ends): the action that was taken there."""
    goes_on: Array
    """(steps × ends) bool: whether the path goes on from there."""

    def part(self, start: int, stop: int) -> Paths:
        """Return some of the steps, in place."""
        ends = len(self.taken) // len(self.actions)
        first, last = start * ends, stop * ends
        return Paths(
            {name: seen[start:stop] for name, seen in self.seen.items()},
            {name: seen[first:last] for name, seen in self.next_seen.items()},
            self.actions[start:stop],
            self.returns[first:last],
            self.discounts[first:last],
            None if self.legal is None else self.legal[start:stop],
            None if self.next_legal is None else self.next_legal[first:last],
            self.taken[first:last],
            self.goes_on[first:last],
        )


@dataclass
class PathColumns(Columns):
    """The paths of all agents, side by side; returns, … are (agents, batch × ends)."""

    taken: Tensor
    """(agents, batch, ends)."""
    goes_on: Tensor
    """(agents, batch, ends) bool."""


def paths_of(reader: ReplayReader, steps: Array, ends: int) -> Paths:
    """Return the paths that begin with some steps, from a reader of single steps."""
    shape = (len(steps), ends)
    turns, goes_on = np.zeros(shape, np.int64), np.zeros(shape, bool)
    returns, discounts = np.zeros((2, *shape), np.float32)
    gained, counts = np.zeros(len(steps), np.float32), np.ones(len(steps), np.float32)
    here = steps
    for end in range(ends):
        gains, discount = reader.outcomes(*reader.opening(here))
        gained, counts = gained + counts * gains, counts * discount
        turns[:, end], returns[:, end], discounts[:, end] = (
            reader.closes(here),
            gained,
            counts,
        )
        here, goes_on[:, end] = _followers(reader, here)
    goes_on[:, -1] = False
    opened, worlds = reader.opening(steps)
    rows = (turns.ravel(), np.repeat(worlds, ends))
    masked = "legal" in reader.rows.columns
    return Paths(
        reader.observations(opened, worlds),
        reader.observations(*rows),
        reader.at("action", opened, worlds),
        returns.ravel(),
        discounts.ravel(),
        reader.at("legal", opened, worlds) if masked else None,
        reader.at("legal", *rows) if masked else None,
        reader.at("action", *rows),
        goes_on.ravel(),
    )


def _followers(reader: ReplayReader, steps: Array) -> tuple[Array, Array]:
    """Return the steps that open where steps close; where there is none, the same."""
    after = reader.closes(steps) * reader.worlds + steps % reader.worlds
    places = np.minimum(np.searchsorted(reader.usable, after), len(reader.usable) - 1)
    there = reader.usable[places] == after
    return np.where(there, after, steps), there


def lay_out_paths(
    batches: Sequence[Batch | None],
    passes: int,
    agent: Agent,
    factors: Sequence[float],
) -> list[Given]:
    """Return what passes are given, as `lay_out` does for steps."""
    size = agent.settings.batch_size
    found = []
    for k in range(passes):
        some = [batch and batch.part(k * size, (k + 1) * size) for batch in batches]
        found.append(Given(some, _columns(some, agent, factors)))
    return found


def _columns(
    paths: Sequence[Batch | None], agent: Agent, factors: Sequence[float]
) -> PathColumns:
    agents, size, ends = len(paths), agent.settings.batch_size, agent.settings.n_step
    every = (agents, size * ends)
    actions, taken = np.zeros((agents, size), np.int64), np.zeros(every, np.int64)
    returns, discounts = np.zeros((2, *every), np.float32)
    goes_on = np.zeros(every, bool)
    for i, one in enumerate(paths):
        if one is None:
            continue
        assert isinstance(one, Paths)
        actions[i], taken[i], goes_on[i] = one.actions, one.taken, one.goes_on
        returns[i], discounts[i] = one.returns * factors[i], one.discounts
    legal = masks_of(
        [one.legal if one else None for one in paths], (1, agents, size), agent
    )
    after = masks_of([one.next_legal if one else None for one in paths], (1, *every), agent)
    return PathColumns(
        torch.from_numpy(actions),
        torch.from_numpy(returns),
        torch.from_numpy(discounts),
        None if legal is None else legal[0],
        None if after is None else after[0],
        torch.from_numpy(taken).view(agents, size, ends),
        torch.from_numpy(goes_on).view(agents, size, ends),
    )
