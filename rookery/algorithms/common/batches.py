"""Batches of a group of value-based agents, put together for several passes at once.

A *pass* is one forward and backward computation over a batch; an update averages
`gradient.accumulate` of them. Random numbers are keyed by agent, round and pass, and rows
do not change while a learner works. So the numbers and transitions of several passes can be
drawn in one go, which takes hardly longer than those of one. Memory bounds how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, observation_bytes
from rookery.replay.buffer import Batch
from rookery.specs import Array

PassKey = tuple[Array, int, int]
"""Agent numbers, round and pass: the key of a pass's random numbers."""
PassKeys = tuple[Array, int, Array]
"""The same for several passes: all agents of one pass, then those of the next."""

AHEAD_BYTES = 4 << 20
"""Memory for batches drawn ahead; with more, they would no longer fit the cache."""
MAX_PASSES_AHEAD = 16


@dataclass(frozen=True)
class PassDraws:
    """The random numbers of one pass."""

    key: PassKey
    batch: Array
    """(agents, batch): one number for each transition to draw."""
    extra: Array
    """(agents, n): as many more as the algorithm asked for."""


@dataclass
class StackedBatch:
    """The batches of a group in one pass; tensors are (agents, batch, …)."""

    draws: PassDraws
    per_agent: list[Batch | None]
    """Each agent's batch; None for agents that make no update."""
    importance: Tensor
    """Importance weights; 1 with uniform replay."""
    actions: Tensor
    returns: Tensor
    discounts: Tensor
    legal: Tensor | None
    """(agents, batch, actions) where transitions open; None: everything is legal."""
    next_legal: Tensor | None
    """The same where they close."""


def passes_ahead(agents: Sequence[Agent], numbers: int) -> int:
    """Return for how many passes to draw at once, given an agent's random numbers."""
    transitions = 2 * agents[0].settings.batch_size * observation_bytes(agents[0])
    bytes_per_pass = len(agents) * (transitions + 8 * numbers)
    return max(1, min(MAX_PASSES_AHEAD, AHEAD_BYTES // bytes_per_pass))


def pass_keys(agents: Array, number: int, passes: range) -> PassKeys:
    """Return the keys of several passes of a round."""
    return np.tile(agents, len(passes)), number, np.repeat(np.array(passes), len(agents))


def stack_batches(
    batches: Sequence[Batch | None],
    passes: Sequence[PassDraws],
    agent: Agent,
    factors: Sequence[float],
) -> list[StackedBatch]:
    """Return one stacked batch per pass.

    Args:
        batches: each agent's transitions, those of all passes one after the other.
        passes: the random numbers of each pass.
        agent: any agent of the group.
        factors: each agent's reward scale.
    """
    size = agent.settings.batch_size
    shape = (len(passes), len(batches), size)
    actions = np.zeros(shape, np.int64)
    returns, discounts = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for i, batch in enumerate(batches):
        if batch is not None:
            actions[:, i] = batch.actions.reshape(len(passes), size)
            returns[:, i] = (batch.returns * factors[i]).reshape(len(passes), size)
            discounts[:, i] = batch.discounts.reshape(len(passes), size)
    legal = stack_masks([batch.legal if batch else None for batch in batches], shape, agent)
    next_legal = stack_masks(
        [batch.next_legal if batch else None for batch in batches], shape, agent
    )
    importance = torch.ones(shape[1:])
    return [
        StackedBatch(
            draws,
            [batch and batch.part(k * size, (k + 1) * size) for batch in batches],
            importance,
            torch.from_numpy(actions[k]),
            torch.from_numpy(returns[k]),
            torch.from_numpy(discounts[k]),
            None if legal is None else legal[k],
            None if next_legal is None else next_legal[k],
        )
        for k, draws in enumerate(passes)
    ]


def stack_masks(
    masks: Sequence[Array | None], shape: tuple[int, int, int], agent: Agent
) -> Tensor | None:
    """Return legal actions, (passes, agents, rows, actions); None: all are always legal.

    Args:
        masks: each agent's, (passes × rows, actions); None stands for all True.
        shape: passes, agents and rows.
        agent: any agent of the group.
    """
    if not agent.spec.masked:
        return None
    legal = np.ones((*shape, agent.spec.num_actions), bool)
    for i, mask in enumerate(masks):
        if mask is not None:
            legal[:, i] = mask.reshape(shape[0], shape[2], -1)
    return torch.from_numpy(legal)
