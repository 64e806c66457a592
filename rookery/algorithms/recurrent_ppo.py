"""Recurrent PPO: PPO with a GRU.

The transitions of a round are cut into sequences, each of one world, and minibatches are
made of whole sequences. A sequence starts with the hidden state the agent had when it
acted, and is unrolled row by row. Advantages use the hidden states as stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm, PolicyInput, PolicyOutput
from rookery.algorithms.common.rollout import Minibatch, Rollout
from rookery.algorithms.nets.gru import Gru
from rookery.algorithms.nets.layers import Linear, Weights
from rookery.algorithms.ppo import PpoLearner, PpoNetwork, PpoPolicy
from rookery.config.agent import AgentSettings
from rookery.replay.sequences import Chain
from rookery.rng import order
from rookery.specs import Array


class RecurrentPpoNetwork(PpoNetwork):
    """Encoder, GRU, action logits and a value."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.gru = Gru(agent.settings.network.width, agent.settings.recurrent.width)
        heads = [
            Linear("choose", self.gru.width, self.actions),
            Linear("value", self.gru.width, 1),
        ]
        self.parameters = self.encoder.parameters([*self.gru.layers, *heads])

    @property
    def floats_per_row(self) -> int:
        """How many numbers a row takes in a forward and backward pass."""
        return super().floats_per_row + self.gru.floats_per_row

    def step(
        self, weights: Weights, obs: Tensor, hidden: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, values, and the next hidden state."""
        hidden = self.gru.step(weights, self.encoder(weights, obs), hidden)
        return *self.heads(weights, hidden), hidden

    def unroll(
        self, weights: Weights, obs: Tensor, hidden: Tensor, keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return logits and values of sequences, (agents, sequences × rows, …)."""
        encoded = self.encoder(weights, obs)
        encoded = encoded.view(*keep.shape, encoded.shape[2])
        states = self.gru.unroll(weights, encoded, hidden, keep)
        return self.heads(weights, states.flatten(1, 2))


class RecurrentPpoPolicy(PpoPolicy):
    """Samples actions from probabilities that depend on a hidden state."""

    network_type = RecurrentPpoNetwork
    network: RecurrentPpoNetwork

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Sample actions; return the next hidden states too."""
        self._hidden = torch.from_numpy(np.stack(inputs.hidden))
        return replace(super().act(inputs), hidden=self._hidden.numpy())

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values for (agents, worlds, features); `_hidden` advances."""
        logits, values, self._hidden = self.network.step(self.weights, obs, self._hidden)
        return logits, values


@dataclass
class SequenceMinibatch(Minibatch):
    """Some sequences of all agents; n of `Minibatch` is sequences × rows."""

    hidden: Tensor
    """(agents, sequences, units): the hidden state before the first row."""
    keep: Tensor
    """(agents, sequences, rows): 0 where an episode starts, else 1."""


class RecurrentPpoLearner(PpoLearner):
    """Makes a few passes over the sequences of the newest round."""

    network_type = RecurrentPpoNetwork
    network: RecurrentPpoNetwork

    @classmethod
    def hidden(cls, settings: AgentSettings) -> int:
        """Return the size of the hidden state."""
        return settings.recurrent.width

    def values(self, rollout: Rollout) -> tuple[Array, Array]:
        """Return values where transitions open and close, with stored hidden states."""
        shape = (*rollout.actions.shape, self.hidden(self.agents[0].settings))
        hidden, next_hidden = np.zeros((2, *shape), np.float32)
        for i, transitions in enumerate(rollout.transitions):
            reader, count = rollout.readers[i], len(transitions)
            turns, worlds = reader.opening(transitions)
            closes = reader.closes(transitions)
            hidden[i, :count] = reader.at("hidden", turns, worlds)
            next_hidden[i, :count] = reader.at("hidden", closes, worlds)
        values, next_values = (
            self.network.step(self.group.weights, *map(torch.from_numpy, pair))[1].numpy()
            for pair in ((rollout.inputs, hidden), (rollout.next_inputs, next_hidden))
        )
        return values, next_values

    def minibatches(self, rollout: Rollout, number: int) -> Iterator[Minibatch]:
        """Split the sequences of a rollout at random, once per pass."""
        settings = self.agents[0].settings
        turns = rollout.actions.shape[1] // rollout.readers[0].worlds
        chain = Chain.side_by_side(
            [
                Chain.cut(reader, transitions, turns, settings.recurrent.sequence)
                for reader, transitions in zip(
                    rollout.readers, rollout.transitions, strict=True
                )
            ]
        )
        sequences = chain.indices.shape[1]
        spare = -sequences % settings.ppo.minibatches
        for k in range(settings.ppo.passes):
            draws = self.stream.bits((self.agent_numbers, number, k), 0, sequences)
            shuffled = np.pad(order(draws), ((0, 0), (0, spare)), constant_values=-1)
            for indices in np.split(shuffled, settings.ppo.minibatches, axis=1):
                yield _minibatch(rollout, chain, indices)

    def outputs(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """Return logits and values of a minibatch."""
        assert isinstance(minibatch, SequenceMinibatch)
        return self.network.unroll(
            self.group.weights, minibatch.inputs, minibatch.hidden, minibatch.keep
        )


def _minibatch(rollout: Rollout, chain: Chain, sequences: Array) -> SequenceMinibatch:
    """Return some sequences, (agents, n) by index; those below 0 get weight 0."""
    rows = np.arange(len(sequences))[:, None]
    slots = chain.indices[rows, sequences]
    unused = (slots < 0) | (sequences < 0)[:, :, None]
    slots = np.where(unused, 0, slots)
    flat = (len(sequences), -1)
    minibatch = rollout.minibatch(slots.reshape(flat), unused.reshape(flat))
    keep = ~chain.starts[rows, sequences]
    return SequenceMinibatch(
        **vars(minibatch),
        hidden=torch.from_numpy(chain.hidden[rows, sequences]),
        keep=torch.from_numpy(keep.astype(np.float32)),
    )


RECURRENT_PPO = Algorithm("recurrent_ppo", RecurrentPpoPolicy, RecurrentPpoLearner)
