"""DQN's updates with gradients by hand: what the compiled loops (dqn_loops.py) are given.

Agents are computed one after the other. Only the convolutions of all agents are computed
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import WEIGHTS, Agent
from rookery.algorithms.common.batches import StackedBatch, StackedPaths
from rookery.algorithms.common.group import Group, UpdatePlan
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.kernels.dqn_loops import (
    Buffers,
    Inputs,
    Masks,
    Networks,
    Options,
    Results,
    Transitions,
    compute_gradients,
    make_updates,
)
from rookery.algorithms.kernels.encoder import GridPass
from rookery.algorithms.kernels.layers import LinearRelu, NoisyParameters
from rookery.algorithms.kernels.network import layer_table, output_buffer
from rookery.algorithms.kernels.sparse import Nonzero
from rookery.algorithms.kernels.values import NO_MASK, mask_array
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import Noise
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
        self._options = Options(
            network.actions,
            network.dueling,
            parts.double,
            np.float32(parts.retrace or 0.0),
            np.float32(parts.gap),
            np.float32(parts.threshold),
            np.float32(parts.hysteresis),
            np.float32(settings.gradient.accumulate),
            first,
            self._dense.first_target_row,
        )
        self._buffers = Buffers(
            output_buffer(layers, online_rows),
            output_buffer(layers, rows - first),
            output_buffer(layers, batch),
        )
        self._result = PassResult(
            torch.zeros(agents), torch.zeros(agents, batch), torch.zeros(agents, batch)
        )
        self._results = Results(
            group.gradient,
            self._dense.d_inputs.numpy(),
            self._result.errors.numpy(),
            self._result.values.numpy(),
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
            Networks(
                self._group.arrays[WEIGHTS],
                self._online.sample(online_noise),
                self._group.arrays["target"],
                self._target.sample(target_noise),
            ),
            Inputs(*dense, nonzero.indices, nonzero.values, nonzero.counts),
            Transitions(
                batch.actions.numpy(),
                batch.returns.numpy(),
                batch.discounts.numpy(),
                batch.importance.numpy(),
                batch.taken.numpy(),
                batch.continues.numpy(),
            ),
            Masks(mask_array(batch.legal), mask_array(batch.next_legal)),
            self._options,
            self._buffers,
            self._results,
            self._result.loss.numpy(),
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
            importance: (updates, batch).
            plan: of the updates.
            sums: (averages,) of the round's log; added to.
        """
        arrays, actions = self._group.arrays, paths.actions[:, 0]
        weights, target, shape = arrays[WEIGHTS][i], arrays["target"][i], actions.shape
        legal, next_legal = (
            NO_MASK if mask is None else mask[:, 0]
            for mask in (paths.legal, paths.next_legal)
        )
        return make_updates(
            self._layers,
            Networks(weights, weights, target, target),
            arrays["means"][i],
            arrays["squares"][i],
            self._group.counters[i],
            Inputs(inputs, inputs, nonzero.indices, nonzero.values, nonzero.counts),
            Transitions(
                actions,
                paths.returns[:, 0],
                paths.discounts[:, 0],
                importance,
                paths.taken[:, 0].reshape(*shape, -1),
                paths.continues[:, 0].reshape(*shape, -1),
            ),
            Masks(legal, next_legal),
            self._options,
            self._buffers,
            Results(*(array[i] for array in self._results)),
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
