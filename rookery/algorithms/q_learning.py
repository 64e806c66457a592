"""What learners of values share: a network, acting by the best value, noise, batches.

Values come from one last layer, split into a state's and an action's if it is dueling;
the layers after reading may be noisy. What a value is (a number, or quantiles of the
return) and how it is compared with what followed is the algorithm's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Policy, PolicyInput, PolicyOutput
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import Columns, Given, Place, Places
from rookery.algorithms.common.exploration import explore, temperatures_of
from rookery.algorithms.common.group import Inputs, noise_for
from rookery.algorithms.common.retrace import PathColumns, lay_out_paths, paths_of
from rookery.algorithms.common.schedules import epsilon
from rookery.algorithms.nets.encoder import Encoder
from rookery.algorithms.nets.layers import Linear, Noise, Parameters, padded, shaken
from rookery.algorithms.value_based import ValueBasedLearner
from rookery.config.agent import AgentSettings, ValueParts
from rookery.replay.buffer import Batch, ReplayReader
from rookery.rng import Purpose, Stream
from rookery.specs import Array

Weights = Mapping[str, Tensor]


class ValueNetwork(ABC):
    """The layers of one kind of agent, for any number of them."""

    def __init__(self, agent: Agent) -> None:
        settings, parts = agent.settings, self.parts(agent.settings)
        network = settings.network
        self.encoder = Encoder(
            agent.spec,
            settings.frames,
            network.width,
            network.depth,
            network.channels,
            torch.relu_,
        )
        self.features = self.encoder.features
        self.actions, self.width = agent.spec.num_actions, network.width
        self.dueling = parts.dueling
        outputs = self.actions + (1 if self.dueling else 0)
        last = Linear("values", self.width, outputs, parts.noisy)
        between = self.layers_between(parts.noisy)
        self.parameters = Parameters([*self.encoder.layers, *between, last])
        # What outputs count for in the value of an action: its own output, and the others.
        own, others = np.ones(1, np.float32), np.zeros(padded(outputs), np.float32)
        if self.dueling:
            own -= np.float32(1.0 / self.actions)
            others[: self.actions] -= np.float32(1.0 / self.actions)
            others[self.actions] = 1.0
        self._own, self._others = float(own[0]), torch.from_numpy(others)

    @staticmethod
    @abstractmethod
    def parts(settings: AgentSettings) -> ValueParts:
        """Return which parts are switched on."""

    @abstractmethod
    def layers_between(self, noisy: bool) -> list[Linear]:
        """Return the layers between reading and the last."""

    @abstractmethod
    def numbers(self, settings: AgentSettings) -> int:
        """Return how many numbers a pass over one row takes, with its gradients."""

    @property
    def noisy_layers(self) -> dict[str, tuple[int, int]]:
        """Noisy layer name to its real inputs and outputs."""
        layers = self.parameters.layers.values()
        return {
            layer.name: (layer.inputs, layer.outputs) for layer in layers if layer.noisy
        }

    def read(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return (agents, rows, width) for observations (agents, rows, features)."""
        return self.encoder(weights, inputs)

    def of_actions(self, outputs: Tensor) -> Tensor:
        """Return (…, actions) from what the last layer puts out."""
        if self.dueling:
            return losses.dueling(outputs, self.actions)
        return outputs[..., : self.actions]

    def shares(self, actions: Tensor) -> Tensor:
        """Return what each output counts for in the values of actions, (…, outputs).

        Their product and sum is what picking from `of_actions` gives, in two steps that
        autograd has to take back.
        """
        shares = self._others.expand(*actions.shape, -1).clone()
        return shares.scatter_(-1, actions.unsqueeze(-1), self._own)


