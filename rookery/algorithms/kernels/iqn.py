"""One pass of IQN's update with gradients by hand; `IqnLearner.compute_losses` defines it.

The names are those of Dabney et al. (2018): ψ(s) is the encoded observation, φ(τ) the
embedding of a quantile fraction, and ψ ⊙ φ goes through one more hidden layer. All that
follows the networks' outputs is one loop over transitions (`quantile_regression`).
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
from rookery.algorithms.kernels.cosines import (
    COSINES,
    cosines_of,
    write_cosines,
)
from rookery.algorithms.kernels.encoder import EncoderPass
from rookery.algorithms.kernels.layers import (
    Gradients,
    Linear,
    LinearRelu,
    NoisyLayers,
    parameters_of,
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
    from rookery.algorithms.iqn import IqnNetwork


class IqnPass:
    """A forward and a backward pass over a batch."""

    def __init__(
        self, network: IqnNetwork, group: Group, agent: Agent, ends: int, fixed_taus: Array
    ) -> None:
        """Allocate the buffers; `fixed_taus` are those that agents act by, (agents, K)."""
        assert isinstance(network.encoder, Encoder)
        settings = agent.settings
        self._parts, self._accumulate = settings.iqn, settings.gradient.accumulate
        self._network, batch = network, settings.batch_size
        self._quantiles, closing = settings.network.quantiles, batch * ends
        taus = (self._quantiles, fixed_taus)
        # Double: the online network's means choose the best actions where transitions
        # close. The gap needs the target network's means where they open.
        self._online = IqnNetworkPass(
            network,
            group.weights,
            taus,
            sampled=range(batch),
            averaged=range(batch, batch + closing if self._parts.double else batch),
            gradients=group.gradients,
        )
        opening = batch if self._parts.gap else 0
        self._target = IqnNetworkPass(
            network,
            group.target,
            taus,
            sampled=range(opening, opening + closing),
            averaged=range(opening),
        )
        self._first_target_row = batch - opening
        self.reads_nonzero = network.encoder.has_sparse_inputs
        """Whether inputs should be `Nonzero`."""
        shape = (len(group.agents), batch)
        self._d_outputs = torch.zeros(
            len(group.agents), batch * self._quantiles, self._online.outputs.shape[2]
        )
        self._errors, self._values = torch.zeros(shape), torch.zeros(shape)
        self._losses = torch.zeros(len(group.agents))
        self._scratch = np.empty((3, self._quantiles), np.float32)
        self._means = np.empty(network.actions, np.float32)

    def backpropagate(
        self,
        batch: StackedBatch,
        noise: tuple[Mapping[str, Noise], Mapping[str, Noise]],
        taus: Array,
    ) -> PassResult:
        """Write the group's gradients, divided by `gradient.accumulate`.

        Args:
            batch: the transitions.
            noise: of noisy layers, of the online and of the target network.
            taus: (agents, n) random fractions: N for each row where transitions open, then
                for each where they close.
        """
        parts = self._parts
        assert isinstance(batch, StackedPaths)
        online_noise, target_noise = noise
        inputs, sampled = batch.inputs, self._d_outputs.shape[1]
        self._online.forward(inputs, online_noise, taus, 0)
        first = self._first_target_row
        self._target.forward(inputs[:, first:], target_noise, taus, sampled)
        quantile_regression(
            self._online.outputs.numpy(),
            self._online.mean_outputs.numpy(),
            self._target.outputs.numpy(),
            self._target.mean_outputs.numpy(),
            taus,
            batch.actions.numpy(),
            batch.returns.numpy(),
            batch.discounts.numpy(),
            batch.importance.numpy(),
            mask_array(batch.legal),
            mask_array(batch.next_legal),
            batch.taken.numpy(),
            batch.continues.numpy(),
            self._network.actions,
            self._quantiles,
            self._network.dueling,
            np.float32(parts.retrace or 0.0),
            np.float32(parts.gap),
            np.float32(parts.threshold),
            np.float32(self._accumulate),
            self._scratch,
            self._means,
            self._d_outputs.numpy(),
            self._errors.numpy(),
            self._values.numpy(),
            self._losses.numpy(),
        )
        self._online.backward(self._d_outputs)
        return PassResult(self._losses, self._errors, self._values)


class IqnNetworkPass:
    """A pass through encoder, embedding of taus, hidden layer and quantiles.

    Some rows are given N sampled taus each. The others are given the K fixed taus, and the
    mean over these is taken before the last layer, which is linear.
    """

    def __init__(
        self,
        network: IqnNetwork,
        weights: Weights,
        taus: tuple[int, Array],
        sampled: range,
        averaged: range,
        gradients: Gradients | None = None,
    ) -> None:
        """Allocate the buffers.

        Args:
            network: whose pass it is.
            weights: of all layers; they may change in place between passes.
            taus: how many are sampled for a row, and the fixed ones, (agents, K).
            sampled: the rows of observations with sampled taus; the first rows if there
                is a backward pass, which goes through these only.
            averaged: the rows with fixed taus.
            gradients: of all layers; None if there is no backward pass.
        """
        assert isinstance(network.encoder, Encoder)
        quantiles, fixed_taus = taus
        sampled_rows = len(sampled) * quantiles
        rows, joined_rows = (
            len(sampled) + len(averaged),
            sampled_rows + len(averaged) * fixed_taus.shape[1],
        )
        self._rows = rows
        self._encoder = EncoderPass(
            network.encoder, LinearRelu, weights, rows, gradients, len(sampled)
        )
        self._embedding = TauEmbedding(weights, taus, sampled, averaged, gradients)
        self._noisy = NoisyLayers(network.noisy_layers, weights, gradients)
        noisy_weights = self._noisy.weights
        self._join = LinearRelu("join", noisy_weights, joined_rows, gradients, sampled_rows)
        self._values = Linear(
            "values", noisy_weights, sampled_rows, gradients, sampled_rows
        )
        self._mean_values = Linear("values", noisy_weights, len(averaged))
        agents, width, _ = weights["values.weight"].shape
        self._means = torch.empty(agents, len(averaged), width)
        self._sampled_rows, self._fixed = sampled_rows, fixed_taus.shape[1]
        self.outputs = self._values.outputs
        """(agents, sampled rows × N, outputs)."""
        self.mean_outputs = self._mean_values.outputs
        """(agents, averaged rows, outputs)."""

    def forward(
        self,
        observations: Tensor | Nonzero,
        noise: Mapping[str, Noise],
        taus: Array,
        first_tau: int,
    ) -> None:
        """Write `outputs` and `mean_outputs`."""
        self._noisy.sample(noise)
        encoded = self._encoder.forward(observations[:, : self._rows])
        joined = self._embedding.forward(encoded, taus, first_tau)
        hidden = self._join.forward(joined)
        self._values.forward(hidden[:, : self._sampled_rows])
        if self._means.numel():
            mean_over_taus(
                hidden.numpy(), self._sampled_rows, self._fixed, self._means.numpy()
            )
            self._mean_values.forward(self._means)

    def backward(self, d_outputs: Tensor) -> None:
        """Write all gradients; `d_outputs` is overwritten."""
        d_joined = self._join.backward(self._values.backward(d_outputs))
        self._encoder.backward(self._embedding.backward(d_joined))
        self._noisy.backward()


class TauEmbedding:
    """φ(τ) = max(cos(πiτ) W + b, 0), and its product with ψ(s)."""

    def __init__(
        self,
        weights: Weights,
        taus: tuple[int, Array],
        sampled: range,
        averaged: range,
        gradients: Gradients | None = None,
    ) -> None:
        quantiles, fixed_taus = taus
        self._weight, bias = parameters_of(weights, "fraction")
        self._bias = bias.numpy()
        # Contiguous whatever the size of the group, so that loops are compiled once.
        self._bias_copy = np.empty(self._bias.shape, np.float32)
        self._blocks = (sampled.start, len(sampled), quantiles, averaged.start)
        agents, _, width = self._weight.shape
        rows, fixed = len(sampled) * quantiles, fixed_taus.shape[1]
        self._rows = rows
        # After the rows of sampled taus come those of the fixed ones, the same every time.
        embedded = rows + (fixed if averaged else 0)
        self._cosines = torch.empty(agents, embedded, COSINES)
        if averaged:
            self._cosines[:, rows:] = torch.from_numpy(cosines_of(fixed_taus))
        self._embedded = torch.empty(agents, embedded, width)
        self._joined = torch.empty(agents, rows + len(averaged) * fixed, width)
        if gradients is not None:
            self._d_weight, d_bias = parameters_of(gradients, "fraction")
            self._d_bias_array = d_bias.numpy()
            self._d_bias = np.empty(d_bias.shape, np.float32)
            self._d_encoded = torch.empty(agents, len(sampled), width)

    def forward(self, encoded: Tensor, taus: Array, first_tau: int) -> Tensor:
        """Return ψ ⊙ φ: of every sampled row and tau, then of averaged rows."""
        self._encoded = encoded
        write_cosines(taus, first_tau, self._rows, self._cosines.numpy())
        torch.bmm(self._cosines, self._weight, out=self._embedded)
        np.copyto(self._bias_copy, self._bias)
        multiply_embedding(
            encoded.numpy(),
            self._embedded.numpy(),
            self._bias_copy,
            *self._blocks,
            self._joined.numpy(),
        )
        return self._joined

    def backward(self, d_joined: Tensor) -> Tensor:
        """Write the gradients of the parameters; return that of ψ(s).

        `d_joined` is overwritten.
        """
        multiply_embedding_backward(
            d_joined.numpy(),
            self._encoded.numpy(),
            self._embedded.numpy(),
            self._d_encoded.numpy(),
            self._d_bias,
        )
        np.copyto(self._d_bias_array, self._d_bias)
        torch.bmm(self._cosines[:, : self._rows].mT, d_joined, out=self._d_weight)
        return self._d_encoded


@kernel
def multiply_embedding(
    encoded: Array,
    embedded: Array,
    bias: Array,
    first_sampled: int,
    sampled: int,
    quantiles: int,
    first_averaged: int,
    joined: Array,
) -> None:
    """Write products of encoded observations and embedded taus.

    Args:
        encoded: (agents, rows, width).
        embedded: (agents, taus, width) before bias and ReLU, which are applied in place:
            `quantiles` for each sampled row, then the fixed ones.
        bias: (agents, 1, width).
        first_sampled: the first row with sampled taus.
        sampled: how many there are.
        quantiles: taus of such a row.
        first_averaged: the first row with the fixed taus.
        joined: (agents, products, width), written.
    """
    zero = np.float32(0)
    agents, taus, width = embedded.shape
    first_fixed = sampled * quantiles
    fixed = taus - first_fixed
    for a in range(agents):
        b = bias[a, 0]
        for t in range(taus):
            phi = embedded[a, t]
            for u in range(width):
                total = phi[u] + b[u]
                phi[u] = zero if total < zero else total
        for row in range(first_fixed):
            psi, phi = encoded[a, first_sampled + row // quantiles], embedded[a, row]
            product = joined[a, row]
            for u in range(width):
                product[u] = psi[u] * phi[u]
        for row in range(first_fixed, joined.shape[1]):
            other = (row - first_fixed) // fixed
            k = row - first_fixed - other * fixed
            psi, phi = encoded[a, first_averaged + other], embedded[a, first_fixed + k]
            product = joined[a, row]
            for u in range(width):
                product[u] = psi[u] * phi[u]


@kernel
def multiply_embedding_backward(
    d_joined: Array, encoded: Array, embedded: Array, d_encoded: Array, d_bias: Array
) -> None:
    """Write the gradients of ψ, of the embedding before its ReLU, and of its bias.

    Args:
        d_joined: (agents, rows × N, width), overwritten by the embedding's gradient.
        encoded: ψ, (agents, rows or more, width).
        embedded: φ, (agents, rows × N or more, width).
        d_encoded: (agents, rows, width), written.
        d_bias: (agents, 1, width), written.
    """
    zero = np.float32(0)
    agents, rows, width = d_encoded.shape
    quantiles = d_joined.shape[1] // rows
    for a in range(agents):
        d_b = d_bias[a, 0]
        for u in range(width):
            d_b[u] = zero
        for r in range(rows):
            psi, d_psi = encoded[a, r], d_encoded[a, r]
            for u in range(width):
                d_psi[u] = zero
            for t in range(r * quantiles, (r + 1) * quantiles):
                phi, d_phi = embedded[a, t], d_joined[a, t]
                for u in range(width):
                    d_psi[u] += d_phi[u] * phi[u]
                    gradient = d_phi[u] * psi[u] if phi[u] > zero else zero
                    d_phi[u] = gradient
                    d_b[u] += gradient


@kernel
def mean_over_taus(hidden: Array, first: int, quantiles: int, means: Array) -> None:
    """Write means over every `quantiles` rows from `first` on, (agents, rows, width)."""
    agents, rows, width = means.shape
    share = np.float32(1) / np.float32(quantiles)
    for a in range(agents):
        for r in range(rows):
            mean = means[a, r]
            for u in range(width):
                mean[u] = np.float32(0)
            for k in range(quantiles):
                h = hidden[a, first + r * quantiles + k]
                for u in range(width):
                    mean[u] += h[u]
            for u in range(width):
                mean[u] *= share


@kernel
def quantile_regression(
    outputs: Array,
    mean_outputs: Array,
    target_outputs: Array,
    target_mean_outputs: Array,
    taus: Array,
    actions: Array,
    returns: Array,
    discounts: Array,
    importance: Array,
    legal: Array,
    next_legal: Array,
    taken: Array,
    continues: Array,
    num_actions: int,
    quantiles: int,
    dueling: bool,
    decay: Scalar,
    gap: Scalar,
    threshold: Scalar,
    accumulate: Scalar,
    scratch: Array,
    means: Array,
    d_outputs: Array,
    errors: Array,
    values: Array,
    losses: Array,
) -> None:
    """Write losses, errors of means, values, and the gradient of the losses.

    Args:
        outputs: (agents, batch × N, outputs) of the online network.
        mean_outputs: (agents, batch × ends, outputs) of the online network where
            transitions close; without rows if the target network chooses the best actions.
        target_outputs: (agents, batch × ends × N, outputs) of the target network.
        target_mean_outputs: (agents, batch, outputs) of the target network where
            transitions open; without rows if there is no gap.
        taus: (agents, batch × N or more) the fractions of `outputs`.
        actions: (agents, batch).
        returns: (agents, batch × ends); so are the discounts.
        discounts: of the value where a transition closes.
        importance: (agents, batch) weights of the losses.
        legal: (agents, batch, actions); empty if all actions are legal.
        next_legal: (agents, batch × ends, actions).
        taken: (agents, batch, ends) the actions that Retrace's paths continue with.
        continues: (agents, batch, ends) whether they do.
        num_actions: how many of the outputs are of actions.
        quantiles: N.
        dueling: whether the output after those is a state value.
        decay: Retrace's λ.
        gap: coefficient of the action gap (advantage learning).
        threshold: κ of the quantile Huber loss.
        accumulate: what gradients are divided by.
        scratch: (3, N), overwritten; and so are the means.
        means: (actions or more,).
        d_outputs: (agents, batch × N, outputs), written.
        errors: (agents, batch), written.
        values: (agents, batch), written.
        losses: (agents,), written.
    """
    zero, one = np.float32(0), np.float32(1)
    agents, batch = actions.shape
    ends = returns.shape[1] // batch
    count, each = np.float32(batch), one / np.float32(quantiles)
    estimates, slopes, hubers = scratch[0], scratch[1], scratch[2]
    for a in range(agents):
        loss = zero
        for b in range(batch):
            action, first = actions[a, b], b * quantiles
            of_taus = outputs[a, first : first + quantiles]
            tau = taus[a, first : first + quantiles]
            value = zero
            for i in range(quantiles):
                estimates[i] = value_of(of_taus[i], action, num_actions, dueling)
                value += estimates[i]
                slopes[i] = hubers[i] = zero
            value *= each
            shift = zero
            if gap > zero:
                advantages = target_mean_outputs[a, b]
                best = best_action(advantages, legal, a, b, num_actions)
                shift = gap * (advantages[best] - advantages[action])
            mean_target, reached = zero, one
            for end in range(ends):
                closing = b * ends + end
                of_next = target_outputs[a, closing * quantiles : (closing + 1) * quantiles]
                if mean_outputs.shape[1]:
                    of_choice = mean_outputs[a, closing]
                else:
                    add_rows(of_next, num_actions, means)
                    of_choice = means
                best = best_action(of_choice, next_legal, a, closing, num_actions)
                c = zero
                if continues[a, b, end] and best == taken[a, b, end]:
                    c = decay
                share = reached * (one - c) * each
                reached *= c
                for j in range(quantiles):
                    bootstrap = value_of(of_next[j], best, num_actions, dueling)
                    target = returns[a, closing] + discounts[a, closing] * bootstrap - shift
                    mean_target += share * target
                    add_quantile_huber(
                        target, estimates, tau, quantiles, share, threshold, slopes, hubers
                    )
            scale = importance[a, b] / (count * accumulate)
            for i in range(quantiles):
                loss += importance[a, b] * hubers[i]
                row = d_outputs[a, first + i]
                value_backward(-slopes[i] * scale, action, num_actions, dueling, row)
            errors[a, b], values[a, b] = abs(mean_target - value), value
        losses[a] = loss / count


@kernel
def add_rows(rows: Array, count: int, total: Array) -> None:
    """Write the sum of rows; only so many of their columns."""
    for i in range(count):
        total[i] = np.float32(0)
    for r in range(len(rows)):
        for i in range(count):
            total[i] += rows[r, i]


@kernel
def add_quantile_huber(
    target: Scalar,
    estimates: Array,
    taus: Array,
    quantiles: int,
    share: Scalar,
    threshold: Scalar,
    slopes: Array,
    hubers: Array,
) -> None:
    """Add the quantile Huber loss between one target and all estimates, and its slope.

    `share` is the target's weight. The slope is that of the loss as the target rises.
    """
    zero, one, half = np.float32(0), np.float32(1), np.float32(0.5)
    for i in range(quantiles):
        error = target - estimates[i]
        weight = share / threshold * (one - taus[i] if error < zero else taus[i])
        near = min(max(error, -threshold), threshold)
        slopes[i] += near * weight
        hubers[i] += (error - half * near) * near * weight
