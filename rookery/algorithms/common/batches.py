"""What the passes of a round are given, put together for several of them at once.

Random numbers are keyed by agent, round and pass, and rows do not change while a learner
learns. So it makes no difference when the numbers and steps of a pass are drawn, and
several passes take hardly more calls than one. Memory bounds how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.replay.buffer import Batch
from rookery.specs import Array

Place = tuple[Array, int, int]
"""Agents, round and pass: what the random numbers of a pass are keyed by."""
Places = tuple[Array, int, Array]
"""The same of several passes: all agents of one pass, then those of the next."""

AHEAD_BYTES = 4 << 20
"""What is drawn ahead takes up to this; more would only push other things out of cache."""
MOST_PASSES = 16


@dataclass
class Columns:
    """The batches of all agents, side by side: (agents, batch, …)."""

    actions: Tensor
    returns: Tensor
    discounts: Tensor
    legal: Tensor | None
    next_legal: Tensor | None


@dataclass
class Given:
    """The steps of one pass."""

    batches: list[Batch | None]
    """Each agent's; None of those that do not learn."""
    columns: Columns


@dataclass
class Supply:
    """What some passes are given, one after the other."""

    first: int
    """The number of the first in the round."""
    draws: Array
    """(passes, agents, numbers)."""
    given: list[Given]
    """Steps; none if they depend on what earlier passes find."""


def passes_at_once(agents: Sequence[Agent], numbers: int) -> int:
    """Return for how many passes of a group to draw; `numbers` are those of an agent."""
    spec, settings = agents[0].spec, agents[0].settings
    seen = sum(prod(part.shape) * part.dtype.itemsize for part in spec.parts.values())
    steps = 2 * settings.batch_size * settings.frames * seen
    return max(1, min(MOST_PASSES, AHEAD_BYTES // (len(agents) * (steps + 8 * numbers))))


def places_of(agents: Array, number: int, passes: range) -> Places:
    """Return what the numbers of some passes are keyed by."""
    return np.tile(agents, len(passes)), number, np.repeat(np.array(passes), len(agents))


def lay_out(
    batches: Sequence[Batch | None], passes: int, agent: Agent, factors: Sequence[float]
) -> list[Given]:
    """Return what passes are given.

    Args:
        batches: each agent's steps, of all passes one after the other.
        passes: how many.
        agent: any agent of the group.
        factors: what each agent's returns are multiplied by.
    """
    size = agent.settings.batch_size
    shape = (passes, len(batches), size)
    actions = np.zeros(shape, np.int64)
    returns, discounts = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for i, batch in enumerate(batches):
        if batch is not None:
            actions[:, i] = batch.actions.reshape(passes, size)
            returns[:, i] = (batch.returns * factors[i]).reshape(passes, size)
            discounts[:, i] = batch.discounts.reshape(passes, size)
    legal = masks_of([one.legal if one else None for one in batches], shape, agent)
    next_legal = masks_of(
        [one.next_legal if one else None for one in batches], shape, agent
    )
    return [
        Given(
            [batch and batch.part(k * size, (k + 1) * size) for batch in batches],
            Columns(
                torch.from_numpy(actions[k]),
                torch.from_numpy(returns[k]),
                torch.from_numpy(discounts[k]),
                None if legal is None else legal[k],
                None if next_legal is None else next_legal[k],
            ),
        )
        for k in range(passes)
    ]


def masks_of(
    masks: Sequence[Array | None], shape: tuple[int, int, int], agent: Agent
) -> Tensor | None:
    """Return what is legal, (passes, agents, rows, actions); None: always everything.

    Args:
        masks: each agent's, (passes × rows, actions); everything is legal where none is.
        shape: how many passes, agents and rows.
        agent: any agent of the group.
    """
    if not agent.spec.masked:
        return None
    found = np.ones((*shape, agent.spec.num_actions), bool)
    for i, mask in enumerate(masks):
        if mask is not None:
            found[:, i] = mask.reshape(shape[0], shape[2], -1)
    return torch.from_numpy(found)
