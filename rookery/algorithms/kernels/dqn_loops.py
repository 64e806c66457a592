"""DQN's update in compiled loops; `DqnLearner.compute_losses` defines it.

`compute_gradient` is one pass of one agent: both networks forwards, one loop over
transitions (`temporal_difference`: targets, the Huber loss and its gradient), and
backwards. What belongs together is passed in named tuples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rookery.algorithms.common.group import stop_or_count
from rookery.algorithms.common.optimizer import clip_factor, norm_of, take_step
from rookery.algorithms.common.stacked import add_update
from rookery.algorithms.kernels.network import backward, forward, outputs_of
from rookery.algorithms.kernels.values import best_action, value_backward, value_of
from rookery.kernels import Scalar, kernel
from rookery.specs import Array


class Options(NamedTuple):
    """What does not change during a run."""

    num_actions: int
    dueling: bool
    """Whether the output after those of actions is a state value."""
    double: bool
    """Whether the online network chooses the best actions."""
    decay: Scalar
    """Retrace's λ; 0 without Retrace."""
    gap: Scalar
    """Coefficient of the action gap (advantage learning)."""
    threshold: Scalar
    """κ of the Huber loss."""
    hysteresis: Scalar
    """Factor on the loss of values that were too high; 1 without hysteresis."""
    accumulate: Scalar
    """What gradients are divided by."""
    first_target_row: int
    """The first row that the target network is applied to."""
    first_target_input: int
    """Where that row is in the target network's inputs."""


class Networks(NamedTuple):
    """An agent's parameters, (parameters,); or those of a group, (agents, parameters)."""

    weights: Array
    noisy: Array
    """The same with noise; only noisy layers read it."""
    target: Array
    noisy_target: Array


class Inputs(NamedTuple):
    """Inputs of linear layers: all rows in which transitions open, then their ends.

    Several passes have an axis in front. Inputs are dense or sparse, and the other is
    empty.
    """

    dense: Array
    """(rows, inputs)."""
    target_dense: Array
    """The same for the target network."""
    indices: Array
    """See `Nonzero`, also for the next two."""
    numbers: Array
    counts: Array


class Transitions(NamedTuple):
    """The batch of a pass; several passes have an axis in front."""

    actions: Array
    """(batch,)."""
    returns: Array
    """(batch × ends,)."""
    discounts: Array
    """(batch × ends,): of the value where a transition closes."""
    importance: Array
    """(batch,) weights of the losses."""
    taken: Array
    """(batch, ends): the actions that Retrace's paths continue with."""
    continues: Array
    """(batch, ends): whether they do."""


class Masks(NamedTuple):
    """Which actions are legal, in all passes; empty if all are, always."""

    opening: Array
    """(passes, batch, actions)."""
    closing: Array
    """(passes, batch × ends, actions)."""


class Buffers(NamedTuple):
    """Outputs of all layers, which every pass overwrites."""

    online: Array
    target: Array
    d_online: Array
    """Gradients of those of the online network."""


class Results(NamedTuple):
    """What a pass writes for one agent; for a group with an axis of agents in front."""

    gradient: Array
    """(parameters,)."""
    d_inputs: Array
    """(batch, inputs), or empty if nothing needs it."""
    errors: Array
    """(batch,): absolute temporal-difference errors."""
    values: Array
    """(batch,): the values that were predicted."""


@kernel
def _inputs_of(inputs: Inputs, k: int) -> Inputs:
    """Return the inputs of one of several passes."""
    return Inputs(
        inputs.dense[k],
        inputs.target_dense[k],
        inputs.indices[k],
        inputs.numbers[k],
        inputs.counts[k],
    )


@kernel
def _transitions_of(transitions: Transitions, k: int) -> Transitions:
    """Return the batch of one of several passes."""
    return Transitions(
        transitions.actions[k],
        transitions.returns[k],
        transitions.discounts[k],
        transitions.importance[k],
        transitions.taken[k],
        transitions.continues[k],
    )


@kernel
def compute_gradients(
    layers: Array,
    networks: Networks,
    inputs: Inputs,
    transitions: Transitions,
    masks: Masks,
    options: Options,
    buffers: Buffers,
    results: Results,
    losses: Array,
) -> None:
    """Write the gradients and losses of a group, in one pass of every agent.

    Args:
        layers: the table of both networks.
        networks: of the group.
        inputs: a pass for every agent.
        transitions: a pass for every agent.
        masks: a pass for every agent.
        options: of the group.
        buffers: overwritten.
        results: written.
        losses: (agents,), written.
    """
    for a in range(len(losses)):
        losses[a] = compute_gradient(
            a,
            layers,
            Networks(
                networks.weights[a],
                networks.noisy[a],
                networks.target[a],
                networks.noisy_target[a],
            ),
            _inputs_of(inputs, a),
            _transitions_of(transitions, a),
            masks,
            options,
            buffers,
            Results(
                results.gradient[a],
                results.d_inputs[a],
                results.errors[a],
                results.values[a],
            ),
        )


