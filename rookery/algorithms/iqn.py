"""IQN: implicit quantile networks, for a group of agents as one computation.

Each agent draws its own numbers, has its own parameters, moments and counts, and its own
place in every tensor; the loss is a sum over agents, so that gradients stay apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms import losses
from rookery.algorithms.ahead import Columns, Place, Places
from rookery.algorithms.base import (
    AgentPlan,
    Algorithm,
    Choice,
    Moment,
    Policy,
    explore,
)
from rookery.algorithms.group import Inputs, noise_for
from rookery.algorithms.iqn_acting import IqnPass, folded
from rookery.algorithms.iqn_network import IqnNetwork, Weights, midpoints
from rookery.algorithms.networks import Noise, Parameters, shaken
from rookery.algorithms.values import Losses, ValueRule
from rookery.memory.replay import Batch
from rookery.seeding import Purpose, Stream
from rookery.specs import Array


class IqnPolicy(Policy):
    """Acts by the mean of each action's quantiles."""

    def __init__(self, plans: Sequence[AgentPlan], seed: int) -> None:
        super().__init__(plans, seed)
        self.network = IqnNetwork(plans[0])
        self._noise = Stream(seed, Purpose.NOISE)
        self._agents = np.array([plan.number for plan in plans])
        self._fractions = midpoints(len(plans), plans[0].settings.iqn.acting_quantiles)
        size = (len(plans), self.network.parameters.size)
        self._stacked = np.zeros(size, np.float32)
        self._pass: IqnPass | None = None

    @torch.no_grad()
    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take weights; do once what all its turns share."""
        np.stack(weights, out=self._stacked)
        views = self.network.parameters.views(torch.from_numpy(self._stacked))
        layers = self.network.noisy_layers if noise else {}
        drawn = noise_for(layers, self._noise, (self._agents, number), 0)
        shaken_views = shaken(views, drawn)
        quantiles = self._fractions.shape[2]
        self._weights = folded(self.network, shaken_views, quantiles)
        self._embedded = self.network.embed(shaken_views, self._fractions).numpy()

    @torch.no_grad()
    def act(self, moment: Moment) -> Choice:
        """Choose the best action, or by chance a random one."""
        worlds = moment.draws.shape[1]
        if self._pass is None or self._pass.worlds != worlds:
            quantiles = self._fractions.shape[2]
            self._pass = IqnPass(self.network, len(self.plans), worlds, quantiles)
        values = self._pass.values(self._weights, self._embedded, moment.seen)
        best = _best(values, moment.legal)
        done = explore(best, self.network.actions, moment)
        expected = values[np.arange(len(values))[:, None], np.arange(worlds), done.actions]
        return Choice(done.actions, done.probabilities, expected, done.entropies)


def _best(values: Array, legal: Sequence[Array | None]) -> Array:
    """Return the legal action of the highest value, (agents, worlds)."""
    if any(mask is not None for mask in legal):
        values = values.copy()
        for of_agent, mask in zip(values, legal, strict=True):
            if mask is not None:
                of_agent[~mask] = losses.FAR_BELOW
    return values.argmax(axis=2)


class IqnRule(ValueRule):
    """Learns quantiles of the return from drawn batches of steps."""

    def __init__(self, plans: Sequence[AgentPlan], seed: int) -> None:
        settings = plans[0].settings
        self.network = IqnNetwork(plans[0])
        self._quantiles = settings.network.quantiles
        fractions = 2 * settings.batch_size * self._quantiles
        super().__init__(plans, seed, self.network.parameters, fractions)
        self._noise = Stream(seed, Purpose.LEARNER_NOISE)
        self._noises: dict[int, list[dict[str, Noise]]] = {}
        self._fixed = midpoints(len(plans), settings.iqn.acting_quantiles)
        self._now, self._next = (
            Inputs(self.network.features, len(plans), settings.batch_size) for _ in range(2)
        )

    @staticmethod
    def parameters(plan: AgentPlan) -> Parameters:
        """Return where an agent's parameters lie."""
        return IqnNetwork(plan).parameters

    def losses(
        self,
        batches: Sequence[Batch | None],
        columns: Columns,
        importance: Tensor,
        draws: Array,
        place: Place,
    ) -> Losses:
        """Compare quantiles of chosen actions with those that followed."""
        fractions, others = self._fractions(draws)
        weights, target = self._shaken(place)
        with torch.no_grad():
            follows = self._next.fill(
                [batch.next_seen if batch else None for batch in batches]
            )
            values = self._values_after(
                weights, target, follows, others, columns.next_legal
            )
            targets = losses.bootstrap(columns.returns, columns.discounts, values)
        inputs = self._now.fill([batch.seen if batch else None for batch in batches])
        hidden = self.network.read(weights, inputs)
        embedded = self.network.embed(weights, fractions)
        found = self.network.chosen(weights, hidden, embedded, columns.actions)
        threshold = self.plans[0].settings.iqn.threshold
        loss, errors = losses.quantile_huber(found, targets, fractions, threshold)
        expected = found.detach().mean(dim=2)
        return Losses((loss * importance).mean(dim=1), errors, expected)

    def _fractions(self, draws: Array) -> tuple[Tensor, Tensor]:
        """Return two sets of random fractions, (agents, batch, quantiles) each."""
        shape = (len(draws), self.batch_size, self._quantiles)
        first, second = np.split(draws.astype(np.float32), 2, axis=1)
        return (
            torch.from_numpy(np.ascontiguousarray(first).reshape(shape)),
            torch.from_numpy(np.ascontiguousarray(second).reshape(shape)),
        )

    def draw_ahead(self, passes: range, places: Places) -> None:
        """Draw noise: of each pass for the weights, and for the target."""
        layers = self.network.noisy_layers
        if not layers:
            return
        drawn = [noise_for(layers, self._noise, places, i * len(layers)) for i in (0, 1)]
        agents = len(self.plans)
        self._noises = {
            one: [
                {
                    name: noise.part(k * agents, (k + 1) * agents)
                    for name, noise in of.items()
                }
                for of in drawn
            ]
            for k, one in enumerate(passes)
        }

    def _shaken(self, place: Place) -> tuple[Weights, Weights]:
        """Return weights and target, each with noise of its own if they are noisy."""
        if not self.network.noisy_layers:
            return self.group.weights, self.group.target
        noise, other = self._noises[place[2]]
        return shaken(self.group.weights, noise), shaken(self.group.target, other)

    def _values_after(
        self,
        weights: Weights,
        target: Weights,
        inputs: Tensor,
        fractions: Tensor,
        legal: Tensor | None,
    ) -> Tensor:
        """Return the target's quantiles of the best next action, (agents, batch, …)."""
        hidden = self.network.read(target, inputs)
        every = self.network.values(target, hidden, self.network.embed(target, fractions))
        if self.plans[0].settings.iqn.double:
            looks = self.network.read(weights, inputs)
            fixed = self.network.embed(weights, self._fixed)
            means = self.network.means(weights, looks, fixed)
        else:
            means = every.mean(dim=2)
        return _of_action(every, losses.masked(means, legal).argmax(dim=2))


def _of_action(values: Tensor, actions: Tensor) -> Tensor:
    """Return quantiles of chosen actions: (agents, batch, quantiles)."""
    return losses.pick(values, actions.unsqueeze(2).expand(values.shape[:3]))


IQN = Algorithm("iqn", IqnPolicy, IqnRule)
