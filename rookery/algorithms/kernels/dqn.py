"""One pass of DQN's update with gradients by hand; `DqnLearner.compute_losses` defines it.

Agents are computed one after the other: both networks forwards, one loop over transitions
(`temporal_difference`: targets, the Huber loss and its gradient), and backwards. Only the
convolutions of all agents are computed together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import WEIGHTS, Agent
from rookery.algorithms.common.batches import StackedBatch, StackedPaths
from rookery.algorithms.common.group import Group, UpdatePlan, stop_or_count
from rookery.algorithms.common.optimizer import clip_factor, norm_of, take_step
from rookery.algorithms.common.stacked import PassResult, add_update
from rookery.algorithms.kernels.encoder import GridPass
from rookery.algorithms.kernels.layers import LinearRelu, NoisyParameters
from rookery.algorithms.kernels.network import (
    backward,
    forward,
    layer_table,
    output_buffer,
    outputs_of,
)
from rookery.algorithms.kernels.sparse import Nonzero
from rookery.algorithms.kernels.values import (
    NO_MASK,
    best_action,
    mask_array,
    value_backward,
    value_of,
)
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import Noise
from rookery.kernels import Scalar, kernel
from rookery.replay.drawing import Paths
from rookery.specs import Array

if TYPE_CHECKING:
    from rookery.algorithms.dqn import DqnNetwork


class DqnPass:
    """A forward and a backward pass over a batch."""

    def __init__(self, network: DqnNetwork, group: Group, agent: Agent, ends: int) -> None:
        encoder, settings, agents = network.encoder, agent.settings, len(group.agents)
        assert isinstance(encoder, Encoder)
        parts, batch = settings.dqn, settings.batch_size
        rows = batch * (1 + ends)
        reads = [f"read.{i}" for i in range(encoder.depth)]
        layers = layer_table(network.parameters, [*reads, "hidden", "values"])
        # Double: the online network chooses the best actions where transitions close. The
        # gap needs the target network's values where they open.
        online_rows, first = rows if parts.double else batch, 0 if parts.gap else batch
        self._group, self._layers = group, layers
        noisy = (network.noisy_layers, network.parameters)
        self._online = NoisyParameters(*noisy, group.arrays[WEIGHTS], group.gradients)
        self._target = NoisyParameters(*noisy, group.arrays["target"])
        self.reads_nonzero = encoder.has_sparse_inputs
        """Whether inputs should be `Nonzero`."""
        self.is_compiled = not (
            encoder.channels
            or parts.noisy
            or settings.replay.kind == "prioritised"
            or settings.gradient.accumulate > 1
        )
        """Whether `make_updates` can make the updates: all of an update is compiled."""
        self._dense = DenseInputs(encoder, group, batch, rows, online_rows, first)
        self._no_nonzero = Nonzero.allocate(agents, 0, 0)
        self._no_inputs = np.zeros((agents, 0, 0), np.float32)
        self._first_target_row = first
        self._actions = network.actions
        self._switches = (network.dueling, parts.double)
        self._factors = (
            np.float32(parts.retrace or 0.0),
            np.float32(parts.gap),
            np.float32(parts.threshold),
            np.float32(settings.gradient.accumulate),
        )
        self._buffers = (
            output_buffer(layers, online_rows),
            output_buffer(layers, rows - first),
            output_buffer(layers, batch),
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
        if isinstance(batch.inputs, Nonzero):
            nonzero, dense = batch.inputs, (self._no_inputs, self._no_inputs)
        else:
            nonzero, dense = self._no_nonzero, self._dense.forward(batch.inputs)
        compute_gradients(
            self._layers,
            self._group.arrays[WEIGHTS],
            self._online.sample(online_noise),
            self._group.arrays["target"],
            self._target.sample(target_noise),
            *dense,
            nonzero.indices,
            nonzero.values,
            nonzero.counts,
            batch.actions.numpy(),
            batch.returns.numpy(),
            batch.discounts.numpy(),
            batch.importance.numpy(),
            mask_array(batch.legal),
            mask_array(batch.next_legal),
            batch.taken.numpy(),
            batch.continues.numpy(),
            self._first_target_row,
            self._dense.first_target_row,
            self._actions,
            *self._switches,
            *self._factors,
            *self._buffers,
            self._dense.d_inputs.numpy(),
            self._group.gradient,
            *self._results,
        )
        self._dense.backward()
        self._online.backward()
        return self._result

    def make_updates(
        self,
        i: int,
        inputs: Array,
        nonzero: Nonzero,
        paths: Paths,
        importance: Array,
        plan: UpdatePlan,
        sums: Array,
    ) -> int:
        """Make some updates of an agent, one pass each; return how many were made.

        Args:
            i: the agent's place in the group.
            inputs: (updates, rows, inputs) where transitions open, then where they close;
                or empty.
            nonzero: the same if they are sparse; or empty.
            paths: of the agent alone.
            importance: (batch,).
            plan: of the updates.
            sums: (averages,) of the round's log; added to.
        """
        arrays, actions = self._group.arrays, paths.actions[:, 0]
        shape = (*actions.shape, -1)
        errors, values, _ = self._results
        decay, gap, threshold, _ = self._factors
        return make_updates(
            self._layers,
            arrays[WEIGHTS][i],
            arrays["target"][i],
            arrays["means"][i],
            arrays["squares"][i],
            self._group.counters[i],
            inputs,
            nonzero.indices,
            nonzero.values,
            nonzero.counts,
            actions,
            paths.returns[:, 0],
            paths.discounts[:, 0],
            importance,
            NO_MASK if paths.legal is None else paths.legal[:, 0],
            NO_MASK if paths.next_legal is None else paths.next_legal[:, 0],
            paths.taken[:, 0].reshape(shape),
            paths.continues[:, 0].reshape(shape),
            self._first_target_row,
            self._actions,
            *self._switches,
            decay,
            gap,
            threshold,
            *self._buffers,
            self._dense.d_inputs[i].numpy(),
            self._group.gradient[i],
            errors[i],
            values[i],
            plan.limit,
            plan.steps,
            plan.epsilons,
            plan.target_rates,
            sums,
        )


class DenseInputs:
    """The inputs of both networks' linear layers: observations, or grids convolved."""

    def __init__(
        self,
        encoder: Encoder,
        group: Group,
        batch: int,
        rows: int,
        online_rows: int,
        first_target_row: int,
    ) -> None:
        self.first_target_row = first_target_row
        """Where the rows of the target network start in its inputs."""
        self._convolutions: tuple[GridPass, GridPass] | None = None
        self._rows, self._first = online_rows, first_target_row
        inputs = group.weights["read.0.weight"].shape[1]
        shape = (batch, inputs) if encoder.channels else (0, 0)
        self.d_inputs = torch.zeros(len(group.agents), *shape)
        """(agents, batch, inputs): the gradient that convolutions need."""
        if encoder.channels:
            kind, target_rows = (encoder, LinearRelu), rows - first_target_row
            self._convolutions = (
                GridPass(*kind, group.weights, online_rows, group.gradients, batch),
                GridPass(*kind, group.target, target_rows, None, 0),
            )
            self.first_target_row = 0

    def forward(self, observations: Tensor) -> tuple[Array, Array]:
        """Return the inputs of the online and of the target network."""
        if self._convolutions is None:
            return observations.numpy(), observations.numpy()
        online, target = self._convolutions
        online_inputs = online.forward(observations[:, : self._rows])
        target_inputs = target.forward(observations[:, self._first :])
        return online_inputs.numpy(), target_inputs.numpy()

    def backward(self) -> None:
        """Write the gradients of convolutions from `d_inputs`."""
        if self._convolutions is not None:
            online, _ = self._convolutions
            online.backward(self.d_inputs)