@kernel
def make_updates(
    layers: Array,
    networks: Networks,
    means: Array,
    squares: Array,
    counters: Array,
    inputs: Inputs,
    transitions: Transitions,
    masks: Masks,
    options: Options,
    buffers: Buffers,
    results: Results,
    limit: Scalar,
    steps: Array,
    epsilons: Array,
    target_rates: Array,
    sums: Array,
) -> int:
    """Make several updates of one agent, and return how many; fewer if it is stopped.

    All its arrays stay in the processor's cache from one update to the next.

    Args:
        layers: the table of both networks.
        networks: of the agent; updated, like the next three.
        means: Adam's first moments.
        squares: Adam's second moments.
        counters: (2,).
        inputs: a pass for every update.
        transitions: a pass for every update.
        masks: a pass for every update.
        options: of the agent.
        buffers: overwritten.
        results: overwritten.
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
            networks,
            _inputs_of(inputs, k),
            _transitions_of(transitions, k),
            masks,
            options,
            buffers,
            results,
        )
        norm = norm_of(results.gradient)
        if not stop_or_count(loss, norm, counters):
            break
        take_step(
            networks.weights,
            means,
            squares,
            networks.target,
            results.gradient,
            clip_factor(norm, limit),
            steps[k],
            epsilons[k],
            target_rates[k],
        )
        add_update(loss, results.errors, results.values, norm, sums)
        made += 1
    return made


@kernel
def compute_gradient(
    place: int,
    layers: Array,
    networks: Networks,
    inputs: Inputs,
    transitions: Transitions,
    masks: Masks,
    options: Options,
    buffers: Buffers,
    results: Results,
) -> Scalar:
    """Return an agent's loss in one pass, and write its results.

    Args:
        place: of this pass in the masks.
        layers: the table of both networks.
        networks: of the agent.
        inputs: of this pass.
        transitions: of this pass.
        masks: of all passes.
        options: of the agent.
        buffers: overwritten.
        results: written.
    """
    batch = len(transitions.actions)
    rows = batch + len(transitions.returns)
    online_rows, first = rows if options.double else batch, options.first_target_row
    online = forward(
        layers,
        networks.weights,
        networks.noisy,
        inputs.dense[:online_rows],
        inputs.indices[:online_rows],
        inputs.numbers[:online_rows],
        inputs.counts[:online_rows],
        online_rows,
        buffers.online,
    )
    target = forward(
        layers,
        networks.target,
        networks.noisy_target,
        inputs.target_dense[options.first_target_input :],
        inputs.indices[first:],
        inputs.numbers[first:],
        inputs.counts[first:],
        rows - first,
        buffers.target,
    )
    d_online = outputs_of(layers[len(layers) - 1], buffers.d_online, batch)
    loss = temporal_difference(
        place, online, target, transitions, masks, options, d_online, results
    )
    backward(
        layers,
        networks.weights,
        networks.noisy,
        inputs.dense,
        inputs.indices,
        inputs.numbers,
        inputs.counts,
        online_rows,
        buffers.online,
        buffers.d_online,
        results.d_inputs,
        results.gradient,
    )
    return loss


@kernel
def temporal_difference(
    place: int,
    outputs: Array,
    target_outputs: Array,
    transitions: Transitions,
    masks: Masks,
    options: Options,
    d_outputs: Array,
    results: Results,
) -> Scalar:
    """Return an agent's loss; write its gradient, absolute errors and values.

    Args:
        place: of this pass in the masks.
        outputs: (rows, outputs) of the online network: where transitions open and, if
            double, where they close.
        target_outputs: of the target network: with a gap, where transitions open, then
            where they close.
        transitions: of this pass.
        masks: of all passes.
        options: of the agent.
        d_outputs: (batch, outputs), written.
        results: errors and values are written.
    """
    zero, one, half = np.float32(0), np.float32(1), np.float32(0.5)
    num_actions, dueling, double, decay, gap, threshold, hysteresis, _, _, _ = options
    actions, returns, discounts, importance, taken, continues = transitions
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
            best = best_action(of_choice, masks.closing, place, row, num_actions)
            c = zero
            if continues[b, end] and best == taken[b, end]:
                c = decay
            value = value_of(of_target, best, num_actions, dueling)
            goal += reached * (one - c) * (returns[row] + discounts[row] * value)
            reached *= c
        action = actions[b]
        if gap > zero:
            advantages = target_outputs[b]
            best = best_action(advantages, masks.opening, place, b, num_actions)
            goal -= gap * (advantages[best] - advantages[action])
        value = value_of(outputs[b], action, num_actions, dueling)
        error = goal - value
        size = abs(error)
        near = min(size, threshold)
        weight = importance[b]
        if error < zero:
            weight *= hysteresis
        loss += weight * ((size - half * near) * near / threshold)
        slope = min(max(error, -threshold), threshold) / threshold
        d_value = -slope * weight / (count * options.accumulate)
        value_backward(d_value, action, num_actions, dueling, d_outputs[b])
        results.errors[b], results.values[b] = size, value
    return loss / count
