"""PPO's and V-trace's passes with gradients by hand; `compute_losses` defines them.

All that follows the policy's probabilities is one loop over transitions
(`actor_critic_losses`): policy, entropy and value losses, and their gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.common.group import Group
from rookery.algorithms.common.losses import FAR_BELOW
from rookery.algorithms.common.rollout import Minibatch, Rollout
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.kernels.encoder import EncoderPass
from rookery.algorithms.kernels.layers import Linear, LinearTanh
from rookery.algorithms.kernels.values import mask_array
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import padded
from rookery.config.agent import ActorCriticParts, PpoConfig, VtraceConfig
from rookery.kernels import Scalar, kernel
from rookery.specs import Array

if TYPE_CHECKING:
    from rookery.algorithms.ppo import PpoNetwork

ILLEGAL = np.float32(FAR_BELOW)
"""The logit of an illegal action, whose probability is then exactly 0."""


class ActorCriticPass:
    """Passes over as many rows of every agent as a minibatch has."""

    def __init__(
        self, network: PpoNetwork, group: Group, parts: ActorCriticParts, rows: int
    ) -> None:
        self.rows, self._parts, self._actions = rows, parts, network.actions
        self._network = ActorCriticNetworkPass(network, group, rows)
        agents = len(group.agents)
        self._policy = SoftmaxPass(agents, rows, network.actions)
        self._d_logits = torch.zeros(self._network.logits.shape)
        self._d_values = torch.zeros(self._network.values.shape)
        self._errors, self._values = torch.zeros(agents, rows), torch.zeros(agents, rows)
        self._losses = torch.zeros(agents)

    def values(self, inputs: Array) -> Array:
        """Return values (agents, slots) of inputs (agents, slots, features)."""
        values = np.zeros(inputs.shape[:2], np.float32)
        for chunk in self._chunks(inputs.shape[1]):
            outputs = self._network.value(_part(inputs, chunk))
            values[:, chunk] = outputs[..., 0].numpy()
        return values

    def ratios_and_values(self, rollout: Rollout) -> tuple[Array, Array]:
        """Return π(a | s) / μ(a | s) and values where transitions open, (agents, slots)."""
        ratios, values = np.zeros((2, *rollout.actions.shape), np.float32)
        for chunk in self._chunks(rollout.actions.shape[1]):
            logits, outputs = self._network.forward(_part(rollout.inputs, chunk))
            legal = None if rollout.legal is None else _part(rollout.legal, chunk)
            self._policy.forward(
                logits,
                legal,
                _part(rollout.actions, chunk),
                _part(rollout.old_log_probs, chunk),
            )
            ratios[:, chunk] = self._policy.ratios[:, : self.rows]
            values[:, chunk] = outputs[..., 0].numpy()
        return ratios, values

    def _chunks(self, slots: int) -> Iterator[slice]:
        """Split slots into parts of `rows`; the last overlaps if it would be shorter."""
        for start in range(0, slots, self.rows):
            first = min(start, slots - self.rows)
            yield slice(first, first + self.rows)

    def backpropagate(self, minibatch: Minibatch) -> PassResult:
        """Write the group's gradients."""
        logits, values = self._network.forward(minibatch.inputs)
        policy, actions = self._policy, minibatch.actions
        policy.forward(logits, minibatch.legal, actions, minibatch.old_log_probs)
        low, high = ratio_bounds(self._parts)
        actor_critic_losses(
            policy.probs,
            policy.log_probs,
            policy.ratios,
            values.numpy(),
            actions.numpy(),
            minibatch.advantages.numpy(),
            minibatch.returns.numpy(),
            minibatch.weights.numpy(),
            self._actions,
            isinstance(self._parts, VtraceConfig),
            low,
            high,
            np.float32(self._parts.entropy),
            np.float32(self._parts.value),
            self._d_logits.numpy(),
            self._d_values.numpy(),
            self._errors.numpy(),
            self._values.numpy(),
            self._losses.numpy(),
        )
        self._network.backward(self._d_logits, self._d_values)
        return PassResult(self._losses, self._errors, self._values)


def _part(array: Array, chunk: slice) -> Tensor:
    """Return some slots of every agent, contiguous whatever the size of the group."""
    return torch.from_numpy(np.ascontiguousarray(array[:, chunk]))


