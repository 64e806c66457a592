"""DQN: the value of each action as one number, for a group of agents as one computation.

Double, dueling and noisy as IQN has them, and off one by one: with all three off it is
the plain algorithm, with a target network that follows (`target.*`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import Columns, Place
from rookery.algorithms.common.group import Inputs
from rookery.algorithms.nets.layers import Linear, linear, padded
from rookery.algorithms.q_learning import (
    EpsilonGreedyPolicy,
    QLearner,
    ValueNetwork,
    Weights,
)
from rookery.algorithms.value_based import Losses
from rookery.config.agent import AgentSettings, ValueParts
from rookery.replay.buffer import Batch
from rookery.specs import Array


class DqnNetwork(ValueNetwork):
    """Reads an observation; one more hidden layer, then the values of actions."""

    @staticmethod
    def parts(settings: AgentSettings) -> ValueParts:
        """Return which parts are switched on."""
        return settings.dqn

    def layers_between(self, noisy: bool) -> list[Linear]:
        """Return the hidden layer after reading."""
        return [Linear("hidden", self.width, self.width, noisy)]

    def numbers(self, settings: AgentSettings) -> int:
        """Return how many numbers a pass over one row takes, with its gradients."""
        return self.encoder.numbers + 2 * padded(self.width) + 4 * padded(self.actions + 1)

    def outputs(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return what the last layer puts out, (agents, rows, outputs)."""
        hidden = torch.relu_(linear(weights, "hidden", self.read(weights, inputs)))
        return linear(weights, "values", hidden)

    def values(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return values of all actions, (agents, rows, actions)."""
        return self.of_actions(self.outputs(weights, inputs))

    def chosen(self, weights: Weights, inputs: Tensor, actions: Tensor) -> Tensor:
        """Return values of one action each, (agents, rows)."""
        return (self.outputs(weights, inputs) * self.shares(actions)).sum(dim=2)


class DqnPolicy(EpsilonGreedyPolicy):
    """Acts by the value of each action."""

    network: DqnNetwork
    network_type: ClassVar[type[DqnNetwork]] = DqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = self.network_type(agents[0])
        super().__init__(agents, seed, self.network)
        self._inputs: Inputs | None = None

    def take(self, weights: dict[str, Tensor]) -> None:
        """Take the weights of a round."""
        self._weights = weights

    def values(self, seen: Sequence[Mapping[str, Array]], worlds: int) -> Array:
        """Return the values of actions."""
        if self._inputs is None or self._inputs.rows != worlds:
            self._inputs = Inputs(self.network.features, len(self.agents), worlds)
        return self.read(self._inputs.fill(seen)).numpy()

    def read(self, inputs: Tensor) -> Tensor:
        """Return the values of actions for observations, (agents, worlds, features)."""
        return self.network.values(self._weights, inputs)


class DqnLearner(QLearner):
    """Learns values from drawn batches of steps."""

    network_type = DqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = DqnNetwork(agents[0])
        super().__init__(agents, seed, self.network)

    def losses(
        self,
        batches: Sequence[Batch | None],
        columns: Columns,
        importance: Tensor,
        draws: Array,
        place: Place,
    ) -> Losses:
        """Compare values of chosen actions with what followed."""
        weights, target = self.shaken(place)
        now = self.inputs_now(batches)
        with torch.no_grad():
            follows = self.inputs_next(batches)
            every = self.network.values(target, follows)
            best = self._best(weights, every, follows, columns.next_legal)
            targets = columns.returns + columns.discounts * losses.pick(every, best)
            shares = self.shares(columns, best)
            if shares is not None:
                targets = (shares * targets.view(shares.shape)).sum(dim=2)
            if self.gap:
                values = self.network.values(target, now)
                short = losses.shortfalls(values, columns.actions, columns.legal)
                targets = targets - self.gap * short
        found = self.network.chosen(weights, now, columns.actions)
        threshold = self.agents[0].settings.dqn.threshold
        loss, errors = losses.huber(found, targets, threshold)
        return Losses((loss * importance).mean(dim=1), errors, found.detach())

    def _best(
        self, weights: Weights, every: Tensor, inputs: Tensor, legal: Tensor | None
    ) -> Tensor:
        """Return the best next actions, by the network or by the target's values."""
        double = self.agents[0].settings.dqn.double
        likes = self.network.values(weights, inputs) if double else every
        return losses.masked(likes, legal).argmax(dim=2)


DQN = Algorithm("dqn", DqnPolicy, DqnLearner)
