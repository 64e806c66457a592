"""One pass of IQN's update with gradients by hand; `IqnLearner.compute_losses` defines it.

The names are those of Dabney et al. (2018): ψ(s) is the encoded observation, φ(τ) the
embedding of a quantile fraction, and ψ ⊙ φ goes through one more hidden layer. Agents are
computed one after the other: both networks forwards, one loop over transitions
(`quantile_regression`), and backwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from rookery.algorithms.base import WEIGHTS, Agent
from rookery.algorithms.common.batches import StackedBatch, StackedPaths
from rookery.algorithms.common.group import Group
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.kernels.cosines import COSINES, cosines_of, write_cosines
from rookery.algorithms.kernels.layers import NoisyParameters
from rookery.algorithms.kernels.network import (
    Network,
    ObservationReader,
    Observed,
    Scratch,
    add_bias_backward,
    backward,
    forward,
    linear,
    linear_backward,
    network_of,
    outputs_of,
    scratch_of,
    weight_of,
)
from rookery.algorithms.kernels.products import multiply_transposed_left
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
    from rookery.algorithms.iqn import IqnNetwork


class IqnLayers(NamedTuple):
    """The layers, as compiled loops read them (see `Network`)."""

    encoder: Network
    fraction: Array
    """The embedding of taus."""
    join: Array
    """The hidden layer after the product."""
    values: Array
    """The last layer."""


class IqnScratch(NamedTuple):
    """What a forward pass of one agent writes; the next agent overwrites it.

    Some rows are given N sampled taus each. The others are given the K fixed taus, and the
    mean over these is taken before the last layer, which is linear.
    """

    sampled: int
    """How many rows have sampled taus."""
    first_sampled: int
    """The first of them."""
    first_averaged: int
    """The first row with the fixed taus."""
    encoder: Scratch
    cosines: Array
    """(taus, 64): of sampled taus, then of the fixed ones, which stay the same."""
    embedded: Array
    """φ, (taus, width)."""
    joined: Array
    """ψ ⊙ φ, (products, width): of every sampled row and tau, then of averaged rows."""
    hidden: Array
    """(products, width)."""
    outputs: Array
    """(sampled rows × N, outputs)."""
    means: Array
    """(averaged rows, width), over fixed taus."""
    mean_outputs: Array
    """(averaged rows, outputs)."""


def iqn_scratch(
    layers: IqnLayers, quantiles: int, fixed_taus: Array, sampled: range, averaged: range
) -> IqnScratch:
    """Allocate the scratch of forward passes.

    Args:
        layers: of the network.
        quantiles: N, how many taus are sampled for a row.
        fixed_taus: (K,).
        sampled: the rows with sampled taus.
        averaged: the rows with fixed taus.
    """
    (_, _, width, outputs, _), fixed = layers.values, len(fixed_taus)
    rows, drawn = len(sampled) + len(averaged), len(sampled) * quantiles
    taus, products = drawn + (fixed if averaged else 0), drawn + len(averaged) * fixed
    shapes = (
        (taus, COSINES),
        (taus, width),
        (products, width),
        (products, width),
        (drawn, outputs),
        (len(averaged), width),
        (len(averaged), outputs),
    )
    cosines, *others = (torch.zeros(shape).numpy() for shape in shapes)
    if averaged:
        cosines[drawn:] = cosines_of(fixed_taus[None])[0]
    encoder = scratch_of(layers.encoder, rows)
    firsts = (sampled.start, averaged.start)
    return IqnScratch(len(sampled), *firsts, encoder, cosines, *others)


class IqnPass:
    """A forward and a backward pass over a batch."""

    def __init__(
        self, network: IqnNetwork, group: Group, agent: Agent, ends: int, fixed_taus: Array
    ) -> None:
        """Allocate the buffers; `fixed_taus` are those that agents act by, (K,)."""
        assert isinstance(network.encoder, Encoder)
        settings, agents = agent.settings, len(group.agents)
        parts, batch = settings.iqn, settings.batch_size
        quantiles, closing = settings.network.quantiles, batch * ends
        layout = network.parameters
        encoder = network_of(network.encoder, layout, [])
        heads = (
            np.array([*layout.place(name), 0]) for name in ("fraction", "join", "values")
        )
        self._layers = IqnLayers(encoder, *heads)
        self.reads_nonzero = network.encoder.has_sparse_inputs
        """Whether inputs should be `Nonzero`."""
        self._reader = ObservationReader(network.encoder, encoder, agents, batch + closing)
        self._group = group
        noisy = (network.noisy_layers, layout)
        self._online = NoisyParameters(*noisy, group.arrays[WEIGHTS], group.gradients)
        self._target = NoisyParameters(*noisy, group.arrays["target"])
        # Double: the online network's means choose the best actions where transitions
        # close. The gap needs the target network's means where they open.
        opening = batch if parts.gap else 0
        sizes = (self._layers, quantiles, fixed_taus)
        chosen = range(batch, batch + closing if parts.double else batch)
        online = iqn_scratch(*sizes, range(batch), chosen)
        target = iqn_scratch(*sizes, range(opening, opening + closing), range(opening))
        d_online = iqn_scratch(*sizes, range(batch), range(0))
        self._settings = (
            batch - opening,
            network.actions,
            quantiles,
            network.dueling,
            np.float32(parts.retrace or 0.0),
            np.float32(parts.gap),
            np.float32(parts.threshold),
            np.float32(settings.gradient.accumulate),
        )
        self._buffers = (online, target, d_online)
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
        taus: Array,
    ) -> PassResult:
        """Write the group's gradients, divided by `gradient.accumulate`.

        Args:
            batch: the transitions.
            noise: of noisy layers, of the online and of the target network.
            taus: (agents, n) random fractions: N for each row where transitions open, then
                for each where they close.
        """
        assert isinstance(batch, StackedPaths)
        online_noise, target_noise = noise
        learn(
            self._layers,
            self._group.arrays[WEIGHTS],
            self._online.sample(online_noise),
            self._group.arrays["target"],
            self._target.sample(target_noise),
            self._reader.read(batch.inputs),
            taus,
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
    layers: IqnLayers,
    weights: Array,
    noisy: Array,
    target: Array,
    noisy_target: Array,
    observed: Observed,
    taus: Array,
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
    quantiles: int,
    dueling: bool,
    decay: Scalar,
    gap: Scalar,
    threshold: Scalar,
    accumulate: Scalar,
    online_scratch: IqnScratch,
    target_scratch: IqnScratch,
    d_scratch: IqnScratch,
    gradient: Array,
    errors: Array,
    values: Array,
    losses: Array,
) -> None:
    """Write the gradients of all agents, and what `quantile_regression` writes.

    Args:
        layers: of the network.
        weights: (agents, parameters) of the online network.
        noisy: the same with noise.
        target: (agents, parameters) of the target network.
        noisy_target: the same with noise.
        observed: all rows in which transitions open, then those in which they close.
        taus: (agents, n): N for each of these rows.
        actions: see `quantile_regression`, also for the rest.
        returns: …
        discounts: …
        importance: …
        legal: …
        next_legal: …
        taken: …
        continues: …
        first_target_row: the first row that the target network is applied to.
        num_actions: …
        quantiles: …
        dueling: …
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
    sampled = batch * quantiles
    for a in range(agents):
        forward_quantiles(
            layers,
            weights[a],
            noisy[a],
            observed,
            a,
            0,
            taus[a][:sampled],
            online_scratch,
        )
        forward_quantiles(
            layers,
            target[a],
            noisy_target[a],
            observed,
            a,
            first_target_row,
            taus[a][sampled:],
            target_scratch,
        )
        losses[a] = quantile_regression(
            a,
            online_scratch.outputs,
            online_scratch.mean_outputs,
            target_scratch.outputs,
            target_scratch.mean_outputs,
            taus[a],
            actions[a],
            returns[a],
            discounts[a],
            importance[a],
            legal,
            next_legal,
            taken[a],
            continues[a],
            num_actions,
            quantiles,
            dueling,
            decay,
            gap,
            threshold,
            accumulate,
            d_scratch.outputs,
            errors[a],
            values[a],
        )
        backward_quantiles(
            layers,
            weights[a],
            noisy[a],
            observed,
            a,
            online_scratch,
            d_scratch,
            gradient[a],
        )


