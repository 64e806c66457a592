"""DQN (Mnih et al., 2015), for a group of agents as one computation.

Double, dueling, noisy networks, Retrace and advantage learning can be switched on and off
one by one; with all of them off it is plain DQN, with a target network (`target.*`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import (
    AgentBatches,
    StackedBatch,
    agent_passes_ahead,
)
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.kernels.dqn import DqnPass
from rookery.algorithms.nets import acting
from rookery.algorithms.nets.layers import Linear, Weights, linear, padded
from rookery.algorithms.q_learning import EpsilonGreedyPolicy, QLearner, ValueNetwork
from rookery.config.agent import AgentSettings, ValueParts
from rookery.replay.buffer import ReplayReader
from rookery.specs import Array


class DqnNetwork(ValueNetwork):
    """Encoder, one more hidden layer, action values."""

    @staticmethod
    def parts(settings: AgentSettings) -> ValueParts:
        """Return the settings of DQN."""
        return settings.dqn

    def layers_between(self, noisy: bool) -> list[Linear]:
        """Return the hidden layer after the encoder."""
        return [Linear("hidden", self.width, self.width, noisy)]

    def floats_per_row(self, settings: AgentSettings) -> int:
        """Return how many numbers a row takes in a forward and backward pass."""
        heads = 2 * padded(self.width) + 4 * padded(self.actions + 1)
        return self.encoder.floats_per_row + heads

    def outputs(self, weights: Weights, obs: Tensor) -> Tensor:
        """Return the last layer's outputs, (agents, rows, outputs)."""
        hidden = torch.relu_(linear(weights, "hidden", self.encoder(weights, obs)))
        return linear(weights, "values", hidden)

    def values(self, weights: Weights, obs: Tensor) -> Tensor:
        """Return the values of all actions, (agents, rows, actions)."""
        return self.action_values(self.outputs(weights, obs))


class DqnPolicy(EpsilonGreedyPolicy):
    """Acts by the network's action values."""

    network: DqnNetwork
    network_type: ClassVar[type[DqnNetwork]] = DqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = self.network_type(agents[0])
        super().__init__(agents, seed, self.network)
        self.is_compiled = type(self) is DqnPolicy and self.computes_in_loops

    def values(self, obs: Tensor) -> Array:
        """Return action values, (agents, worlds, actions)."""
        hidden = acting.linear(self.weights, "hidden", self.encode(obs))
        values = acting.linear(self.weights, "values", hidden, relu=False)
        return values[..., : self.network.actions]


class DqnLearner(QLearner):
    """Learns action values with the Huber loss."""

    network_type = DqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = DqnNetwork(agents[0])
        super().__init__(agents, seed, self.network)
        self._pass: DqnPass | None = None
        if type(self) is DqnLearner and agents[0].settings.network.module is None:
            self._pass = DqnPass(self.network, self.group, agents[0], self.ends)
            if self._pass.reads_nonzero:
                self.buffers.draw_nonzero()
        if self._pass is not None and self._pass.is_compiled:
            self.updates_each_agent = True
            features, ends = self.network.features, self.ends
            size = self.group.parameters.size
            ahead = agent_passes_ahead(agents[0], features, ends, size)
            self.updates_ahead = min(self.updates_ahead, ahead)
            sizes = (ends, self.updates_ahead, self._pass.reads_nonzero)
            self._ahead = AgentBatches(agents[0], features, *sizes)

    def make_updates(
        self, i: int, reader: ReplayReader, transitions: Array, updates: int, sums: Array
    ) -> int:
        """Make some updates of one agent in a single compiled call."""
        assert self._pass is not None
        factor = self.group.spreads[i].factor
        inputs, nonzero, paths = self._ahead.draw(reader, transitions, updates, factor)
        batches = (inputs, nonzero, paths, self._ahead.importance)
        return self._pass.make_updates(i, *batches, self.group.plan(i, updates), sums)

    def backpropagate(self, batch: StackedBatch) -> PassResult:
        """Write the gradients of a pass: by hand, or by autograd for a user's code."""
        if self._pass is None:
            return super().backpropagate(batch)
        return self._pass.backpropagate(batch, self.noise(batch.draws))

    def compute_losses(self, batch: StackedBatch) -> PassResult:
        """Return the Huber loss between Q(s, a) and its target."""
        online, target = self.noisy_weights(batch.draws)
        obs = self.obs(batch)
        with torch.no_grad():
            next_obs = self.next_obs(batch)
            next_values = self.network.values(target, next_obs)
            best = self.best_actions(online, next_values, next_obs, batch.next_legal)
            next_value = losses.pick(next_values, best)
            targets = batch.returns + batch.discounts * next_value
            shares = self.retrace_shares(batch, best)
            if shares is not None:
                targets = (shares * targets.view(shares.shape)).sum(dim=2)
            if self.advantage_gap:
                target_values = self.network.values(target, obs)
                gaps = losses.action_gaps(target_values, batch.actions, batch.legal)
                targets = targets - self.advantage_gap * gaps
        outputs = self.network.outputs(online, obs)
        values = self.network.values_taken(outputs, batch.actions)
        parts = self.agents[0].settings.dqn
        loss, errors = losses.huber(values, targets, parts.threshold)
        loss = losses.hysteretic(loss, values, targets, parts.hysteresis)
        return PassResult((loss * batch.importance).mean(dim=1), errors, values.detach())

    def best_actions(
        self, online: Weights, target_values: Tensor, obs: Tensor, legal: Tensor | None
    ) -> Tensor:
        """Return the best actions: by the online network if double, else by the target."""
        double = self.agents[0].settings.dqn.double
        values = self.network.values(online, obs) if double else target_values
        return losses.masked(values, legal).argmax(dim=2)


DQN = Algorithm("dqn", DqnPolicy, DqnLearner)
