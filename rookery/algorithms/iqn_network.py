"""The network of IQN for a group of agents: values of actions at quantiles of the return.

An observation becomes a vector; a fraction of the return becomes another through a cosine
embedding; their product goes through one more hidden layer to the values of all actions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms import losses
from rookery.algorithms.base import AgentPlan
from rookery.algorithms.encoder import Encoder
from rookery.algorithms.networks import Linear, Parameters, linear, padded

COSINES = 64

Weights = Mapping[str, Tensor]


class IqnNetwork:
    """The layers of one kind of agent, for any number of them."""

    def __init__(self, plan: AgentPlan) -> None:
        settings = plan.settings
        network = settings.network
        self.encoder = Encoder(
            plan.spec,
            settings.frames,
            network.width,
            network.depth,
            network.channels,
            torch.relu_,
        )
        self.features = self.encoder.features
        self.sees_flags = self.encoder.sees_flags
        self.actions = plan.spec.num_actions
        self.width = settings.network.width
        self.dueling = settings.iqn.dueling
        self.parameters = Parameters(self._layers(settings.iqn.noisy))
        self._shares = self._shares_of_outputs()
        self._multiples = torch.arange(COSINES, dtype=torch.float32) * torch.pi

    def _layers(self, noisy: bool) -> list[Linear]:
        outputs = self.actions + (1 if self.dueling else 0)
        return [
            *self.encoder.layers,
            Linear("fraction", COSINES, self.width),
            Linear("join", self.width, self.width, noisy),
            Linear("values", self.width, outputs, noisy),
        ]

    def _shares_of_outputs(self) -> Tensor:
        """Return what each output counts for in each action's value, (actions, outputs)."""
        outputs = padded(self.actions + (1 if self.dueling else 0))
        shares = torch.zeros(self.actions, outputs)
        shares[:, : self.actions] = torch.eye(self.actions)
        if self.dueling:
            shares[:, : self.actions] -= 1.0 / self.actions
            shares[:, self.actions] = 1.0
        return shares

    @property
    def noisy_layers(self) -> dict[str, tuple[int, int]]:
        """Noisy layer name to its real inputs and outputs."""
        layers = self.parameters.layers.values()
        return {
            layer.name: (layer.inputs, layer.outputs) for layer in layers if layer.noisy
        }

    def read(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return (agents, rows, width) for observations (agents, rows, features)."""
        return self.encoder(weights, inputs)

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
        """Return values of one action each, (agents, rows, quantiles).

        The same as picking from `values`, in two steps that autograd has to take back.
        """
        outputs = self._outputs(weights, hidden, embedded)
        return (outputs * self._shares[actions].unsqueeze(2)).sum(dim=3)

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

    def of_actions(self, outputs: Tensor) -> Tensor:
        """Return (…, actions) from what the last layer puts out."""
        if self.dueling:
            return losses.dueling(outputs, self.actions)
        return outputs[..., : self.actions]


def midpoints(agents: int, quantiles: int) -> Tensor:
    """Return fixed fractions in the middle of equal parts, (agents, 1, quantiles)."""
    middle = (np.arange(quantiles, dtype=np.float32) + 0.5) / quantiles
    return torch.from_numpy(middle).expand(agents, 1, quantiles).contiguous()