@kernel
def forward_quantiles(
    layers: IqnLayers,
    parameters: Array,
    noisy: Array,
    observed: Observed,
    agent: int,
    first: int,
    taus: Array,
    scratch: IqnScratch,
) -> None:
    """Write the outputs of an agent's network from row `first` on; see `IqnScratch`."""
    rows = scratch.sampled + len(scratch.means)
    encoder, own = layers.encoder, scratch.encoder
    encoded = forward(encoder, parameters, noisy, observed, agent, first, rows, own)
    write_cosines(taus, scratch.cosines)
    linear(layers.fraction, parameters, scratch.cosines, scratch.embedded, True)
    multiply_embedding(encoded, scratch)
    linear(layers.join, noisy, scratch.joined, scratch.hidden, True)
    hidden = scratch.hidden[: len(scratch.outputs)]
    linear(layers.values, noisy, hidden, scratch.outputs, False)
    if len(scratch.means):
        mean_over_taus(scratch.hidden[len(scratch.outputs) :], scratch.means)
        linear(layers.values, noisy, scratch.means, scratch.mean_outputs, False)


@kernel
def backward_quantiles(
    layers: IqnLayers,
    parameters: Array,
    noisy: Array,
    observed: Observed,
    agent: int,
    scratch: IqnScratch,
    d_scratch: IqnScratch,
    gradient: Array,
) -> None:
    """Write an agent's gradient from that of its outputs, `d_scratch.outputs`.

    It goes through the rows with sampled taus, which come first.
    """
    d_hidden, d_joined = d_scratch.hidden, d_scratch.joined
    linear_backward(
        layers.values,
        noisy,
        scratch.hidden,
        scratch.outputs,
        d_scratch.outputs,
        False,
        d_hidden,
        gradient,
    )
    linear_backward(
        layers.join,
        noisy,
        scratch.joined,
        scratch.hidden,
        d_hidden,
        True,
        d_joined,
        gradient,
    )
    last = layers.encoder.layers[len(layers.encoder.layers) - 1]
    rows = scratch.sampled + len(scratch.means)
    encoded = outputs_of(last, scratch.encoder.outputs, rows)
    d_encoded = outputs_of(last, d_scratch.encoder.outputs, scratch.sampled)
    multiply_embedding_backward(encoded, scratch.embedded, d_joined, d_encoded)
    # What was the gradient of the products is now that of the embedding.
    add_bias_backward(layers.fraction, scratch.embedded, d_joined, True, gradient)
    cosines = scratch.cosines[: len(d_joined)]
    multiply_transposed_left(cosines, d_joined, weight_of(layers.fraction, gradient))
    backward(
        layers.encoder,
        parameters,
        noisy,
        observed,
        agent,
        scratch.encoder,
        d_encoded,
        d_scratch.encoder,
        gradient,
    )


