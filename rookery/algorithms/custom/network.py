"""Custom networks: a user's torch module, trained by double DQN.

The module is built once by each policy and learner, and called with parameters and buffers
that are stored in the agent's flat vector. So Adam, target network, priorities, counters
and checkpoints work as in every value-based learner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from rookery.algorithms.base import Agent, Policy, PolicyInput, PolicyOutput, State
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import PassDraws, StackedBatch, StackedPaths
from rookery.algorithms.common.exploration import act_by_values, temperatures_of
from rookery.algorithms.common.group import Group
from rookery.algorithms.common.stacked import PassResult
from rookery.algorithms.custom.sandbox import UserClass, acting_seed, seed_of
from rookery.algorithms.nets.layers import Parameters, Weights, padded
from rookery.algorithms.value_based import ValueBasedLearner
from rookery.replay.buffer import Batch, ReplayReader
from rookery.rng import Stream
from rookery.specs import Array

TRIAL_ROWS = 2
"""Rows of the dummy batch that a new network is tried with."""
SEED_DRAW = 1


class CustomNetwork:
    """A user's module, called with the tensors it was built with or with others."""

    def __init__(self, user_class: UserClass, agent: Agent, seed: int = 0) -> None:
        self.user_class, self.agent = user_class, agent
        self._module: nn.Module = user_class.build(agent, seed)
        # Lazy layers get their shapes, and mistakes show before the first turn.
        with torch.no_grad():
            inputs = {
                name: torch.zeros(TRIAL_ROWS, agent.settings.frames, *part.shape)
                for name, part in agent.spec.parts.items()
            }
            self.values({}, inputs, seed ^ 1)
        self.trained = [n for n, p in self._module.named_parameters() if p.requires_grad]
        if not self.trained:
            raise user_class.error(
                agent, "__init__", "made no trainable parameters, expected at least one."
            )

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, as they were built."""
        module = self._module
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        return {name: tensor.detach() for name, tensor in tensors.items()}

    def inputs(self, observations: Mapping[str, Array]) -> dict[str, Tensor]:
        """Return observations as float32 tensors, scaled as the parts declare."""
        return {
            name: torch.tensor(observations[name], dtype=torch.float32) * part.scale
            for name, part in self.agent.spec.parts.items()
        }

    def values(
        self,
        tensors: dict[str, Tensor],
        inputs: Mapping[str, Tensor],
        seed: int,
        learning: bool = False,
    ) -> Tensor:
        """Return action values (rows, actions).

        Without `tensors` it uses those it was built with, or has loaded. Buffers that
        change do so in `tensors`.
        """
        module = self._module.train(learning)
        with self.user_class.calling(self.agent, "forward", seed):
            if tensors:
                values = functional_call(module, tensors, (dict(inputs),))
            else:
                values = module(dict(inputs))
        expected = (len(next(iter(inputs.values()))), self.agent.spec.num_actions)
        if not isinstance(values, Tensor) or tuple(values.shape) != expected:
            is_tensor = isinstance(values, Tensor)
            form = tuple(values.shape) if is_tensor else type(values).__name__
            raise self.user_class.error(
                self.agent,
                "forward",
                f"returned {form}, expected a tensor {expected}: one value per action.",
            )
        return values.float()

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy parameters and buffers into the module."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])


class NetworkParameters(Parameters):
    """The layout of a module's parameters and buffers in the flat vector."""

    def __init__(self, network: CustomNetwork) -> None:
        super().__init__(())
        self.network = network
        self._tensor_shapes: dict[str, torch.Size] = {}
        self._tensor_types: dict[str, torch.dtype] = {}
        for name, tensor in network.tensors.items():
            self.shapes[name] = (1, tensor.numel())
            self._layout[name] = (self.size, 1, padded(tensor.numel()))
            self._tensor_shapes[name] = tensor.shape
            self._tensor_types[name] = tensor.dtype
            self.size += padded(tensor.numel())

    def unpadded(self, flat: Array) -> dict[str, Array]:
        """Return the tensors by name, each in its own shape."""
        return {
            name: row.reshape(tuple(self._tensor_shapes[name]))
            for name, row in super().unpadded(flat).items()
        }

    def initial(self, stream: Stream, agent: int) -> Array:
        """Return the weights that the user's constructor gives, seeded for this agent."""
        seed = seed_of(stream, (agent,), 0)
        built = CustomNetwork(self.network.user_class, self.network.agent, seed)
        arrays = {name: t.float().numpy() for name, t in built.tensors.items()}
        return self.flat(arrays)

    def gradients(self, loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients of a loss; zeros for parameters that were not used."""
        with self.network.user_class.calling(self.network.agent, "forward", 0):
            gradients = partial(torch.autograd.grad, allow_unused=True)
            return list(gradients(loss, list(leaves), materialize_grads=True))

    def reshaped(self, views: Weights) -> dict[str, Tensor]:
        """Return one agent's views in the module's own shapes and types."""
        tensors = {}
        for name, view in views.items():
            shape = self._tensor_shapes[name]
            tensor = view[0, 0, : prod(shape)].view(shape)
            tensors[name] = tensor.to(self._tensor_types[name])
        return tensors


class CustomNetworkPolicy(Policy):
    """Acts by the values of a user's module."""

    user_class: ClassVar[UserClass]

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        super().__init__(agents, seed)
        self._network = CustomNetwork(self.user_class, agents[0])
        self._parameters = NetworkParameters(self._network)

    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the weights to act with."""
        views = self._parameters.views(torch.tensor(weights[0])[None])
        self._network.load(self._parameters.reshaped(views))

    @torch.no_grad()
    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Take the best actions, or explore."""
        obs = self._network.inputs(inputs.observations[0])
        values = self._network.values({}, obs, acting_seed(inputs)).numpy()
        temperatures = temperatures_of(self.agents, inputs.exploration)
        return act_by_values(values[None], inputs, temperatures)


class NetworkGroup(Group):
    """The state of one agent with a custom network."""

    def __init__(self, agents: Sequence[Agent], parameters: NetworkParameters) -> None:
        super().__init__(agents, parameters)
        self._network, self._reshaped = parameters.network, parameters.reshaped
        self._fixed = {
            name: self.weights.pop(name).detach()
            for name in list(self.weights)
            if name not in self._network.trained
        }
        self.buffers = self._copy_buffers()
        """Buffers and fixed parameters: part of the weights, but without gradients.

        These are copies, which a pass can change while gradients are still to come.
        """

    def _copy_buffers(self) -> dict[str, Tensor]:
        fixed = self._reshaped(self._fixed)
        return {name: tensor.clone() for name, tensor in fixed.items()}

    def load(self, states: Sequence[State]) -> None:
        """Take the agent's state."""
        super().load(states)
        self.buffers = self._copy_buffers()

    def _step(self, active: Array) -> None:
        """Keep the buffers of an update that was finite, then make the update."""
        if active.all():
            for name, view in self._fixed.items():
                changed = self.buffers[name].detach().flatten()
                view[0, 0, : len(changed)].copy_(changed)
        super()._step(active)


@dataclass
class BatchOfParts(StackedPaths):
    """The batch of one agent, with the observations that its module is called with."""

    transitions: Batch


class CustomNetworkLearner(ValueBasedLearner):
    """Learns action values by double DQN: Huber loss, target network, Adam."""

    user_class: ClassVar[UserClass]
    group: NetworkGroup

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self._network = CustomNetwork(self.user_class, agents[0])
        self._parameters = NetworkParameters(self._network)
        super().__init__(agents, seed, self._parameters)
        self.group = NetworkGroup(agents, self._parameters)

    @classmethod
    def parameters(cls, agent: Agent) -> Parameters:
        """Return the layout of the module's parameters and buffers."""
        return NetworkParameters(CustomNetwork(cls.user_class, agent))

    def batches(
        self,
        readers: Sequence[ReplayReader],
        transitions: Sequence[Array | None],
        passes: Sequence[PassDraws],
    ) -> Iterator[StackedBatch]:
        """Yield one batch per pass, with the observations by part."""
        (reader,), (sampled,) = readers, transitions
        assert sampled is not None
        batches = super().batches(readers, transitions, passes)
        for batch, rows in zip(batches, np.split(sampled, len(passes)), strict=True):
            yield BatchOfParts(**vars(batch), transitions=reader.batch(rows))

    def compute_losses(self, batch: StackedBatch) -> PassResult:
        """Return the Huber loss between Q(s, a) and the target of double DQN."""
        assert isinstance(batch, BatchOfParts)
        transitions = batch.transitions
        network, reshaped = self._network, self._parameters.reshaped
        seed = seed_of(self.stream, batch.draws.key, SEED_DRAW)
        with torch.no_grad():
            next_obs = network.inputs(transitions.next_seen)
            online = reshaped(self.group.weights) | self.group.buffers
            target = reshaped(self.group.target)
            online_values = network.values(online, next_obs, seed)[None]
            best = losses.masked(online_values, batch.next_legal).argmax(dim=2)
            target_values = network.values(target, next_obs, seed)[None]
            next_values = losses.pick(target_values, best)
        targets = batch.returns + batch.discounts * next_values
        # In training mode, in which buffers change: they are replaced in `tensors`.
        tensors = reshaped(self.group.weights) | self.group.buffers
        obs = network.inputs(transitions.seen)
        all_values = network.values(tensors, obs, seed ^ 1, learning=True)
        self.group.buffers = {name: tensors[name] for name in self.group.buffers}
        values = losses.pick(all_values[None], batch.actions)
        loss, errors = losses.huber(values, targets)
        return PassResult((loss * batch.importance).mean(dim=1), errors, values.detach())