@kernel
def compute_gradients(
    layers: Array,
    weights: Array,
    noisy: Array,
    target: Array,
    noisy_target: Array,
    inputs: Array,
    target_inputs: Array,
    indices: Array,
    numbers: Array,
    counts: Array,
    actions: Array,
    returns: Array,
    discounts: Array,
    importance: Array,
    legal: Array,
    next_legal: Array,
    taken: Array,
    continues: Array,
    first_target_row: int,
    first_target_input: int,
    num_actions: int,
    dueling: bool,
    double: bool,
    decay: Scalar,
    gap: Scalar,
    threshold: Scalar,
    accumulate: Scalar,
    outputs: Array,
    target_outputs: Array,
    d_outputs: Array,
    d_inputs: Array,
    gradient: Array,
    errors: Array,
    values: Array,
    losses: Array,
) -> None:
    """Write the gradients and losses of all agents in one pass.

    Arguments are those of `compute_gradient`, (agents, …) if they are an agent's own.
    """
    for a in range(len(losses)):
        losses[a] = compute_gradient(
            a,
            layers,
            weights[a],
            noisy[a],
            target[a],
            noisy_target[a],
            inputs[a],
            target_inputs[a],
            indices[a],
            numbers[a],
            counts[a],
            actions[a],
            returns[a],
            discounts[a],
            importance[a],
            legal,
            next_legal,
            taken[a],
            continues[a],
            first_target_row,
            first_target_input,
            num_actions,
            dueling,
            double,
            decay,
            gap,
            threshold,
            accumulate,
            outputs,
            target_outputs,
            d_outputs,
            d_inputs[a],
            gradient[a],
            errors[a],
            values[a],
        )


