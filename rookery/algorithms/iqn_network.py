"""The network of IQN for a group of agents: values of actions at quantiles of the return.

An observation becomes a vector; a fraction of the return becomes another through a cosine
embedding; their product goes through one more hidden layer to the values of all actions.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.nets.layers import Linear, linear, padded
from rookery.algorithms.q_learning import ValueNetwork, Weights
from rookery.config.agent import AgentSettings, ValueParts

COSINES = 64


class IqnNetwork(ValueNetwork):
    """The layers of one kind of agent, for any number of them."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.sees_flags = self.encoder.sees_flags
        self._multiples = torch.arange(COSINES, dtype=torch.float32) * torch.pi

    @staticmethod
    def parts(settings: AgentSettings) -> ValueParts:
        """Return which parts are switched on."""
        return settings.iqn

    def layers_between(self, noisy: bool) -> list[Linear]:
        """Return the embedding of fractions, and the layer after the product."""
        return [
            Linear("fraction", COSINES, self.width),
            Linear("join", self.width, self.width, noisy),
        ]

    def numbers(self, settings: AgentSettings) -> int:
        """Return how many numbers a pass over one row takes, with its gradients."""
        quantiles = settings.network.quantiles
        both = max(quantiles, settings.iqn.acting_quantiles)
        each = 2 * COSINES + 3 * padded(self.width) + 3 * padded(self.actions + 1)
        return self.encoder.numbers + both * each + 3 * quantiles**2

    def embed(self, weights: Weights, fractions: Tensor) -> Tensor:
        """Return (agents, rows, quantiles, width) for fractions of the return."""
        agents, rows, quantiles = fractions.shape
        cosines = torch.cos(fractions.unsqueeze(-1) * self._multiples)
        flat = cosines.view(agents, rows * quantiles, COSINES)
        embedded = torch.relu_(linear(weights, "fraction", flat))
        return embedded.view(agents, rows, quantiles, padded(self.width))

    def values(self, weights: Weights, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Return (agents, rows, quantiles, actions).

        `embedded` may have one row, for fractions that are the same everywhere.
        """
        return self.of_actions(self._outputs(weights, hidden, embedded))

    def chosen(
        self, weights: Weights, hidden: Tensor, embedded: Tensor, actions: Tensor
    ) -> Tensor:
        """Return values of one action each, (agents, rows, quantiles)."""
        outputs = self._outputs(weights, hidden, embedded)
        return (outputs * self.shares(actions).unsqueeze(2)).sum(dim=3)

    def _outputs(self, weights: Weights, hidden: Tensor, embedded: Tensor) -> Tensor:
        joined = self._join(weights, hidden, embedded)
        agents, rows, quantiles, width = joined.shape
        flat = joined.view(agents, rows * quantiles, width)
        return linear(weights, "values", flat).view(agents, rows, quantiles, -1)

    def means(self, weights: Weights, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Return means over quantiles, (agents, rows, actions).

        The last layer is linear, so the mean is taken before it: less to multiply.
        """
        joined = self._join(weights, hidden, embedded).mean(dim=2)
        return self.of_actions(linear(weights, "values", joined))

    def _join(self, weights: Weights, hidden: Tensor, embedded: Tensor) -> Tensor:
        joined = hidden.unsqueeze(2) * embedded
        agents, rows, quantiles, width = joined.shape
        flat = joined.view(agents, rows * quantiles, width)
        return torch.relu_(linear(weights, "join", flat)).view(joined.shape)


def midpoints(agents: int, quantiles: int) -> Tensor:
    """Return fixed fractions in the middle of equal parts, (agents, 1, quantiles)."""
    middle = (np.arange(quantiles, dtype=np.float32) + 0.5) / quantiles
    return torch.from_numpy(middle).expand(agents, 1, quantiles).contiguous()
