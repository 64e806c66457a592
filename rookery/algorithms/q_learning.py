"""What DQN and IQN share: networks of action values, acting by them, noise, Retrace.

The last layer gives action values, or with `dueling` a state value and advantages. The
layers after the encoder can be noisy. Whether a value is a number or quantiles of the
return, and its loss, is up to the algorithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from rookery.algorithms.base import Agent, Policy, PolicyInput, PolicyOutput
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import (
    PassDraws,
    PassKeys,
    StackedBatch,
    StackedPaths,
)
from rookery.algorithms.common.exploration import act_by_values, temperatures_of
from rookery.algorithms.common.group import Inputs, noise_for
from rookery.algorithms.common.retrace import retrace_shares
from rookery.algorithms.common.schedules import epsilon
from rookery.algorithms.custom.encoder import encoder_of
from rookery.algorithms.nets import acting
from rookery.algorithms.nets.layers import (
    Linear,
    Noise,
    Parameters,
    Weights,
    add_noise,
    padded,
)
from rookery.algorithms.value_based import ValueBasedLearner
from rookery.config.agent import AgentSettings, ValueParts
from rookery.rng import Purpose, Stream
from rookery.specs import Array

LayerNoise = Mapping[str, Noise]
"""The noise of noisy layers, by layer."""


class ValueNetwork(ABC):
    """The layers of a group's networks: encoder, layers in between, action values."""

    def __init__(self, agent: Agent) -> None:
        settings, parts = agent.settings, self.parts(agent.settings)
        network = settings.network
        self.encoder = encoder_of(agent, torch.relu_)
        self.features = self.encoder.features
        self.actions, self.width = agent.spec.num_actions, network.width
        self.dueling = parts.dueling
        outputs = self.actions + (1 if self.dueling else 0)
        last = Linear("values", self.width, outputs, parts.noisy)
        between = self.layers_between(parts.noisy)
        self.parameters = self.encoder.parameters([*between, last])
        # The coefficients of the outputs in an action's value: its own output's, the rest.
        own, others = np.ones(1, np.float32), np.zeros(padded(outputs), np.float32)
        if self.dueling:
            own -= np.float32(1.0 / self.actions)
            others[: self.actions] -= np.float32(1.0 / self.actions)
            others[self.actions] = 1.0
        self._own, self._others = float(own[0]), torch.from_numpy(others)

    @staticmethod
    @abstractmethod
    def parts(settings: AgentSettings) -> ValueParts:
        """Return the algorithm's settings, `settings.dqn` or `settings.iqn`."""

    @abstractmethod
    def layers_between(self, noisy: bool) -> list[Linear]:
        """Return the layers between the encoder and the last layer."""

    @abstractmethod
    def floats_per_row(self, settings: AgentSettings) -> int:
        """Return how many numbers a row takes in a forward and backward pass."""

    @property
    def noisy_layers(self) -> dict[str, tuple[int, int]]:
        """Noisy layer name to its inputs and outputs, without padding."""
        layers = self.parameters.layers.values()
        return {
            layer.name: (layer.inputs, layer.outputs) for layer in layers if layer.noisy
        }

    def action_values(self, outputs: Tensor) -> Tensor:
        """Return action values, (…, actions), from the last layer's outputs."""
        if self.dueling:
            return losses.dueling(outputs, self.actions)
        return outputs[..., : self.actions]

    def values_taken(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Return the values of given actions, (…), from the last layer's outputs.

        One product with coefficients: `action_values` and picking from it would be two
        more operations for autograd to go back through. If `outputs` has one dimension
        more than actions have (quantiles), the same action holds along it.
        """
        coefficients = self.coefficients(actions)
        if outputs.dim() > coefficients.dim():
            coefficients = coefficients.unsqueeze(-2)
        return (outputs * coefficients).sum(dim=-1)

    def coefficients(self, actions: Tensor) -> Tensor:
        """Return the coefficient of each output in the values of actions, (…, outputs)."""
        coefficients = self._others.expand(*actions.shape, -1).clone()
        return coefficients.scatter_(-1, actions.unsqueeze(-1), self._own)


class EpsilonGreedyPolicy(Policy):
    """Takes the action with the highest value, or explores."""

    network: ValueNetwork

    def __init__(self, agents: Sequence[Agent], seed: int, network: ValueNetwork) -> None:
        super().__init__(agents, seed)
        self._noise = Stream(seed, Purpose.NOISE)
        self._agent_numbers = np.array([agent.number for agent in agents])
        self._inputs: Inputs | None = None
        self._layers = network.encoder.linear_layers
        self._explores_softly = agents[0].settings.epsilon.temperature > 0

    @property
    def computes_in_loops(self) -> bool:
        """Whether all of `act` is compiled, if `values` is."""
        return bool(self._layers) and not self._explores_softly

    @torch.no_grad()
    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the weights; noise is drawn once per round."""
        stacked = self.network.parameters.stacked(weights)
        layers = self.network.noisy_layers if noise else {}
        drawn = noise_for(layers, self._noise, (self._agent_numbers, number), 0)
        self.prepare(add_noise(stacked, drawn))

    def prepare(self, weights: dict[str, Tensor]) -> None:
        """Prepare to act for a round with these weights, noise included."""
        self.tensors = weights
        self.weights = acting.weights_of(self.fold(weights))

    def fold(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return weights whose last layer gives action values from its inputs.

        Dueling is linear: applied to the layer once, it need not be applied to its outputs
        every turn.
        """
        network = self.network
        spare = padded(network.actions) - network.actions
        folded = {
            name: pad(network.action_values(weights[name]), (0, spare))
            for name in ("values.weight", "values.bias")
        }
        return weights | folded

    @abstractmethod
    def values(self, obs: Tensor) -> Array:
        """Return action values, (agents, worlds, actions), for (…, worlds, features)."""

    def encode(self, obs: Tensor) -> Array:
        """Return the encoder's output, (agents, worlds, width)."""
        if not self._layers:
            return self.network.encoder(self.tensors, obs).numpy()
        encoded = obs.numpy()
        for name in self._layers:
            encoded = acting.linear(self.weights, name, encoded)
        return encoded

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Take the best actions, or explore."""
        if self.is_compiled:
            return self._act(inputs)
        with torch.no_grad():
            return self._act(inputs)

    def _act(self, inputs: PolicyInput) -> PolicyOutput:
        worlds = inputs.draws.shape[1]
        if self._inputs is None or self._inputs.rows != worlds:
            self._inputs = Inputs(self.network.features, len(self.agents), worlds)
        values = self.values(self._inputs.fill(inputs.observations))
        temperatures = temperatures_of(self.agents, inputs.exploration)
        return act_by_values(values, inputs, temperatures)


class QLearner(ValueBasedLearner):
    """Learns action values with an online and a target network, both possibly noisy.

    Subclasses set `network_type` and define `compute_losses`.
    """

    takes_module = True
    network_type: ClassVar[type[ValueNetwork]]

    def __init__(
        self, agents: Sequence[Agent], seed: int, network: ValueNetwork, draws: int = 0
    ) -> None:
        settings = agents[0].settings
        self.ends = self.ends_of(settings)
        super().__init__(agents, seed, network.parameters, draws, self.ends)
        self._noisy_layers = network.noisy_layers
        self._noise_stream = Stream(seed, Purpose.LEARNER_NOISE)
        self._noise: dict[int, list[dict[str, Noise]]] = {}
        """Noise of the online and the target network, by pass."""
        self._retrace = network.parts(settings).retrace
        self.advantage_gap = network.parts(settings).gap

    @classmethod
    def parameters(cls, agent: Agent) -> Parameters:
        """Return the layout of the network's parameters."""
        return cls.network_type(agent).parameters

    @classmethod
    def exploration(cls, settings: AgentSettings, steps: int) -> float:
        """Return the probability of a random action; 0 for noisy networks."""
        if cls.network_type.parts(settings).noisy:
            return 0.0
        return epsilon(settings.epsilon, steps)

    @classmethod
    def working_bytes(cls, agent: Agent, worlds: int, turns: int) -> int:
        """Estimate the memory of an update: state, window, and passes over a batch."""
        network = cls.network_type(agent)
        floats = network.features.padded + network.floats_per_row(agent.settings)
        rows = cls.rows_per_pass(agent.settings)
        return super().working_bytes(agent, worlds, turns) + 4 * rows * floats

    @classmethod
    def rows_per_pass(cls, settings: AgentSettings) -> int:
        """Return how many rows of one agent a pass goes through."""
        return settings.batch_size * (1 + cls.ends_of(settings))

    @classmethod
    def n_step(cls, settings: AgentSettings) -> int:
        """Return the length of a transition: 1 with Retrace, which reads every row."""
        off = cls.network_type.parts(settings).retrace is None
        return settings.n_step if off else 1

    @classmethod
    def ends_of(cls, settings: AgentSettings) -> int:
        """Return how many rows a target bootstraps from: 1, or `n_step` with Retrace."""
        return settings.n_step // cls.n_step(settings)

    def retrace_shares(self, batch: StackedBatch, best: Tensor) -> Tensor | None:
        """Return the weight of each end in a target, (agents, batch, ends).

        `best` are the best actions at all ends, (agents, batch × ends). Without Retrace
        there is one end, and None is returned.
        """
        if self._retrace is None:
            return None
        assert isinstance(batch, StackedPaths)
        agrees = batch.continues & (best.view(batch.taken.shape) == batch.taken)
        return retrace_shares(agrees, self._retrace)

    def obs(self, batch: StackedBatch) -> Tensor:
        """Return observations where transitions open, (agents, batch, features)."""
        return batch.observations[:, : self.batch_size]

    def next_obs(self, batch: StackedBatch) -> Tensor:
        """Return observations where they close, (agents, batch × ends, features)."""
        return batch.observations[:, self.batch_size :]

    def draw_ahead(self, passes: range, keys: PassKeys) -> None:
        """Draw the noise of several passes: for the online and for the target network."""
        layers, count = self._noisy_layers, len(self.agents)
        if not layers:
            return
        pair = [
            noise_for(layers, self._noise_stream, keys, i * len(layers)) for i in (0, 1)
        ]
        self._noise = {
            number: [
                {
                    name: each.part(k * count, (k + 1) * count)
                    for name, each in noise.items()
                }
                for noise in pair
            ]
            for k, number in enumerate(passes)
        }

    def noise(self, draws: PassDraws) -> tuple[LayerNoise, LayerNoise]:
        """Return the noise of a pass by layer, of the online and of the target network."""
        _, _, number = draws.key
        online, target = self._noise.get(number, ({}, {}))
        return online, target

    def noisy_weights(self, draws: PassDraws) -> tuple[Weights, Weights]:
        """Return online and target weights, each with its own noise if they are noisy."""
        if not self._noisy_layers:
            return self.group.weights, self.group.target
        online_noise, target_noise = self.noise(draws)
        return (
            add_noise(self.group.weights, online_noise),
            add_noise(self.group.target, target_noise),
        )