@kernel
def make_updates(
    layers: Array,
    weights: Array,
    target: Array,
    means: Array,
    squares: Array,
    counters: Array,
    inputs: Array,
    indices: Array,
    numbers: Array,
    counts: Array,
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
    outputs: Array,
    target_outputs: Array,
    d_outputs: Array,
    d_inputs: Array,
    gradient: Array,
    errors: Array,
    values: Array,
    limit: Scalar,
    steps: Array,
    epsilons: Array,
    target_rates: Array,
    sums: Array,
) -> int:
    """Make several updates of one agent, and return how many; fewer if it is stopped.

    All its arrays stay in the processor's cache from one update to the next.

    Args:
        layers: see `compute_gradient`, also for the rest; what has a batch for every
            update is (updates, …).
        weights: (parameters,), updated; so are the next three.
        target: …
        means: Adam's first moments.
        squares: Adam's second moments.
        counters: (2,), updated.
        inputs: …
        indices: …
        numbers: …
        counts: …
        actions: …
        returns: …
        discounts: …
        importance: (batch,) the same in every update.
        legal: …
        next_legal: …
        taken: …
        continues: …
        first_target_row: …
        num_actions: …
        dueling: …
        double: …
        decay: …
        gap: …
        threshold: …
        outputs: …
        target_outputs: …
        d_outputs: …
        d_inputs: empty.
        gradient: …
        errors: …
        values: …
        limit: the largest norm of a gradient.
        steps: (updates,) see `step_sizes`.
        epsilons: (updates,) see `step_sizes`.
        target_rates: (updates,) how far the target moves.
        sums: (averages,) of the round's log; added to.
    """
    made = 0
    for k in range(len(steps)):
        loss = compute_gradient(
            k,
            layers,
            weights,
            weights,
            target,
            target,
            inputs[k],
            inputs[k],
            indices[k],
            numbers[k],
            counts[k],
            actions[k],
            returns[k],
            discounts[k],
            importance,
            legal,
            next_legal,
            taken[k],
            continues[k],
            first_target_row,
            first_target_row,
            num_actions,
            dueling,
            double,
            decay,
            gap,
            threshold,
            np.float32(1),
            outputs,
            target_outputs,
            d_outputs,
            d_inputs,
            gradient,
            errors,
            values,
        )
        norm = norm_of(gradient)
        if not stop_or_count(loss, norm, counters):
            break
        factor = clip_factor(norm, limit)
        take_step(
            weights,
            means,
            squares,
            target,
            gradient,
            factor,
            steps[k],
            epsilons[k],
            target_rates[k],
        )
        add_update(loss, errors, values, norm, sums)
        made += 1
    return made


