"""Recurrent DQN: values that also depend on what an agent carries from turn to turn.

A batch is sequences of rows. Each starts with the hidden state the agent really had, goes
through the network and the target row by row, and is learned from where that hidden state
is fresh. Steps, returns, target, exploration and priorities are those of DQN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm, Metrics, PolicyInput, PolicyOutput
from rookery.algorithms.common import losses
from rookery.algorithms.common.batches import Columns, Given, Place
from rookery.algorithms.common.group import Inputs
from rookery.algorithms.dqn import DqnNetwork, DqnPolicy
from rookery.algorithms.nets.gru import Gru
from rookery.algorithms.nets.layers import Linear, linear
from rookery.algorithms.q_learning import QLearner, Weights
from rookery.algorithms.value_based import Losses
from rookery.config.agent import AgentSettings
from rookery.replay.buffer import Batch, ReplayReader
from rookery.replay.sequences import Sequences, Timeline
from rookery.specs import Array

LARGEST = 0.9
"""How much the largest error of a sequence counts in its priority; the mean the rest."""


class RecurrentDqnNetwork(DqnNetwork):
    """Reads an observation; carries something on; one more layer, and values."""

    def __init__(self, agent: Agent) -> None:
        self.gru = Gru(agent.settings.network.width, agent.settings.recurrent.width)
        super().__init__(agent)

    def layers_between(self, noisy: bool) -> list[Linear]:
        """Return what carries on, and the hidden layer after it."""
        return [*self.gru.layers, Linear("hidden", self.gru.width, self.width, noisy)]

    def numbers(self, settings: AgentSettings) -> int:
        """Return how many numbers a pass over one row takes, with its gradients."""
        return super().numbers(settings) + self.gru.numbers

    def step(
        self, weights: Weights, inputs: Tensor, hidden: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return values (agents, rows, actions), and what is carried on."""
        carried = self.gru.step(weights, self.read(weights, inputs), hidden)
        return self._values(weights, carried), carried

    def unroll(
        self, weights: Weights, inputs: Tensor, hidden: Tensor, keep: Tensor
    ) -> Tensor:
        """Return values of all rows of sequences, (agents, sequences, rows, actions).

        `inputs` are (agents, sequences × rows, features); `keep` is 0 in rows that start
        an episode.
        """
        seen = self.read(weights, inputs)
        seen = seen.view(*keep.shape, seen.shape[2])
        carried = self.gru.unroll(weights, seen, hidden, keep)
        values = self._values(weights, carried.flatten(1, 2))
        return values.view(*keep.shape, self.actions)

    def _values(self, weights: Weights, carried: Tensor) -> Tensor:
        hidden = torch.relu_(linear(weights, "hidden", carried))
        return self.of_actions(linear(weights, "values", hidden))


class RecurrentDqnPolicy(DqnPolicy):
    """Acts by the value of each action, and carries something on."""

    network: RecurrentDqnNetwork
    network_type = RecurrentDqnNetwork

    def act(self, moment: PolicyInput) -> PolicyOutput:
        """Choose the best action, or by chance a random one."""
        self._hidden = torch.from_numpy(np.stack(moment.hidden))
        return replace(super().act(moment), hidden=self._hidden.numpy())

    def read(self, inputs: Tensor) -> Tensor:
        """Return the values of actions; what is carried changes."""
        values, self._hidden = self.network.step(self._weights, inputs, self._hidden)
        return values


@dataclass
class SequenceColumns(Columns):
    """The sequences of all agents, side by side: (agents, sequences, rows, …)."""

    hidden: Tensor
    """(agents, sequences, numbers)."""
    keep: Tensor
    closes: Tensor
    trained: Tensor