def ratio_bounds(parts: ActorCriticParts) -> tuple[Scalar, Scalar]:
    """Return the bounds of the probability ratio: PPO's 1 ± clip, V-trace's 0 and rho."""
    if isinstance(parts, VtraceConfig):
        return np.float32(0), np.float32(parts.rho_bar)
    assert isinstance(parts, PpoConfig)
    return np.float32(1.0 - parts.clip), np.float32(1.0 + parts.clip)


class ActorCriticNetworkPass:
    """A pass through the encoder and both heads: action logits and a value."""

    def __init__(self, network: PpoNetwork, group: Group, rows: int) -> None:
        assert isinstance(network.encoder, Encoder)
        layers = (group.weights, rows, group.gradients, rows)
        self._encoder = EncoderPass(network.encoder, LinearTanh, *layers)
        self._choose, self._value = Linear("choose", *layers), Linear("value", *layers)
        self.logits, self.values = self._choose.outputs, self._value.outputs

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (agents, rows, actions) and values (agents, rows, 1), padded."""
        hidden = self._encoder.forward(inputs)
        return self._choose.forward(hidden), self._value.forward(hidden)

    def value(self, inputs: Tensor) -> Tensor:
        """Return values (agents, rows, 1), padded."""
        return self._value.forward(self._encoder.forward(inputs))

    def backward(self, d_logits: Tensor, d_values: Tensor) -> None:
        """Write all gradients."""
        d_hidden = self._choose.backward(d_logits)
        d_hidden += self._value.backward(d_values)
        self._encoder.backward(d_hidden)


class SoftmaxPass:
    """Probabilities of actions, and by how much those that were taken have changed.

    exp and log run over arrays in which each agent has a multiple of 16 numbers, so that
    bits do not depend on where the agent is in its group.
    """

    def __init__(self, agents: int, rows: int, actions: int) -> None:
        self._actions = actions
        shape = (agents, rows, padded(actions))
        self.probs, self.log_probs = (np.zeros(shape, np.float32) for _ in range(2))
        """(agents, rows, actions), padded."""
        self._sums, self._log_sums, self._log_ratios, self.ratios = (
            np.ones((agents, padded(rows)), np.float32) for _ in range(4)
        )
        """(agents, rows), padded: π(a | s) / μ(a | s), now and when the agent acted."""

    def forward(
        self, logits: Tensor, legal: Tensor | None, actions: Tensor, old_log_probs: Tensor
    ) -> None:
        """Compute all from logits (agents, rows, actions), padded."""
        shifted = self.log_probs
        shift_logits(logits.numpy(), mask_array(legal), self._actions, shifted)
        np.exp(shifted, out=self.probs)
        normalise(self.probs, self._actions, self._sums)
        np.log(self._sums, out=self._log_sums)
        log_ratios(
            self.log_probs,
            self._log_sums,
            actions.numpy(),
            old_log_probs.numpy(),
            self._actions,
            self._log_ratios,
        )
        np.exp(self._log_ratios, out=self.ratios)


@kernel
def shift_logits(logits: Array, legal: Array, num_actions: int, shifted: Array) -> None:
    """Write logits less their largest; illegal ones are far below.

    `legal` is (agents, rows, actions). An empty mask, or one without a legal action in a
    row, allows all.
    """
    agents, rows, _ = logits.shape
    for a in range(agents):
        for r in range(rows):
            any_legal = False
            if legal.size:
                for i in range(num_actions):
                    any_legal |= legal[a, r, i]
            z, y = logits[a, r], shifted[a, r]
            largest = ILLEGAL
            for i in range(num_actions):
                y[i] = ILLEGAL if any_legal and not legal[a, r, i] else z[i]
                largest = y[i] if i == 0 or y[i] > largest else largest
            for i in range(num_actions):
                y[i] -= largest


@kernel
def normalise(probs: Array, num_actions: int, sums: Array) -> None:
    """Divide exponentials by their sums, which are written as well."""
    agents, rows, _ = probs.shape
    for a in range(agents):
        for r in range(rows):
            p, total = probs[a, r], np.float32(0)
            for i in range(num_actions):
                total += p[i]
            for i in range(num_actions):
                p[i] /= total
            sums[a, r] = total


@kernel
def log_ratios(
    log_probs: Array,
    log_sums: Array,
    actions: Array,
    old_log_probs: Array,
    num_actions: int,
    ratios: Array,
) -> None:
    """Subtract the logarithms of sums from shifted logits; write log π(a | s) − log μ."""
    agents, rows, _ = log_probs.shape
    for a in range(agents):
        for r in range(rows):
            for i in range(num_actions):
                log_probs[a, r, i] -= log_sums[a, r]
            ratios[a, r] = log_probs[a, r, actions[a, r]] - old_log_probs[a, r]


@kernel
def actor_critic_losses(
    probs: Array,
    log_probs: Array,
    ratios: Array,
    state_values: Array,
    actions: Array,
    advantages: Array,
    returns: Array,
    weights: Array,
    num_actions: int,
    is_vtrace: bool,
    low: Scalar,
    high: Scalar,
    entropy_coefficient: Scalar,
    value_coefficient: Scalar,
    d_logits: Array,
    d_values: Array,
    errors: Array,
    values: Array,
    losses: Array,
) -> None:
    """Write losses, absolute errors, values, and the gradient of the losses.

    Errors and values are scaled so that their means are over transitions, without slots
    of weight 0.

    Args:
        probs: (agents, rows, actions), padded.
        log_probs: their logarithms.
        ratios: (agents, rows) or more: π(a | s) / μ(a | s).
        state_values: (agents, rows, 1), padded.
        actions: (agents, rows).
        advantages: (agents, rows).
        returns: (agents, rows), the targets of values.
        weights: (agents, rows): 1 for a transition, 0 for an unused slot.
        num_actions: how many of the columns are actions.
        is_vtrace: whether the policy's loss is V-trace's, or PPO's.
        low: lower bound of the ratio.
        high: upper bound of the ratio.
        entropy_coefficient: of the entropy bonus.
        value_coefficient: of the value loss.
        d_logits: (agents, rows, actions), padded; written.
        d_values: (agents, rows, 1), padded; written.
        errors: (agents, rows), written.
        values: (agents, rows), written.
        losses: (agents,), written.
    """
    zero, one, two = np.float32(0), np.float32(1), np.float32(2)
    agents, rows = actions.shape
    for a in range(agents):
        transitions = zero
        for r in range(rows):
            transitions += weights[a, r]
        transitions = max(transitions, one)
        loss = zero
        for r in range(rows):
            share = weights[a, r] / transitions
            p, log_p, d_z = probs[a, r], log_probs[a, r], d_logits[a, r]
            action = actions[a, r]
            if share == zero:
                for i in range(num_actions):
                    d_z[i] = zero
                d_values[a, r, 0] = errors[a, r] = values[a, r] = zero
                continue
            policy_loss, d_log_prob = policy_term(
                log_p[action], ratios[a, r], advantages[a, r], is_vtrace, low, high
            )
            entropy = zero
            for i in range(num_actions):
                entropy -= p[i] * log_p[i]
            for i in range(num_actions):
                d_entropy = -p[i] * (log_p[i] + entropy)
                d_z[i] = -share * (entropy_coefficient * d_entropy + d_log_prob * p[i])
            d_z[action] += share * d_log_prob
            value = state_values[a, r, 0]
            error = returns[a, r] - value
            d_values[a, r, 0] = -share * value_coefficient * two * error
            value_loss = value_coefficient * error * error
            loss += share * (policy_loss - entropy_coefficient * entropy + value_loss)
            used = share * np.float32(rows)
            errors[a, r], values[a, r] = abs(error) * used, value * used
        losses[a] = loss


@kernel
def policy_term(
    log_prob: Scalar,
    ratio: Scalar,
    advantage: Scalar,
    is_vtrace: bool,
    low: Scalar,
    high: Scalar,
) -> tuple[Scalar, Scalar]:
    """Return the policy loss of a transition, and its derivative by log π(a | s)."""
    bounded = low if ratio < low else high if ratio > high else ratio
    if is_vtrace:  # the importance weight is a constant
        return -bounded * advantage * log_prob, -bounded * advantage
    if ratio * advantage <= bounded * advantage:
        return -ratio * advantage, -ratio * advantage
    return -bounded * advantage, np.float32(0)
