"""Recurrent DQN: DQN with a GRU, trained as R2D2 is (Kapturowski et al., 2019).

A batch is sequences of rows. Each starts with the hidden state the agent had when it acted,
is unrolled through the online and the target network, and is learned from after a burn-in
that refreshes the hidden state. Transitions, targets, exploration and priorities are DQN's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm, Metrics, PolicyInput, PolicyOutput
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import PassDraws, StackedBatch
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.dqn import DqnNetwork, DqnPolicy
from rookery.algorithms.nets.gru import Gru
from rookery.algorithms.nets.layers import Linear, Weights, linear
from rookery.algorithms.q_learning import QLearner
from rookery.config.agent import AgentSettings
from rookery.replay.buffer import ReplayReader
from rookery.replay.drawing import addresses_of
from rookery.replay.sequences import Timeline
from rookery.specs import Array

MAX_ERROR_SHARE = 0.9
"""R2D2's η: the weight of the largest error in a sequence's priority, against the mean."""


class RecurrentDqnNetwork(DqnNetwork):
    """Encoder, GRU, one more hidden layer, action values."""

    def __init__(self, agent: Agent) -> None:
        self.gru = Gru(agent.settings.network.width, agent.settings.recurrent.width)
        super().__init__(agent)

    def layers_between(self, noisy: bool) -> list[Linear]:
        """Return the GRU's layers, and the hidden layer after it."""
        return [*self.gru.layers, Linear("hidden", self.gru.width, self.width, noisy)]

    def floats_per_row(self, settings: AgentSettings) -> int:
        """Return how many numbers a row takes in a forward and backward pass."""
        return super().floats_per_row(settings) + self.gru.floats_per_row

    def step(self, weights: Weights, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return action values, (agents, rows, actions), and the next hidden state."""
        hidden = self.gru.step(weights, self.encoder(weights, obs), hidden)
        return self._head(weights, hidden), hidden

    def unroll(self, weights: Weights, obs: Tensor, hidden: Tensor, keep: Tensor) -> Tensor:
        """Return action values of sequences, (agents, sequences, rows, actions).

        `obs` is (agents, sequences × rows, features); `keep` is 0 in rows that start an
        episode.
        """
        encoded = self.encoder(weights, obs)
        encoded = encoded.view(*keep.shape, encoded.shape[2])
        states = self.gru.unroll(weights, encoded, hidden, keep)
        return self._head(weights, states.flatten(1, 2)).view(*keep.shape, self.actions)

    def _head(self, weights: Weights, state: Tensor) -> Tensor:
        hidden = torch.relu_(linear(weights, "hidden", state))
        return self.action_values(linear(weights, "values", hidden))


class RecurrentDqnPolicy(DqnPolicy):
    """Acts by action values that depend on a hidden state."""

    network: RecurrentDqnNetwork
    network_type = RecurrentDqnNetwork

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Take the best actions, or explore; return the next hidden states too."""
        self._hidden = torch.from_numpy(np.stack(inputs.hidden))
        return replace(super().act(inputs), hidden=self._hidden.numpy())

    def prepare(self, weights: dict[str, Tensor]) -> None:
        """Keep the weights of a round."""
        self.tensors = weights

    def values(self, obs: Tensor) -> Array:
        """Return action values, (agents, worlds, actions); `_hidden` advances."""
        values, self._hidden = self.network.step(self.tensors, obs, self._hidden)
        return values.numpy()


@dataclass
class StackedSequences(StackedBatch):
    """The sequences of a group; tensors are (agents, sequences, rows, …).

    `inputs` are (agents, sequences × rows, features), and `next_legal` is None: the
    row at which a transition closes is part of the sequence.
    """

    hidden: Tensor
    """(agents, sequences, units): the hidden state before the first row."""
    keep: Tensor
    """0 in rows that start an episode, else 1."""
    closes: Tensor
    """The row of the sequence in which a row's transition closes."""
    trained: Tensor
    """1 in rows that are learned from, else 0."""


class RecurrentDqnLearner(QLearner):
    """Learns action values from sampled sequences of rows."""

    network_type = RecurrentDqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = RecurrentDqnNetwork(agents[0])
        super().__init__(agents, seed, self.network)
        self._length = agents[0].settings.recurrent.sequence
        self._burn_in = agents[0].settings.recurrent.burn_in
        shape = (len(agents), self.batch_size * self._length, self.network.features.padded)
        self._inputs = np.zeros(shape, np.float32)
        self._timelines: list[Timeline] = []

    @classmethod
    def hidden(cls, settings: AgentSettings) -> int:
        """Return the size of the hidden state."""
        return settings.recurrent.width

    @classmethod
    def rows_per_pass(cls, settings: AgentSettings) -> int:
        """Return how many rows of one agent a pass goes through."""
        return settings.batch_size * settings.recurrent.sequence

    @classmethod
    def refusals(cls, settings: AgentSettings) -> Iterator[str]:
        """Refuse Retrace, and sequences in which no row could be learned from."""
        if settings.dqn.retrace is not None:
            yield (
                f"dqn.retrace is {settings.dqn.retrace:g}, but recurrent_dqn learns from "
                "sequences and does not support Retrace: leave it out, or use dqn."
            )
        recurrent = settings.recurrent
        if recurrent.burn_in + settings.n_step >= recurrent.sequence:
            yield (
                f"recurrent.sequence is {recurrent.sequence}, but recurrent.burn_in "
                f"({recurrent.burn_in}) and n_step ({settings.n_step}) leave no row of it "
                "to learn from: raise recurrent.sequence or lower the others."
            )

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round; rows from turn `first` on are new."""
        self._timelines = [Timeline(reader) for reader in readers]
        return super().learn(readers, number, first)

    def batches(
        self,
        readers: Sequence[ReplayReader],
        transitions: Sequence[Array | None],
        passes: Sequence[PassDraws],
    ) -> Iterator[StackedBatch]:
        """Yield one batch per pass, of the sequences that begin with the transitions."""
        size = self.batch_size
        for k, draws in enumerate(passes):
            yield self._batch(
                readers,
                [
                    each if each is None else each[k * size : (k + 1) * size]
                    for each in transitions
                ],
                draws,
            )

    def _batch(
        self,
        readers: Sequence[ReplayReader],
        transitions: Sequence[Array | None],
        draws: PassDraws,
    ) -> StackedSequences:
        agent, shape = self.agents[0], (len(readers), self.batch_size, self._length)
        returns, discounts, keep, trained = np.zeros((4, *shape), np.float32)
        actions, closes = np.zeros((2, *shape), np.int64)
        hidden = np.zeros((*shape[:2], self.hidden(agent.settings)), np.float32)
        legal = (
            np.ones((*shape, agent.spec.num_actions), bool) if agent.spec.masked else None
        )
        for i, sampled in enumerate(transitions):
            if sampled is None:
                continue
            rows = readers[i].rows
            batch = self._timelines[i].read(sampled, self._length, self._burn_in)
            addresses = addresses_of(rows, batch.turns.ravel(), batch.worlds.ravel())
            self.network.features.draw(self._inputs[i], rows, addresses)
            actions[i], closes[i], hidden[i] = batch.actions, batch.closes, batch.hidden
            returns[i] = batch.returns * self.group.spreads[i].factor
            discounts[i], keep[i] = batch.discounts, ~batch.starts
            trained[i] = batch.trained
            if legal is not None:
                legal[i] = batch.legal
        return StackedSequences(
            draws=draws,
            inputs=torch.from_numpy(self._inputs),
            importance=torch.ones(shape[:2]),
            actions=torch.from_numpy(actions),
            returns=torch.from_numpy(returns),
            discounts=torch.from_numpy(discounts),
            legal=None if legal is None else torch.from_numpy(legal),
            next_legal=None,
            hidden=torch.from_numpy(hidden),
            keep=torch.from_numpy(keep),
            closes=torch.from_numpy(closes),
            trained=torch.from_numpy(trained),
        )

    def compute_losses(self, batch: StackedBatch) -> PassResult:
        """Return the Huber loss of DQN in all rows of sequences that are learned from."""
        assert isinstance(batch, StackedSequences)
        online, target = self.noisy_weights(batch.draws)
        obs = batch.observations
        all_values = self.network.unroll(online, obs, batch.hidden, batch.keep)
        with torch.no_grad():
            target_values = self.network.unroll(target, obs, batch.hidden, batch.keep)
            double = self.agents[0].settings.dqn.double
            choosing = losses.masked(all_values if double else target_values, batch.legal)
            row_values = losses.pick(target_values, choosing.argmax(dim=3))
            next_values = row_values.gather(2, batch.closes)
            targets = batch.returns + batch.discounts * next_values
            if self.advantage_gap:
                gaps = losses.action_gaps(target_values, batch.actions, batch.legal)
                targets = targets - self.advantage_gap * gaps
        values = losses.pick(all_values, batch.actions)
        parts = self.agents[0].settings.dqn
        loss, errors = losses.huber(values, targets, parts.threshold)
        loss = losses.hysteretic(loss, values, targets, parts.hysteresis)
        return _average_sequences(loss, errors, values.detach(), batch)


def _average_sequences(
    loss: Tensor, errors: Tensor, values: Tensor, batch: StackedSequences
) -> PassResult:
    """Average over trained rows; a sequence's error mixes its largest and its mean."""
    trained = batch.trained
    counts = trained.sum(dim=2)
    total = counts.sum(dim=1).clamp(min=1.0)
    mean_loss = ((loss * trained).sum(dim=2) * batch.importance).sum(dim=1) / total
    divisors, largest = counts.clamp(min=1.0), (errors * trained).amax(dim=2)
    mean = (errors * trained).sum(dim=2) / divisors
    errors = MAX_ERROR_SHARE * largest + (1.0 - MAX_ERROR_SHARE) * mean
    means = (values * trained).sum(dim=2) / divisors
    return PassResult(mean_loss, errors, means, counts > 0)


RECURRENT_DQN = Algorithm("recurrent_dqn", RecurrentDqnPolicy, RecurrentDqnLearner)
