"""The network of PPO and its kin, and how a group acts by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Policy, PolicyInput, PolicyOutput
from rookery.algorithms.common import losses
from rookery.algorithms.common.exploration import draw, log
from rookery.algorithms.common.group import Inputs
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import Linear, Parameters, linear, padded
from rookery.specs import Array


class PpoNetwork:
    """Reads an observation; gives logits of actions and a value."""

    def __init__(self, agent: Agent) -> None:
        network, frames = agent.settings.network, agent.settings.frames
        self.encoder = Encoder(
            agent.spec, frames, network.width, network.depth, network.channels, torch.tanh_
        )
        self.features, self.actions = self.encoder.features, agent.spec.num_actions
        self.parameters = Parameters(
            [
                *self.encoder.layers,
                Linear("choose", network.width, self.actions),
                Linear("value", network.width, 1),
            ]
        )

    @property
    def numbers(self) -> int:
        """How many numbers a pass over one row takes, with its gradients."""
        return self.encoder.numbers + 5 * padded(self.actions) + padded(1)

    def __call__(
        self, weights: Mapping[str, Tensor], inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return logits (agents, rows, actions) and values (agents, rows)."""
        return self.heads(weights, self.encoder(weights, inputs))

    def heads(self, weights: Mapping[str, Tensor], hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values for what was made of an observation."""
        logits = linear(weights, "choose", hidden)[..., : self.actions]
        return logits, linear(weights, "value", hidden)[..., 0]


class PpoPolicy(Policy):
    """Draws actions from the network's probabilities."""

    network_type: ClassVar[type[PpoNetwork]] = PpoNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        super().__init__(agents, seed)
        self.network = self.network_type(agents[0])
        self._inputs: Inputs | None = None

    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the weights to act with."""
        self.weights = self.network.parameters.views(torch.from_numpy(np.stack(weights)))

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values of what is seen."""
        return self.network(self.weights, inputs)

    @torch.no_grad()
    def act(self, moment: PolicyInput) -> PolicyOutput:
        """Draw by the cumulative probabilities; greedy where exploration is 0."""
        worlds = moment.draws.shape[1]
        if self._inputs is None or self._inputs.rows != worlds:
            self._inputs = Inputs(self.network.features, len(self.agents), worlds)
        logits, values = self.outputs(self._inputs.fill(moment.seen))
        legal = _stacked_legal(moment.legal, logits.shape)
        probabilities = torch.log_softmax(losses.masked(logits, legal), dim=2).exp().numpy()
        drawn = draw(probabilities, moment.draws[..., 0])
        greedy = moment.exploration[:, None] == 0
        actions = np.where(greedy, probabilities.argmax(axis=2), drawn)
        picked = np.take_along_axis(probabilities, actions[..., None], axis=2)[..., 0]
        entropies = -(probabilities * log(probabilities)).sum(axis=2)
        return PolicyOutput(actions, picked, values.numpy(), entropies)


def _stacked_legal(legal: Sequence[Array | None], shape: Sequence[int]) -> Tensor | None:
    if all(mask is None for mask in legal):
        return None
    everything = np.ones(shape[1:], bool)
    stacked = [everything if mask is None else mask for mask in legal]
    return torch.from_numpy(np.stack(stacked))
