"""IQN: implicit quantile networks, for a group of agents as one computation.

Each agent draws its own numbers, has its own parameters, moments and counts, and its own
place in every tensor; the loss is a sum over agents, so that gradients stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import Columns, Place
from rookery.algorithms.iqn_acting import IqnPass, folded
from rookery.algorithms.iqn_network import IqnNetwork, midpoints
from rookery.algorithms.q_learning import EpsilonGreedyPolicy, QLearner, Weights
from rookery.algorithms.value_based import Losses
from rookery.replay.buffer import Batch
from rookery.specs import Array


class IqnPolicy(EpsilonGreedyPolicy):
    """Acts by the mean of each action's quantiles."""

    network: IqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = IqnNetwork(agents[0])
        super().__init__(agents, seed, self.network)
        self._fractions = midpoints(len(agents), agents[0].settings.iqn.acting_quantiles)
        self._pass: IqnPass | None = None

    def take(self, weights: dict[str, Tensor]) -> None:
        """Take the weights of a round, folded, and embed the fractions once."""
        self._weights = folded(self.network, weights, self._fractions.shape[2])
        self._embedded = self.network.embed(weights, self._fractions).numpy()

    def values(self, seen: Sequence[Mapping[str, Array]], worlds: int) -> Array:
        """Return means over quantiles."""
        if self._pass is None or self._pass.worlds != worlds:
            quantiles = self._fractions.shape[2]
            self._pass = IqnPass(self.network, len(self.agents), worlds, quantiles)
        return self._pass.values(self._weights, self._embedded, seen)


class IqnLearner(QLearner):
    """Learns quantiles of the return from drawn batches of steps."""

    network_type = IqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        settings = agents[0].settings
        self.network = IqnNetwork(agents[0])
        self._quantiles = settings.network.quantiles
        fractions = (1 + self.ends_of(settings)) * settings.batch_size * self._quantiles
        super().__init__(agents, seed, self.network, fractions)
        self._fixed = midpoints(len(agents), settings.iqn.acting_quantiles)

    def losses(
        self,
        batches: Sequence[Batch | None],
        columns: Columns,
        importance: Tensor,
        draws: Array,
        place: Place,
    ) -> Losses:
        """Compare quantiles of chosen actions with those that followed."""
        fractions, others = self._fractions(draws)
        weights, target = self.shaken(place)
        now = self.inputs_now(batches)
        with torch.no_grad():
            follows = self.inputs_next(batches)
            values, best = self._values_after(
                weights, target, follows, others, columns.next_legal
            )
            targets = losses.bootstrap(columns.returns, columns.discounts, values)
            shares = self.shares(columns, best)
            if shares is not None:  # quantiles at all ends are targets, side by side
                targets = targets.reshape(*shares.shape[:2], -1)
                shares = (shares / self._quantiles).repeat_interleave(self._quantiles, 2)
            if self.gap:
                means = self._means(target, now)
                short = losses.shortfalls(means, columns.actions, columns.legal)
                targets = targets - self.gap * short.unsqueeze(2)
        hidden = self.network.read(weights, now)
        embedded = self.network.embed(weights, fractions)
        found = self.network.chosen(weights, hidden, embedded, columns.actions)
        threshold = self.agents[0].settings.iqn.threshold
        loss = losses.quantile_huber(found, targets, fractions, threshold, shares)
        found = found.detach()
        errors = losses.mean_errors(found, targets, shares)
        return Losses((loss * importance).mean(dim=1), errors, found.mean(dim=2))

    def _fractions(self, draws: Array) -> tuple[Tensor, Tensor]:
        """Return random fractions of where steps opened, and of all their ends."""
        count, numbers = self.batch_size * self._quantiles, draws.astype(np.float32)
        parts = (numbers[:, :count], numbers[:, count:])
        first, second = (
            torch.from_numpy(np.ascontiguousarray(part).reshape(len(draws), rows, -1))
            for part, rows in zip(
                parts, (self.batch_size, self.batch_size * self.ends), strict=True
            )
        )
        return first, second

    def _values_after(
        self,
        weights: Weights,
        target: Weights,
        inputs: Tensor,
        fractions: Tensor,
        legal: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the target's quantiles of the best next actions, and these actions."""
        hidden = self.network.read(target, inputs)
        every = self.network.values(target, hidden, self.network.embed(target, fractions))
        if self.agents[0].settings.iqn.double:
            means = self._means(weights, inputs)
        else:
            means = every.mean(dim=2)
        best = losses.masked(means, legal).argmax(dim=2)
        return _of_action(every, best), best

    def _means(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return the values of actions as agents act by them."""
        looks = self.network.read(weights, inputs)
        fixed = self.network.embed(weights, self._fixed)
        return self.network.means(weights, looks, fixed)


def _of_action(values: Tensor, actions: Tensor) -> Tensor:
    """Return quantiles of chosen actions: (agents, batch, quantiles)."""
    return losses.pick(values, actions.unsqueeze(2).expand(values.shape[:3]))


IQN = Algorithm("iqn", IqnPolicy, IqnLearner)
