"""One pass of DQN's update with gradients by hand; `DqnLearner.compute_losses` defines it.

All that follows the networks' outputs is one loop over transitions (`temporal_difference`):
targets, the Huber loss, and its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.common.batches import StackedBatch, StackedPaths
from rookery.algorithms.common.group import Group
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.kernels.encoder import (
    EncoderPass,
    nonzero_buffer,
    read_observations,
)
from rookery.algorithms.kernels.layers import (
    Gradients,
    Linear,
    LinearRelu,
    NoisyLayers,
)
from rookery.algorithms.kernels.sparse import Nonzero
from rookery.algorithms.kernels.values import (
    best_action,
    mask_array,
    value_backward,
    value_of,
)
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import Noise, Weights
from rookery.kernels import Scalar, kernel
from rookery.specs import Array

if TYPE_CHECKING:
    from rookery.algorithms.dqn import DqnNetwork


class DqnPass:
    """A forward and a backward pass over a batch."""

    def __init__(self, network: DqnNetwork, group: Group, agent: Agent, ends: int) -> None:
        assert isinstance(network.encoder, Encoder)
        settings = agent.settings
        self._parts, self._accumulate = settings.dqn, settings.gradient.accumulate
        self._network, batch = network, settings.batch_size
        closing = batch * ends
        # Double: the online network chooses the best actions where transitions close.
        rows = batch + closing if self._parts.double else batch
        self._online = DqnNetworkPass(
            network, group.weights, rows, group.gradients, gradient_rows=batch
        )
        # The gap needs the target network's values where transitions open, too.
        self._first_target_row = 0 if self._parts.gap else batch
        self._target = DqnNetworkPass(
            network, group.target, batch + closing - self._first_target_row
        )
        self._rows = rows
        self._nonzero = nonzero_buffer(network.encoder, len(group.agents), batch + closing)
        shape = (len(group.agents), batch)
        self._d_outputs = torch.zeros(*shape, self._online.outputs.shape[2])
        self._errors, self._values = torch.zeros(shape), torch.zeros(shape)
        self._losses = torch.zeros(len(group.agents))

    def backpropagate(
        self,
        batch: StackedBatch,
        noise: tuple[Mapping[str, Noise], Mapping[str, Noise]],
    ) -> PassResult:
        """Write the group's gradients, divided by `gradient.accumulate`.

        Args:
            batch: the transitions.
            noise: of noisy layers, of the online and of the target network.
        """
        online_noise, target_noise = noise
        observations = read_observations(batch.observations, self._nonzero)
        first = self._first_target_row
        outputs = self._online.forward(observations[:, : self._rows], online_noise)
        targets = self._target.forward(observations[:, first:], target_noise)
        parts = self._parts
        assert isinstance(batch, StackedPaths)
        temporal_difference(
            outputs.numpy(),
            targets.numpy(),
            batch.actions.numpy(),
            batch.returns.numpy(),
            batch.discounts.numpy(),
            batch.importance.numpy(),
            mask_array(batch.legal),
            mask_array(batch.next_legal),
            batch.taken.numpy(),
            batch.continues.numpy(),
            self._network.actions,
            self._network.dueling,
            parts.double,
            np.float32(parts.retrace or 0.0),
            np.float32(parts.gap),
            np.float32(parts.threshold),
            np.float32(self._accumulate),
            self._d_outputs.numpy(),
            self._errors.numpy(),
            self._values.numpy(),
            self._losses.numpy(),
        )
        self._online.backward(self._d_outputs)
        return PassResult(self._losses, self._errors, self._values)


class DqnNetworkPass:
    """A pass through encoder, hidden layer and action values; the last two can be noisy."""

    def __init__(
        self,
        network: DqnNetwork,
        weights: Weights,
        rows: int,
        gradients: Gradients | None = None,
        gradient_rows: int = 0,
    ) -> None:
        assert isinstance(network.encoder, Encoder)
        backward = (gradients, gradient_rows)
        self._encoder = EncoderPass(network.encoder, LinearRelu, weights, rows, *backward)
        self._noisy = NoisyLayers(network.noisy_layers, weights, gradients)
        sampled = self._noisy.weights
        self._hidden = LinearRelu("hidden", sampled, rows, *backward)
        self._values = Linear("values", sampled, rows, *backward)
        self.outputs = self._values.outputs

    def forward(self, observations: Tensor | Nonzero, noise: Mapping[str, Noise]) -> Tensor:
        """Return the last layer's outputs, (agents, rows, outputs)."""
        self._noisy.sample(noise)
        return self._values.forward(
            self._hidden.forward(self._encoder.forward(observations))
        )

    def backward(self, d_outputs: Tensor) -> None:
        """Write all gradients; `d_outputs` is overwritten."""
        self._encoder.backward(self._hidden.backward(self._values.backward(d_outputs)))
        self._noisy.backward()