@kernel
def compute_gradient(
    place: int,
    layers: Array,
    weights: Array,
    noisy: Array,
    target: Array,
    noisy_target: Array,
    inputs: Array,
    target_inputs: Array,
    indices: Array,
    numbers: Array,
    counts: Array,
    actions: Array,
    returns: Array,
    discounts: Array,
    importance: Array,
    legal: Array,
    next_legal: Array,
    taken: Array,
    continues: Array,
    first_target_row: int,
    first_target_input: int,
    num_actions: int,
    dueling: bool,
    double: bool,
    decay: Scalar,
    gap: Scalar,
    threshold: Scalar,
    accumulate: Scalar,
    outputs: Array,
    target_outputs: Array,
    d_outputs: Array,
    d_inputs: Array,
    gradient: Array,
    errors: Array,
    values: Array,
) -> Scalar:
    """Return an agent's loss in one pass; write its gradient, absolute errors and values.

    Args:
        place: of this pass in `legal` and `next_legal`.
        layers: the table of both networks.
        weights: (parameters,) of the online network.
        noisy: the same with noise; only noisy layers read it.
        target: (parameters,) of the target network.
        noisy_target: the same with noise.
        inputs: (rows, inputs): all rows in which transitions open, then those in which
            they close; empty if they are sparse.
        target_inputs: the same for the target network.
        indices: of sparse inputs, see `Nonzero`; empty if they are not.
        numbers: of sparse inputs.
        counts: of sparse inputs.
        actions: see `temporal_difference`, also for the rest.
        returns: …
        discounts: …
        importance: …
        legal: …
        next_legal: …
        taken: …
        continues: …
        first_target_row: the first one that the target network is applied to.
        first_target_input: where that row is in `target_inputs`.
        num_actions: …
        dueling: …
        double: …
        decay: …
        gap: …
        threshold: …
        accumulate: …
        outputs: of all layers of the online network; written, like the next two.
        target_outputs: of those of the target network.
        d_outputs: of those of the online network, their gradients.
        d_inputs: (batch, inputs), written; or empty.
        gradient: (parameters,), written.
        errors: …
        values: …
    """
    batch = len(actions)
    rows = batch + len(returns)
    online_rows = rows if double else batch
    target_rows = rows - first_target_row
    online_values = forward(
        layers,
        weights,
        noisy,
        inputs[:online_rows],
        indices[:online_rows],
        numbers[:online_rows],
        counts[:online_rows],
        online_rows,
        outputs,
    )
    target_values = forward(
        layers,
        target,
        noisy_target,
        target_inputs[first_target_input:],
        indices[first_target_row:],
        numbers[first_target_row:],
        counts[first_target_row:],
        target_rows,
        target_outputs,
    )
    loss = temporal_difference(
        place,
        online_values,
        target_values,
        actions,
        returns,
        discounts,
        importance,
        legal,
        next_legal,
        taken,
        continues,
        num_actions,
        dueling,
        double,
        decay,
        gap,
        threshold,
        accumulate,
        outputs_of(layers[len(layers) - 1], d_outputs, batch),
        errors,
        values,
    )
    backward(
        layers,
        weights,
        noisy,
        inputs,
        indices,
        numbers,
        counts,
        online_rows,
        outputs,
        d_outputs,
        d_inputs,
        gradient,
    )
    return loss


@kernel
def temporal_difference(
    place: int,
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
        place: of this pass in `legal` and `next_legal`.
        outputs: (rows, outputs) of the online network: where transitions open and, if
            double, where they close.
        target_outputs: of the target network: with a gap, where transitions open, then
            where they close.
        actions: (batch,).
        returns: (batch × ends,); so are the discounts.
        discounts: of the value where a transition closes.
        importance: (batch,) weights of the losses.
        legal: (places, batch, actions); empty if all actions are legal.
        next_legal: (places, batch × ends, actions).
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
            best = best_action(of_choice, next_legal, place, row, num_actions)
            c = zero
            if continues[b, end] and best == taken[b, end]:
                c = decay
            value = value_of(of_target, best, num_actions, dueling)
            goal += reached * (one - c) * (returns[row] + discounts[row] * value)
            reached *= c
        action = actions[b]
        if gap > zero:
            advantages = target_outputs[b]
            best = best_action(advantages, legal, place, b, num_actions)
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