@kernel
def multiply_embedding(encoded: Array, scratch: IqnScratch) -> None:
    """Write the products of encoded observations, (rows, width), and embedded taus."""
    sampled = len(scratch.outputs)
    quantiles, fixed = sampled // scratch.sampled, len(scratch.embedded) - sampled
    for product in range(len(scratch.joined)):
        if product < sampled:
            row, tau = scratch.first_sampled + product // quantiles, product
        else:
            other = (product - sampled) // fixed
            row = scratch.first_averaged + other
            tau = product - other * fixed
        psi, phi, joined = encoded[row], scratch.embedded[tau], scratch.joined[product]
        for u in range(len(joined)):
            joined[u] = psi[u] * phi[u]


@kernel
def multiply_embedding_backward(
    encoded: Array, embedded: Array, d_joined: Array, d_encoded: Array
) -> None:
    """Write the gradient of ψ, and overwrite that of ψ ⊙ φ by that of φ.

    Args:
        encoded: ψ, (rows or more, width).
        embedded: φ, (rows × N or more, width).
        d_joined: (rows × N, width), overwritten.
        d_encoded: (rows, width), written.
    """
    quantiles = len(d_joined) // len(d_encoded)
    for r in range(len(d_encoded)):
        psi, d_psi = encoded[r], d_encoded[r]
        d_psi[:] = np.float32(0)
        for t in range(r * quantiles, (r + 1) * quantiles):
            phi, d_phi = embedded[t], d_joined[t]
            for u in range(len(psi)):
                d_psi[u] += d_phi[u] * phi[u]
                d_phi[u] *= psi[u]


@kernel
def mean_over_taus(hidden: Array, means: Array) -> None:
    """Write means over as many rows of `hidden` as belong to each row of `means`."""
    quantiles = len(hidden) // len(means)
    share = np.float32(1) / np.float32(quantiles)
    for r in range(len(means)):
        mean = means[r]
        mean[:] = np.float32(0)
        for k in range(r * quantiles, (r + 1) * quantiles):
            h = hidden[k]
            for u in range(len(mean)):
                mean[u] += h[u]
        for u in range(len(mean)):
            mean[u] *= share


