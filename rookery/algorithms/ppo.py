"""PPO: a clipped policy gradient, for a group of agents as one computation.

It learns from the same rows in the same rounds as every other algorithm: the steps that
close in the newest round, wherever they opened, with the probabilities stored when they
were taken. Values for advantages are computed once, with the state it starts from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms import losses
from rookery.algorithms.base import (
    AgentPlan,
    Choice,
    Metrics,
    Moment,
    Policy,
    Rule,
    Shapes,
    State,
)
from rookery.algorithms.group import Group, Inputs
from rookery.algorithms.networks import Features, Linear, Parameters, linear
from rookery.memory.replay import ReplayReader
from rookery.seeding import Purpose, Stream
from rookery.specs import Array


class PpoNetwork:
    """Reads an observation; gives logits of actions and a value."""

    def __init__(self, plan: AgentPlan) -> None:
        network = plan.settings.network
        self.features = Features(plan.spec, plan.settings.frames)
        self.actions, self.depth = plan.spec.num_actions, network.depth
        width = network.width
        layers = [Linear("read.0", self.features.width, width)]
        layers += [Linear(f"read.{i}", width, width) for i in range(1, self.depth)]
        layers += [Linear("choose", width, self.actions), Linear("value", width, 1)]
        self.parameters = Parameters(layers)

    def __call__(self, weights: dict[str, Tensor], inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (agents, rows, actions) and values (agents, rows)."""
        hidden = inputs
        for i in range(self.depth):
            hidden = torch.tanh(linear(weights, f"read.{i}", hidden))
        logits = linear(weights, "choose", hidden)[..., : self.actions]
        return logits, linear(weights, "value", hidden)[..., 0]


class PpoPolicy(Policy):
    """Draws actions from the network's probabilities."""

    def __init__(self, plans: Sequence[AgentPlan], seed: int) -> None:
        super().__init__(plans, seed)
        self.network = PpoNetwork(plans[0])
        self._inputs: Inputs | None = None

    def begin_round(self, weights: Sequence[Array], number: int) -> None:
        """Take the weights to act with."""
        self._weights = self.network.parameters.views(torch.from_numpy(np.stack(weights)))

    @torch.no_grad()
    def act(self, moment: Moment) -> Choice:
        """Draw by the cumulative probabilities; greedy where exploration is 0."""
        worlds = moment.draws.shape[1]
        if self._inputs is None or self._inputs.rows != worlds:
            self._inputs = Inputs(self.network.features, len(self.plans), worlds)
        logits, values = self.network(self._weights, self._inputs.fill(moment.seen))
        legal = _stacked_legal(moment.legal, logits.shape)
        chances = torch.log_softmax(losses.masked(logits, legal), dim=2).exp().numpy()
        below = chances.cumsum(axis=2) <= moment.draws[:, :, :1]
        drawn = np.minimum(below.sum(axis=2), chances.shape[2] - 1)
        greedy = moment.exploration[:, None] == 0
        actions = np.where(greedy, chances.argmax(axis=2), drawn)
        picked = np.take_along_axis(chances, actions[..., None], axis=2)[..., 0]
        entropies = -(chances * np.log(np.maximum(chances, 1e-12))).sum(axis=2)
        return Choice(actions, picked, values.numpy(), entropies)


def _stacked_legal(legal: Sequence[Array | None], shape: Sequence[int]) -> Tensor | None:
    if all(mask is None for mask in legal):
        return None
    everything = np.ones(shape[1:], bool)
    stacked = [everything if mask is None else mask for mask in legal]
    return torch.from_numpy(np.stack(stacked))


@dataclass
class Experience:
    """The steps of a round, side by side: (agents, places, …); unused places weigh 0."""

    inputs: Tensor
    actions: Tensor
    old_logs: Tensor
    advantages: Tensor
    targets: Tensor
    weights: Tensor
    legal: Tensor | None


def advantages_of(
    opens: Array, closes: Array, worlds: Array, errors: Array, decays: Array
) -> Array:
    """Return generalised advantages of steps, given in the order they opened.

    Args:
        opens: (n,) turns.
        closes: (n,) turns; where the next step of that world opens, if it goes on.
        worlds: (n,) worlds.
        errors: (n,) one-step errors.
        decays: (n,) what the next step's advantage counts for; 0 where there is none.
    """
    found = errors.astype(np.float64)
    place = {
        (turn, world): i for i, (turn, world) in enumerate(zip(opens, worlds, strict=True))
    }
    for i in range(len(opens) - 1, -1, -1):
        follower = place.get((closes[i], worlds[i]))
        if follower is not None:
            found[i] += decays[i] * found[follower]
    return found.astype(np.float32)


class PpoRule(Rule):
    """Goes over the steps of the newest round a few times."""

    on_policy = True

    def __init__(self, plans: Sequence[AgentPlan], seed: int) -> None:
        super().__init__(plans, seed)
        self.network = PpoNetwork(plans[0])
        self.group = Group(plans, self.network.parameters)
        self._order = Stream(seed, Purpose.LEARNER)
        self._agents = np.array([plan.number for plan in plans])
        self._inputs: tuple[Inputs, Inputs] | None = None

    @classmethod
    def shapes(cls, plan: AgentPlan, slots: int, worlds: int) -> Shapes:
        """Return weights, moments and counters."""
        return Group.shapes(PpoNetwork(plan).parameters.size)

    def initial(self, plan: AgentPlan) -> dict[str, Array]:
        """Return an agent's first state."""
        stream = Stream(self.seed, Purpose.INITIAL)
        return Group.initial(self.network.parameters.initial(stream, plan.number))

    def load(self, states: Sequence[State]) -> None:
        """Take the group's states."""
        self.group.load(states)

    def save(self) -> list[dict[str, Array]]:
        """Return the group's states."""
        return self.group.save()

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make passes × minibatches updates from the steps that closed since `first`."""
        steps = [np.sort(reader.closed_since(first)) for reader in readers]
        places = (readers[0].border - first) * readers[0].worlds
        ready = np.array([len(found) > 0 for found in steps]) & self.group.going
        metrics: list[Metrics] = [
            {"updates": 0, "usable_steps": len(found)} for found in steps
        ]
        if ready.any():
            experience = self._experience(readers, steps, places)
            self._passes(experience, number, ready, metrics)
        self.group.check_padding()
        return metrics

    @torch.no_grad()
    def _experience(
        self, readers: Sequence[ReplayReader], steps: Sequence[Array], places: int
    ) -> Experience:
        agents = len(readers)
        if self._inputs is None or self._inputs[0].rows != places:
            self._inputs = (
                Inputs(self.network.features, agents, places),
                Inputs(self.network.features, agents, places),
            )
        seen = [
            _padded(reader, found, places)
            for reader, found in zip(readers, steps, strict=True)
        ]
        now = self._inputs[0].fill([one.seen for one in seen])
        after = self._inputs[1].fill([one.next_seen for one in seen])
        _, values = self.network(self.group.weights, now)
        _, next_values = self.network(self.group.weights, after)
        return _settle(readers, steps, now, values.numpy(), next_values.numpy(), self.plans)
