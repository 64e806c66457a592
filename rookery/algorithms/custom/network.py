"""A user's own network, trained by a plain double DQN.

The network is built once in each place that needs it, and called with parameters and
buffers that lie in the agent's flat vector. So moments, targets, priorities, counts and
checkpoints are those of every value learner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from rookery.algorithms.base import Agent, Policy, PolicyInput, PolicyOutput, State
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import Columns, Place
from rookery.algorithms.common.choosing import choose_by_values
from rookery.algorithms.common.group import Group
from rookery.algorithms.custom.sandbox import Code, seed_at, seed_of
from rookery.algorithms.nets.layers import Parameters, padded
from rookery.algorithms.value_based import Losses, ValueBasedLearner
from rookery.replay.buffer import Batch
from rookery.rng import Stream
from rookery.specs import Array

TRY = 2
"""Rows of the made-up observation that a new network is tried with."""
SEED_DRAW = 1


class CustomNetwork:
    """A user's network, called with its own weights or with others."""

    def __init__(self, code: Code, agent: Agent, seed: int = 0) -> None:
        self.code, self.agent = code, agent
        self._module: nn.Module = code.build(agent, seed)
        # Lazy layers get their shapes, and mistakes are found before anything is played.
        with torch.no_grad():
            rows = {
                name: torch.zeros(TRY, agent.settings.frames, *part.shape)
                for name, part in agent.spec.parts.items()
            }
            self._call({}, rows, seed ^ 1, learning=False)
        self.trained = [n for n, p in self._module.named_parameters() if p.requires_grad]
        if not self.trained:
            raise code.error(
                agent, "__init__", "made no parameters: there is nothing to learn."
            )

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, as they were built."""
        found = dict(self._module.named_parameters()) | dict(self._module.named_buffers())
        return {name: tensor.detach() for name, tensor in found.items()}

    def inputs(self, seen: Mapping[str, Array]) -> dict[str, Tensor]:
        """Return an observation as tensors of float32, scaled as its parts ask for."""
        return {
            name: torch.tensor(seen[name], dtype=torch.float32) * part.scale
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

        Without `tensors` it uses those it was built with, or has taken. Buffers that
        change do so in `tensors`.
        """
        return self._call(tensors, inputs, seed, learning).float()

    @torch.no_grad()
    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """Take parameters and buffers to act with."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    def _call(
        self,
        tensors: dict[str, Tensor],
        inputs: Mapping[str, Tensor],
        seed: int,
        learning: bool,
    ) -> Tensor:
        module = self._module.train(learning)
        with self.code.running(self.agent, "forward", seed):
            if tensors:
                found = functional_call(module, tensors, (dict(inputs),))
            else:
                found = module(dict(inputs))
        rows = len(next(iter(inputs.values())))
        expected = (rows, self.agent.spec.num_actions)
        if not isinstance(found, Tensor) or tuple(found.shape) != expected:
            shape = (
                tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            )
            raise self.code.error(
                self.agent,
                "forward",
                f"returned {shape}, expected a tensor {expected}: one value per action.",
            )
        return found


class NetworkParameters(Parameters):
    """Where each parameter and buffer of a user's network lies in the flat vector."""

    def __init__(self, network: CustomNetwork) -> None:
        super().__init__(())
        self.network = network
        self._forms: dict[str, torch.Size] = {}
        self._types: dict[str, torch.dtype] = {}
        for name, tensor in network.tensors.items():
            self.shapes[name] = (1, tensor.numel())
            self._places[name] = (self.size, 1, padded(tensor.numel()))
            self._forms[name], self._types[name] = tensor.shape, tensor.dtype
            self.size += padded(tensor.numel())

    def real(self, flat: Array) -> dict[str, Array]:
        """Return the tensors by name, each in its own shape."""
        found = super().real(flat)
        return {name: a.reshape(tuple(self._forms[name])) for name, a in found.items()}

    def initial(self, stream: Stream, agent: int) -> Array:
        """Return the weights that the user's constructor draws."""
        seed = seed_of(stream, (agent,), 0)
        built = CustomNetwork(self.network.code, self.network.agent, seed)
        arrays = {name: t.float().numpy() for name, t in built.tensors.items()}
        return self.flat(arrays)

    def formed(self, views: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return one agent's views in the network's own shapes and types."""
        found = {}
        for name, view in views.items():
            form = self._forms[name]
            found[name] = view[0, 0, : prod(form)].view(form).to(self._types[name])
        return found


class CustomNetworkPolicy(Policy):
    """Acts by the values of a user's network."""

    code: ClassVar[Code]

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        super().__init__(agents, seed)
        self._network = CustomNetwork(self.code, agents[0])
        self._parameters = NetworkParameters(self._network)

    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the weights to act with."""
        views = self._parameters.views(torch.tensor(weights[0])[None])
        self._network.take(self._parameters.formed(views))

    @torch.no_grad()
    def act(self, moment: PolicyInput) -> PolicyOutput:
        """Choose the best action, or by chance a random one."""
        inputs = self._network.inputs(moment.seen[0])
        values = self._network.values({}, inputs, seed_at(moment))
        return choose_by_values(values.numpy(), moment, self.agents)


class NetworkGroup(Group):
    """The state of one agent with a user's network."""

    def __init__(self, agents: Sequence[Agent], parameters: NetworkParameters) -> None:
        super().__init__(agents, parameters)
        self._network, self._formed = parameters.network, parameters.formed
        self._kept = {
            name: self.weights.pop(name).detach()
            for name in list(self.weights)
            if name not in self._network.trained
        }
        self.buffers = self._copies()
        """Buffers and fixed parameters: part of the weights, but without gradients.

        These are copies, which a pass may change while gradients are still to come.
        """

    def _copies(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self._formed(self._kept).items()}

    def load(self, states: Sequence[State]) -> None:
        """Take the agent's state."""
        super().load(states)
        self.buffers = self._copies()

    def _follow(self, active: Array) -> None:
        """Keep the buffers of an update that was sound; then let the target follow."""
        for name, view in self._kept.items():
            if active.all():
                changed = self.buffers[name].detach().flatten()
                view[0, 0, : len(changed)].copy_(changed)
        super()._follow(active)

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Return the gradients of a loss; parameters that were not used get zeros."""
        leaves = list(self.weights.values())
        with self._network.code.running(self.agents[0], "forward", 0):
            return list(
                torch.autograd.grad(
                    loss.sum(), leaves, allow_unused=True, materialize_grads=True
                )
            )


class CustomNetworkLearner(ValueBasedLearner):
    """Learns action values by double DQN: Huber loss, target network, Adam."""

    code: ClassVar[Code]
    group: NetworkGroup

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self._network = CustomNetwork(self.code, agents[0])
        self._parameters = NetworkParameters(self._network)
        super().__init__(agents, seed, self._parameters, draws=0)
        self.group = NetworkGroup(agents, self._parameters)

    @classmethod
    def parameters(cls, agent: Agent) -> Parameters:
        """Return where an agent's parameters lie."""
        return NetworkParameters(CustomNetwork(cls.code, agent))

    def losses(
        self,
        batches: Sequence[Batch | None],
        columns: Columns,
        importance: Tensor,
        draws: Array,
        place: Place,
    ) -> Losses:
        """Compare values of chosen actions with what followed."""
        (batch,) = batches
        assert batch is not None
        seed = seed_of(self._stream, place, SEED_DRAW)
        after = self._values_after(batch, columns.next_legal, seed)
        targets = columns.returns + columns.discounts * after
        every = self._learning_values(self._network.inputs(batch.seen), seed ^ 1)
        found = losses.pick(every[None], columns.actions)
        loss = nn.functional.huber_loss(found, targets, reduction="none")
        errors = (targets - found.detach()).abs()
        return Losses((loss * importance).mean(dim=1), errors, found.detach())

    @torch.no_grad()
    def _values_after(self, batch: Batch, legal: Tensor | None, seed: int) -> Tensor:
        """Return the target's values of the actions that the network likes best."""
        inputs = self._network.inputs(batch.next_seen)
        weights = self._parameters.formed(self.group.weights) | self.group.buffers
        target = self._parameters.formed(self.group.target)
        likes = self._network.values(weights, inputs, seed)[None]
        best = losses.masked(likes, legal).argmax(dim=2)
        return losses.pick(self._network.values(target, inputs, seed)[None], best)

    def _learning_values(self, inputs: Mapping[str, Tensor], seed: int) -> Tensor:
        """Return values that gradients flow through; buffers take in the batch."""
        tensors = self._parameters.formed(self.group.weights) | self.group.buffers
        found = self._network.values(tensors, inputs, seed, learning=True)
        self.group.buffers = {name: tensors[name] for name in self.group.buffers}
        return found