class EpsilonGreedyPolicy(Policy):
    """Acts by the highest value, or by chance any legal action."""

    network: ValueNetwork

    def __init__(self, agents: Sequence[Agent], seed: int, network: ValueNetwork) -> None:
        super().__init__(agents, seed)
        self._noise = Stream(seed, Purpose.NOISE)
        self._agents = np.array([agent.number for agent in agents])
        self._stacked = np.zeros((len(agents), network.parameters.size), np.float32)

    @torch.no_grad()
    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take weights; do once what all its turns share."""
        np.stack(weights, out=self._stacked)
        views = self.network.parameters.views(torch.from_numpy(self._stacked))
        layers = self.network.noisy_layers if noise else {}
        drawn = noise_for(layers, self._noise, (self._agents, number), 0)
        self.take(shaken(views, drawn))

    @abstractmethod
    def take(self, weights: dict[str, Tensor]) -> None:
        """Take the weights of a round, already shaken."""

    @abstractmethod
    def values(self, seen: Sequence[Mapping[str, Array]], worlds: int) -> Array:
        """Return the values of actions, (agents, worlds, actions)."""

    @torch.no_grad()
    def act(self, moment: PolicyInput) -> PolicyOutput:
        """Choose the best action, or by chance a random one."""
        worlds = moment.draws.shape[1]
        values = self.values(moment.seen, worlds)
        temperatures = temperatures_of(self.agents, moment.exploration)
        done = explore(values, moment, temperatures)
        expected = values[np.arange(len(values))[:, None], np.arange(worlds), done.actions]
        return PolicyOutput(done.actions, done.probabilities, expected, done.entropies)


class QLearner(ValueBasedLearner):
    """Learns values of actions with a network, a target network, and noise in both."""

    network_type: ClassVar[type[ValueNetwork]]

    def __init__(
        self, agents: Sequence[Agent], seed: int, network: ValueNetwork, draws: int = 0
    ) -> None:
        super().__init__(agents, seed, network.parameters, draws)
        self._noisy_layers = network.noisy_layers
        self._noise = Stream(seed, Purpose.LEARNER_NOISE)
        self._noises: dict[int, list[dict[str, Noise]]] = {}
        settings = agents[0].settings
        self._retrace = network.parts(settings).retrace
        self.gap = network.parts(settings).gap
        self.ends = self.ends_of(settings)
        self._now, self._next = (
            Inputs(network.features, len(agents), self.batch_size * ends)
            for ends in (1, self.ends)
        )

    @classmethod
    def parameters(cls, agent: Agent) -> Parameters:
        """Return where an agent's parameters lie."""
        return cls.network_type(agent).parameters

    @classmethod
    def exploration(cls, settings: AgentSettings, steps: int) -> float:
        """Return the chance of a random action; noise in the weights explores by itself."""
        if cls.network_type.parts(settings).noisy:
            return 0.0
        return epsilon(settings.epsilon, steps)

    @classmethod
    def working_bytes(cls, agent: Agent, worlds: int, turns: int) -> int:
        """Return about how much memory learning takes: a batch, and where it led."""
        network = cls.network_type(agent)
        numbers = network.features.padded + network.numbers(agent.settings)
        rows = cls.rows_at_once(agent.settings)
        return super().working_bytes(agent, worlds, turns) + 4 * rows * numbers

    @classmethod
    def rows_at_once(cls, settings: AgentSettings) -> int:
        """Return how many rows an update looks at, of one agent."""
        return settings.batch_size * (1 + cls.ends_of(settings))

    @classmethod
    def n_step(cls, settings: AgentSettings) -> int:
        """Return after how many rows a step closes; Retrace looks at every row between."""
        off = cls.network_type.parts(settings).retrace is None
        return settings.n_step if off else 1

    @classmethod
    def ends_of(cls, settings: AgentSettings) -> int:
        """Return how many rows a step is compared with: one, or a path by Retrace."""
        return settings.n_step // cls.n_step(settings)

    def read(self, i: int, reader: ReplayReader, steps: Array) -> Batch:
        """Return drawn steps of one agent, or the paths that begin with them."""
        if self._retrace is None:
            return super().read(i, reader, steps)
        return paths_of(reader, steps, self.ends)

    def lay_out(self, batches: Sequence[Batch | None], passes: int) -> list[Given]:
        """Return what passes are given; paths with all their ends."""
        if self._retrace is None:
            return super().lay_out(batches, passes)
        factors = [spread.factor for spread in self.group.spreads]
        return lay_out_paths(batches, passes, self.agents[0], factors)

    def shares(self, columns: Columns, best: Tensor) -> Tensor | None:
        """Return what ends count for, (agents, batch, ends); None if there is but one.

        `best` are the best actions at all ends, (agents, batch × ends).
        """
        if self._retrace is None:
            return None
        assert isinstance(columns, PathColumns)
        agrees = columns.goes_on & (best.view(columns.taken.shape) == columns.taken)
        return losses.retrace_shares(agrees, self._retrace)

    def inputs_now(self, batches: Sequence[Batch | None]) -> Tensor:
        """Return what was seen where steps opened, (agents, batch, features)."""
        return self._now.fill([batch.seen if batch else None for batch in batches])

    def inputs_next(self, batches: Sequence[Batch | None]) -> Tensor:
        """Return what was seen where steps closed, (agents, batch × ends, features)."""
        return self._next.fill([batch.next_seen if batch else None for batch in batches])

    def draw_ahead(self, passes: range, places: Places) -> None:
        """Draw noise: of each pass for the weights, and for the target."""
        layers, count = self._noisy_layers, len(self.agents)
        if not layers:
            return
        drawn = [noise_for(layers, self._noise, places, i * len(layers)) for i in (0, 1)]
        self._noises = {
            one: [
                {name: noise.part(k * count, (k + 1) * count) for name, noise in of.items()}
                for of in drawn
            ]
            for k, one in enumerate(passes)
        }

    def shaken(self, place: Place) -> tuple[Weights, Weights]:
        """Return weights and target, each with noise of its own if they are noisy."""
        if not self._noisy_layers:
            return self.group.weights, self.group.target
        noise, other = self._noises[place[2]]
        return shaken(self.group.weights, noise), shaken(self.group.target, other)
