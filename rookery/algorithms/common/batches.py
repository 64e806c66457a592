"""Batches of a group of value-based agents, put together for several passes at once.

A *pass* is one forward and backward computation over a batch; an update averages
`gradient.accumulate` of them. Random numbers are keyed by agent, round and pass, and rows
do not change while a learner works. So the numbers and transitions of several passes can be
drawn in one go, which takes hardly longer than those of one. Memory bounds how many.
Observations, which are large, are read for one pass at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.kernels.sparse import Nonzero
from rookery.algorithms.nets.layers import Features
from rookery.replay.buffer import ReplayReader
from rookery.replay.drawing import Paths
from rookery.replay.rows import Rows
from rookery.specs import Array

PassKey = tuple[Array, int, int]
"""Agent numbers, round and pass: the key of a pass's random numbers."""
PassKeys = tuple[Array, int, Array]
"""The same for several passes: all agents of one pass, then those of the next."""

AHEAD_BYTES = 4 << 20
"""Memory for batches drawn ahead; with more, they would no longer fit the cache."""
TRANSITION_BYTES = 40
"""What drawing ahead takes for every row at which a transition opens or closes."""
MAX_PASSES_AHEAD = 16
INPUT_BYTES = 1 << 20
"""Memory for the inputs of an agent's passes, which should stay in the cache."""
PRODUCTS = 1 << 30
"""Products of numbers that are computed at once, without a sign of life: some 0.1 s."""


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
    """The batches of a group in one pass; tensors are (agents, batch, …).

    Transitions close at their *ends*: one, or with Retrace several, which come transition
    by transition. Agents that make no update have any contents.
    """

    draws: PassDraws
    inputs: Tensor | Nonzero
    """(agents, batch × (1 + ends), features): the observations in all rows in which
    transitions open, then at all their ends. The next pass overwrites it."""
    importance: Tensor
    """Importance weights; 1 with uniform replay."""
    actions: Tensor
    returns: Tensor
    """(agents, batch × ends)."""
    discounts: Tensor
    """(agents, batch × ends)."""
    legal: Tensor | None
    """(agents, batch, actions) where transitions open; None: everything is legal."""
    next_legal: Tensor | None
    """(agents, batch × ends, actions): the same where they close."""

    @property
    def observations(self) -> Tensor:
        """The inputs as a tensor."""
        return self.inputs if isinstance(self.inputs, Tensor) else self.inputs.dense()


@dataclass
class StackedPaths(StackedBatch):
    """The same with Retrace: the paths that begin with the transitions."""

    taken: Tensor
    """(agents, batch, ends): the action that was taken at an end."""
    continues: Tensor
    """(agents, batch, ends) bool: whether the path continues from there."""


class AgentBatches:
    """The batches of one agent for several passes at once; the first axis is the pass."""

    def __init__(
        self, agent: Agent, features: Features, ends: int, passes: int, nonzero: bool
    ) -> None:
        """Allocate memory, which every draw overwrites.

        Args:
            agent: any of those that it draws for.
            features: how observations become inputs.
            ends: how many rows the target of a transition bootstraps from.
            passes: the most that are drawn at once.
            nonzero: whether to draw only what is not 0 in observations, which are bytes.
        """
        batch, spec = agent.settings.batch_size, agent.spec
        shape = (passes, batch * (1 + ends), features.padded)
        self._features, self._is_nonzero = features, nonzero
        # torch's memory starts at a cache line, numpy's does not.
        self._inputs = torch.zeros((passes, 0, 0) if nonzero else shape).numpy()
        self._nonzero = Nonzero.allocate(*(shape if nonzero else (passes, 0, 0)))
        masked_actions = spec.num_actions if spec.masked else None
        self._paths = Paths.empty(passes, 1, batch, ends, masked_actions)
        self.importance = np.ones((passes, batch), np.float32)

    def draw(
        self, reader: ReplayReader, transitions: Array, passes: int, factor: float
    ) -> tuple[Array, Nonzero, Paths]:
        """Return the inputs of some passes, either dense or sparse, and their paths.

        Args:
            reader: of the agent's rows.
            transitions: (passes × batch).
            passes: how many.
            factor: the agent's reward scale.
        """
        paths = self._paths.first(passes)
        reader.follow(transitions, factor, paths, 0)
        addresses = paths.addresses.reshape(-1, 3)
        inputs, nonzero = self._inputs[:passes], self._nonzero[:passes, :]
        if self._is_nonzero:
            columns = nonzero.indices.shape[2]
            flat = (
                nonzero.indices.reshape(-1, columns),
                nonzero.values.reshape(-1, columns),
            )
            counts = nonzero.counts.reshape(-1)
            self._features.draw_nonzero((*flat, counts), reader.rows, addresses)
        else:
            self._features.draw(inputs.reshape(-1, inputs.shape[2]), reader.rows, addresses)
        return inputs, nonzero, paths