class RecurrentDqnLearner(QLearner):
    """Learns values from drawn sequences of rows."""

    network_type = RecurrentDqnNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = RecurrentDqnNetwork(agents[0])
        super().__init__(agents, seed, self.network)
        self._length = agents[0].settings.recurrent.sequence
        self._burn_in = agents[0].settings.recurrent.burn_in
        self._at_once = max(1, self._at_once // self._length)
        rows = self.batch_size * self._length
        self._rows = Inputs(self.network.features, len(agents), rows)
        self._timelines: list[Timeline] = []

    @classmethod
    def hidden(cls, settings: AgentSettings) -> int:
        """Return how many numbers an agent carries from turn to turn."""
        return settings.recurrent.width

    @classmethod
    def rows_at_once(cls, settings: AgentSettings) -> int:
        """Return how many rows an update looks at, of one agent."""
        return settings.batch_size * settings.recurrent.sequence

    @classmethod
    def refusals(cls, settings: AgentSettings) -> Iterator[str]:
        """Say if no step could ever be learned from, and what only DQN has."""
        if settings.dqn.retrace is not None:
            yield (
                f"dqn.retrace is {settings.dqn.retrace:g}, but recurrent_dqn learns from "
                "sequences, and has no Retrace: leave it out, or use dqn."
            )
        chosen = settings.recurrent
        if chosen.burn_in + settings.n_step >= chosen.sequence:
            yield (
                f"recurrent.sequence is {chosen.sequence}, but recurrent.burn_in "
                f"({chosen.burn_in}) and n_step ({settings.n_step}) leave no row of it to "
                "learn from: raise recurrent.sequence or lower the others."
            )

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round; rows from turn `first` on are new."""
        self._timelines = [Timeline(reader) for reader in readers]
        return super().learn(readers, number, first)

    def read(self, i: int, reader: ReplayReader, steps: Array) -> Batch:
        """Return the sequences that begin with drawn steps."""
        return self._timelines[i].read(steps, self._length, self._burn_in)

    def lay_out(self, batches: Sequence[Batch | None], passes: int) -> list[Given]:
        """Return what passes are given, from the sequences of all of them."""
        size, found = self.batch_size, []
        for k in range(passes):
            some = [batch and batch.part(k * size, (k + 1) * size) for batch in batches]
            found.append(Given(some, self._columns(some)))
        return found

    def _columns(self, batches: Sequence[Batch | None]) -> SequenceColumns:
        """Lay sequences side by side; where there are none, nothing is learned."""
        agent, shape = self.agents[0], (len(batches), self.batch_size, self._length)
        numbers = np.zeros((4, *shape), np.float32)
        returns, discounts, keep, trained = numbers
        actions, closes = np.zeros((2, *shape), np.int64)
        hidden = np.zeros((*shape[:2], self.hidden(agent.settings)), np.float32)
        legal = (
            np.ones((*shape, agent.spec.num_actions), bool) if agent.spec.masked else None
        )
        for i, batch in enumerate(batches):
            if batch is None:
                continue
            assert isinstance(batch, Sequences)
            actions[i], closes[i], hidden[i] = batch.actions, batch.closes, batch.hidden
            returns[i] = batch.returns * self.group.spreads[i].factor
            discounts[i], keep[i] = batch.discounts, ~batch.starts
            trained[i] = batch.trained
            if legal is not None:
                legal[i] = batch.legal
        return SequenceColumns(
            torch.from_numpy(actions),
            torch.from_numpy(returns),
            torch.from_numpy(discounts),
            None if legal is None else torch.from_numpy(legal),
            None,
            torch.from_numpy(hidden),
            torch.from_numpy(keep),
            torch.from_numpy(closes),
            torch.from_numpy(trained),
        )

    def losses(
        self,
        batches: Sequence[Batch | None],
        columns: Columns,
        importance: Tensor,
        draws: Array,
        place: Place,
    ) -> Losses:
        """Compare values of chosen actions with what followed, all along sequences."""
        assert isinstance(columns, SequenceColumns)
        weights, target = self.shaken(place)
        inputs = self._rows.fill(
            [batch.rows() if isinstance(batch, Sequences) else None for batch in batches]
        )
        given = (inputs, columns.hidden, columns.keep)
        every = self.network.unroll(weights, *given)
        with torch.no_grad():
            after = self.network.unroll(target, *given)
            double = self.agents[0].settings.dqn.double
            likes = losses.masked(every if double else after, columns.legal)
            best = losses.pick(after, likes.argmax(dim=3)).gather(2, columns.closes)
            targets = columns.returns + columns.discounts * best
            if self.gap:
                short = losses.shortfalls(after, columns.actions, columns.legal)
                targets = targets - self.gap * short
        found = losses.pick(every, columns.actions)
        threshold = self.agents[0].settings.dqn.threshold
        loss, errors = losses.huber(found, targets, threshold)
        return _over_sequences(loss, errors, found.detach(), columns.trained, importance)


def _over_sequences(
    loss: Tensor, errors: Tensor, values: Tensor, trained: Tensor, importance: Tensor
) -> Losses:
    """Take means over what is learned from; a sequence's error is mostly its largest."""
    counts = trained.sum(dim=2)
    total = counts.sum(dim=1).clamp(min=1.0)
    whole = ((loss * trained).sum(dim=2) * importance).sum(dim=1) / total
    each, most = counts.clamp(min=1.0), (errors * trained).amax(dim=2)
    mean = (errors * trained).sum(dim=2) / each
    sizes = LARGEST * most + (1.0 - LARGEST) * mean
    return Losses(whole, sizes, (values * trained).sum(dim=2) / each, counts > 0)


RECURRENT_DQN = Algorithm("recurrent_dqn", RecurrentDqnPolicy, RecurrentDqnLearner)
