"""One pass of DQN's update with gradients by hand; `DqnLearner.compute_losses` defines it.

Agents are computed one after the other: both networks forwards, one loop over transitions
(`temporal_difference`: targets, the Huber loss and its gradient), and backwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from rookery.algorithms.base import WEIGHTS, Agent
from rookery.algorithms.common.batches import StackedBatch, StackedPaths
from rookery.algorithms.common.group import Group
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.kernels.layers import NoisyParameters
from rookery.algorithms.kernels.network import (
    Network,
    ObservationReader,
    Observed,
    Scratch,
    backward,
    forward,
    network_of,
    outputs_of,
    scratch_of,
)
from rookery.algorithms.kernels.values import (
    best_action,
    mask_array,
    value_backward,
    value_of,
)
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import Noise
from rookery.kernels import Scalar, kernel
from rookery.specs import Array

if TYPE_CHECKING:
    from rookery.algorithms.dqn import DqnNetwork


class DqnPass:
    """A forward and a backward pass over a batch."""

    def __init__(self, network: DqnNetwork, group: Group, agent: Agent, ends: int) -> None:
        assert isinstance(network.encoder, Encoder)
        settings, agents = agent.settings, len(group.agents)
        parts, batch = settings.dqn, settings.batch_size
        rows = batch * (1 + ends)
        self._network = network_of(
            network.encoder, network.parameters, ["hidden", "values"]
        )
        self.reads_nonzero = network.encoder.has_sparse_inputs
        """Whether inputs should be `Nonzero`."""
        self._reader = ObservationReader(network.encoder, self._network, agents, rows)
        self._group = group
        layout = (network.noisy_layers, network.parameters)
        self._online = NoisyParameters(*layout, group.arrays[WEIGHTS], group.gradients)
        self._target = NoisyParameters(*layout, group.arrays["target"])
        # Double: the online network chooses the best actions where transitions close. The
        # gap needs the target network's values where they open.
        first = 0 if parts.gap else batch
        self._buffers = (
            scratch_of(self._network, rows if parts.double else batch),
            scratch_of(self._network, rows - first),
            scratch_of(self._network, batch),
        )
        self._settings = (
            first,
            network.actions,
            network.dueling,
            parts.double,
            np.float32(parts.retrace or 0.0),
            np.float32(parts.gap),
            np.float32(parts.threshold),
            np.float32(settings.gradient.accumulate),
        )
        self._result = PassResult(
            torch.zeros(agents), torch.zeros(agents, batch), torch.zeros(agents, batch)
        )
        self._results = (
            self._result.errors.numpy(),
            self._result.values.numpy(),
            self._result.loss.numpy(),
        )

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
        assert isinstance(batch, StackedPaths)
        online_noise, target_noise = noise
        learn(
            self._network,
            self._group.arrays[WEIGHTS],
            self._online.sample(online_noise),
            self._group.arrays["target"],
            self._target.sample(target_noise),
            self._reader.read(batch.inputs),
            batch.actions.numpy(),
            batch.returns.numpy(),
            batch.discounts.numpy(),
            batch.importance.numpy(),
            mask_array(batch.legal),
            mask_array(batch.next_legal),
            batch.taken.numpy(),
            batch.continues.numpy(),
            *self._settings,
            *self._buffers,
            self._group.gradient,
            *self._results,
        )
        self._online.backward()
        return self._result


@kernel
def learn(
    network: Network,
    weights: Array,
    noisy: Array,
    target: Array,
    noisy_target: Array,
    observed: Observed,
    actions: Array,
    returns: Array,
    discounts: Array,
    importance: Array,
    legal: Array,
    next_legal: Array,
    taken: Array,
    continues: Array,
    first_target_row: int,
    num_actions: int,
    dueling: bool,
    double: bool,
    decay: Scalar,
    gap: Scalar,
    threshold: Scalar,
    accumulate: Scalar,
    online_scratch: Scratch,
    target_scratch: Scratch,
    d_scratch: Scratch,
    gradient: Array,
    errors: Array,
    values: Array,
    losses: Array,
) -> None:
    """Write the gradients of all agents, and what `temporal_difference` writes.

    Args:
        network: the layers.
        weights: (agents, parameters) of the online network.
        noisy: the same with noise.
        target: (agents, parameters) of the target network.
        noisy_target: the same with noise.
        observed: all rows in which transitions open, then those in which they close.
        actions: see `temporal_difference`, also for the rest.
        returns: …
        discounts: …
        importance: …
        legal: …
        next_legal: …
        taken: …
        continues: …
        first_target_row: the first row that the target network is applied to.
        num_actions: …
        dueling: …
        double: …
        decay: …
        gap: …
        threshold: …
        accumulate: …
        online_scratch: for a forward pass of the online network.
        target_scratch: for one of the target network.
        d_scratch: for a backward pass.
        gradient: (agents, parameters), written.
        errors: …
        values: …
        losses: …
    """
    agents, batch = actions.shape
    rows = observed.dense.shape[1]
    online_rows = rows if double else batch
    target_rows = rows - first_target_row
    for a in range(agents):
        outputs = forward(
            network, weights[a], noisy[a], observed, a, 0, online_rows, online_scratch
        )
        target_outputs = forward(
            network,
            target[a],
            noisy_target[a],
            observed,
            a,
            first_target_row,
            target_rows,
            target_scratch,
        )
        d_outputs = outputs_of(
            network.layers[len(network.layers) - 1], d_scratch.outputs, batch
        )
        losses[a] = temporal_difference(
            a,
            outputs,
            target_outputs,
            actions[a],
            returns[a],
            discounts[a],
            importance[a],
            legal,
            next_legal,
            taken[a],
            continues[a],
            num_actions,
            dueling,
            double,
            decay,
            gap,
            threshold,
            accumulate,
            d_outputs,
            errors[a],
            values[a],
        )
        backward(
            network,
            weights[a],
            noisy[a],
            observed,
            a,
            online_scratch,
            d_outputs,
            d_scratch,
            gradient[a],
        )


@kernel
def temporal_difference(
    agent: int,
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
) -> Scalar:
    """Return an agent's loss; write its gradient, absolute errors and values.

    Args:
        agent: its place in the group.
        outputs: (rows, outputs) of the online network: where transitions open and, if
            double, where they close.
        target_outputs: of the target network: with a gap, where transitions open, then
            where they close.
        actions: (batch,).
        returns: (batch × ends,); so are the discounts.
        discounts: of the value where a transition closes.
        importance: (batch,) weights of the losses.
        legal: (agents, batch, actions); empty if all actions are legal.
        next_legal: (agents, batch × ends, actions).
        taken: (batch, ends) the actions that Retrace's paths continue with.
        continues: (batch, ends) whether they do.
        num_actions: how many of the outputs are of actions.
        dueling: whether the output after those is a state value.
        double: whether the online network chooses the best actions.
        decay: Retrace's λ; 0 without Retrace.
        gap: coefficient of the action gap (advantage learning).
        threshold: κ of the Huber loss.
        accumulate: what gradients are divided by.
        d_outputs: (batch, outputs), written.
        errors: (batch,), written.
        values: (batch,), written.
    """
    zero, one, half = np.float32(0), np.float32(1), np.float32(0.5)
    batch = len(actions)
    ends, count = len(returns) // batch, np.float32(batch)
    opening = batch if gap > zero else 0
    loss = zero
    for b in range(batch):
        goal, reached = zero, one
        for end in range(ends):
            row = b * ends + end
            of_target = target_outputs[opening + row]
            of_choice = outputs[batch + row] if double else of_target
            best = best_action(of_choice, next_legal, agent, row, num_actions)
            c = zero
            if continues[b, end] and best == taken[b, end]:
                c = decay
            value = value_of(of_target, best, num_actions, dueling)
            goal += reached * (one - c) * (returns[row] + discounts[row] * value)
            reached *= c
        action = actions[b]
        if gap > zero:
            advantages = target_outputs[b]
            best = best_action(advantages, legal, agent, b, num_actions)
            goal -= gap * (advantages[best] - advantages[action])
        value = value_of(outputs[b], action, num_actions, dueling)
        error = goal - value
        size = abs(error)
        near = min(size, threshold)
        loss += importance[b] * ((size - half * near) * near / threshold)
        slope = min(max(error, -threshold), threshold) / threshold
        d_value = -slope * importance[b] / (count * accumulate)
        value_backward(d_value, action, num_actions, dueling, d_outputs[b])
        errors[b], values[b] = size, value
    return loss / count