@kernel
def temporal_difference(
    outputs: Array,
    target_outputs: Array,
    actions: Array,
    returns: Array,
    discounts: Array,
    importance: Array,
    legal: Array,
    next_legal: Array,
    taken: Array,
    continues: Array,
    num_actions: int,
    dueling: bool,
    double: bool,
    decay: Scalar,
    gap: Scalar,
    threshold: Scalar,
    accumulate: Scalar,
    d_outputs: Array,
    errors: Array,
    values: Array,
    losses: Array,
) -> None:
    """Write losses, absolute errors, values, and the gradient of the losses.

    Args:
        outputs: (agents, rows, outputs) of the online network: where transitions open and,
            if double, where they close.
        target_outputs: of the target network: with a gap, where transitions open, then
            where they close.
        actions: (agents, batch).
        returns: (agents, batch × ends); so are the discounts.
        discounts: of the value where a transition closes.
        importance: (agents, batch) weights of the losses.
        legal: (agents, batch, actions); empty if all actions are legal.
        next_legal: (agents, batch × ends, actions).
        taken: (agents, batch, ends) the actions that Retrace's paths continue with.
        continues: (agents, batch, ends) whether they do.
        num_actions: how many of the outputs are of actions.
        dueling: whether the output after those is a state value.
        double: whether the online network chooses the best actions.
        decay: Retrace's λ; 0 without Retrace.
        gap: coefficient of the action gap (advantage learning).
        threshold: κ of the Huber loss.
        accumulate: what gradients are divided by.
        d_outputs: (agents, batch, outputs), written.
        errors: (agents, batch), written.
        values: (agents, batch), written.
        losses: (agents,), written.
    """
    zero, one, half = np.float32(0), np.float32(1), np.float32(0.5)
    agents, batch = actions.shape
    ends, count = returns.shape[1] // batch, np.float32(batch)
    opening = batch if gap > zero else 0
    for a in range(agents):
        loss = zero
        for b in range(batch):
            target, reached = zero, one
            for end in range(ends):
                row = b * ends + end
                of_target = target_outputs[a, opening + row]
                of_choice = outputs[a, batch + row] if double else of_target
                best = best_action(of_choice, next_legal, a, row, num_actions)
                value = value_of(of_target, best, num_actions, dueling)
                c = zero
                if continues[a, b, end] and best == taken[a, b, end]:
                    c = decay
                bootstrap = returns[a, row] + discounts[a, row] * value
                target += reached * (one - c) * bootstrap
                reached *= c
            action = actions[a, b]
            if gap > zero:
                advantages = target_outputs[a, b]
                best = best_action(advantages, legal, a, b, num_actions)
                target -= gap * (advantages[best] - advantages[action])
            value = value_of(outputs[a, b], action, num_actions, dueling)
            error = target - value
            size = abs(error)
            near = min(size, threshold)
            loss += importance[a, b] * ((size - half * near) * near / threshold)
            slope = min(max(error, -threshold), threshold) / threshold
            d_value = -slope * importance[a, b] / (count * accumulate)
            value_backward(d_value, action, num_actions, dueling, d_outputs[a, b])
            errors[a, b], values[a, b] = size, value
        losses[a] = loss / count