@kernel
def quantile_regression(
    agent: int,
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
    d_outputs: Array,
    errors: Array,
    values: Array,
) -> Scalar:
    """Return an agent's loss; write its gradient, the errors of means, and values.

    Args:
        agent: its place in the group.
        outputs: (batch × N, outputs) of the online network.
        mean_outputs: (batch × ends, outputs) of the online network where transitions
            close; without rows if the target network chooses the best actions.
        target_outputs: (batch × ends × N, outputs) of the target network.
        target_mean_outputs: (batch, outputs) of the target network where transitions open;
            without rows if there is no gap.
        taus: (batch × N or more,) the fractions of `outputs`.
        actions: (batch,).
        returns: (batch × ends,); so are the discounts.
        discounts: of the value where a transition closes.
        importance: (batch,) weights of the losses.
        legal: (agents, batch, actions); empty if all actions are legal.
        next_legal: (agents, batch × ends, actions).
        taken: (batch, ends) the actions that Retrace's paths continue with.
        continues: (batch, ends) whether they do.
        num_actions: how many of the outputs are of actions.
        quantiles: N.
        dueling: whether the output after those is a state value.
        decay: Retrace's λ; 0 without Retrace.
        gap: coefficient of the action gap (advantage learning).
        threshold: κ of the quantile Huber loss.
        accumulate: what gradients are divided by.
        d_outputs: (batch × N, outputs), written.
        errors: (batch,), written.
        values: (batch,), written.
    """
    zero, one = np.float32(0), np.float32(1)
    batch = len(actions)
    ends = len(returns) // batch
    count, each = np.float32(batch), one / np.float32(quantiles)
    means = np.empty(num_actions, np.float32)
    estimates, slopes, hubers = np.zeros((3, quantiles), np.float32)
    loss = zero
    for b in range(batch):
        action, first = actions[b], b * quantiles
        of_taus, tau = outputs[first : first + quantiles], taus[first : first + quantiles]
        value = zero
        for i in range(quantiles):
            estimates[i] = value_of(of_taus[i], action, num_actions, dueling)
            value += estimates[i]
        value *= each
        shift = zero
        if gap > zero:
            advantages = target_mean_outputs[b]
            best = best_action(advantages, legal, agent, b, num_actions)
            shift = gap * (advantages[best] - advantages[action])
        slopes[:] = zero
        hubers[:] = zero
        mean_target, reached = zero, one
        for end in range(ends):
            closing = b * ends + end
            of_next = target_outputs[closing * quantiles : (closing + 1) * quantiles]
            if len(mean_outputs):
                of_choice = mean_outputs[closing]
            else:
                add_rows(of_next, means)
                of_choice = means
            best = best_action(of_choice, next_legal, agent, closing, num_actions)
            c = zero
            if continues[b, end] and best == taken[b, end]:
                c = decay
            share = reached * (one - c) * each
            reached *= c
            for j in range(quantiles):
                bootstrap = value_of(of_next[j], best, num_actions, dueling)
                goal = returns[closing] + discounts[closing] * bootstrap - shift
                mean_target += share * goal
                add_quantile_huber(goal, estimates, tau, share, threshold, slopes, hubers)
        scale = importance[b] / (count * accumulate)
        for i in range(quantiles):
            loss += importance[b] * hubers[i]
            d_value = -slopes[i] * scale
            value_backward(d_value, action, num_actions, dueling, d_outputs[first + i])
        errors[b], values[b] = abs(mean_target - value), value
    return loss / count


@kernel
def add_rows(rows: Array, total: Array) -> None:
    """Write the sum of rows; they can be wider than the sum."""
    total[:] = np.float32(0)
    for r in range(len(rows)):
        for i in range(len(total)):
            total[i] += rows[r, i]


@kernel
def add_quantile_huber(
    target: Scalar,
    estimates: Array,
    taus: Array,
    share: Scalar,
    threshold: Scalar,
    slopes: Array,
    hubers: Array,
) -> None:
    """Add the quantile Huber loss between one target and all estimates, and its slope.

    `share` is the target's weight. The slope is that of the loss as the target rises.
    """
    zero, one, half = np.float32(0), np.float32(1), np.float32(0.5)
    for i in range(len(estimates)):
        error = target - estimates[i]
        weight = share / threshold * (one - taus[i] if error < zero else taus[i])
        near = min(max(error, -threshold), threshold)
        slopes[i] += near * weight
        hubers[i] += (error - half * near) * near * weight