def passes_ahead(agents: Sequence[Agent], numbers: int, ends: int = 1) -> int:
    """Return for how many passes to draw at once, given an agent's random numbers."""
    transitions = agents[0].settings.batch_size * TRANSITION_BYTES * (1 + ends)
    bytes_per_pass = len(agents) * (transitions + 8 * numbers)
    return max(1, min(MAX_PASSES_AHEAD, AHEAD_BYTES // bytes_per_pass))


def agent_passes_ahead(agent: Agent, features: Features, ends: int, parameters: int) -> int:
    """Return how many passes of one agent to draw and compute at once."""
    rows = agent.settings.batch_size * (1 + ends)
    by_memory = INPUT_BYTES // (4 * rows * features.padded)
    by_time = PRODUCTS // (rows * parameters)
    return max(1, min(MAX_PASSES_AHEAD, by_memory, by_time))


def pass_keys(agents: Array, number: int, passes: range) -> PassKeys:
    """Return the keys of several passes of a round."""
    return np.tile(agents, len(passes)), number, np.repeat(np.array(passes), len(agents))


class BatchBuffers:
    """Draws the batches of a group, into memory that every pass uses again."""

    def __init__(self, agents: Sequence[Agent], features: Features, ends: int) -> None:
        self._agents, self._features, self._ends = agents, features, ends
        self._batch = agents[0].settings.batch_size
        self._shape = (len(agents), self._batch * (1 + ends), features.padded)
        inputs = torch.zeros(self._shape)
        self._inputs: Tensor | Nonzero = inputs
        self._draw_inputs: Sequence[Callable[[Rows, Array], None]] = [
            partial(features.draw, own) for own in inputs.numpy()
        ]
        self._importance = torch.ones(len(agents), self._batch)
        self._paths = self._empty_paths(1)

    def _empty_paths(self, passes: int) -> Paths:
        spec = self._agents[0].spec
        masked_actions = spec.num_actions if spec.masked else None
        agents = len(self._agents)
        return Paths.empty(passes, agents, self._batch, self._ends, masked_actions)

    def draw_nonzero(self) -> None:
        """From now on, draw only what is not 0 in observations, which are bytes."""
        nonzero = Nonzero.allocate(*self._shape)
        self._inputs = nonzero
        self._draw_inputs = [
            partial(self._features.draw_nonzero, own)
            for own in zip(nonzero.indices, nonzero.values, nonzero.counts, strict=True)
        ]

    def draw(
        self,
        readers: Sequence[ReplayReader],
        transitions: Sequence[Array | None],
        passes: Sequence[PassDraws],
        factors: Sequence[float],
    ) -> Iterator[StackedPaths]:
        """Yield one batch per pass; they are overwritten when more are drawn.

        Args:
            readers: one per agent.
            transitions: each agent's, (passes × batch); None if it makes no update.
            passes: the random numbers of each pass.
            factors: each agent's reward scale.
        """
        if len(self._paths.actions) != len(passes):
            self._paths = self._empty_paths(len(passes))
        paths, batch, ends, drawn = self._paths, self._batch, self._ends, []
        for i, sampled in enumerate(transitions):
            if sampled is not None:
                readers[i].follow(sampled, factors[i], paths, i)
                drawn.append(i)
        for k, draws in enumerate(passes):
            addresses = paths.addresses[k]
            for i in drawn:
                self._draw_inputs[i](readers[i].rows, addresses[i])
            yield StackedPaths(
                draws,
                self._inputs,
                self._importance,
                torch.from_numpy(paths.actions[k]),
                torch.from_numpy(paths.returns[k]),
                torch.from_numpy(paths.discounts[k]),
                None if paths.legal is None else torch.from_numpy(paths.legal[k]),
                None if paths.next_legal is None else torch.from_numpy(paths.next_legal[k]),
                torch.from_numpy(paths.taken[k]).view(-1, batch, ends),
                torch.from_numpy(paths.continues[k]).view(-1, batch, ends),
            )
