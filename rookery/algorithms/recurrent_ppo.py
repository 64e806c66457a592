"""Recurrent PPO: a policy that also depends on what an agent carries from turn to turn.

The steps of a round are cut into sequences, each of one world, and shared out by chance
as a whole. A sequence starts with the hidden state the agent really had, and is gone
through step by step. Values for advantages are those of the hidden states as stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm, PolicyInput, PolicyOutput
from rookery.algorithms.common.rollout import Experience, Minibatch
from rookery.algorithms.nets.gru import Gru
from rookery.algorithms.nets.layers import Linear, Parameters
from rookery.algorithms.ppo import PpoLearner
from rookery.algorithms.ppo_acting import PpoNetwork, PpoPolicy
from rookery.config.agent import AgentSettings
from rookery.replay.buffer import ReplayReader
from rookery.replay.sequences import Chain
from rookery.rng import order
from rookery.specs import Array


class RecurrentPpoNetwork(PpoNetwork):
    """Reads an observation; carries something on; gives logits and a value."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.gru = Gru(agent.settings.network.width, agent.settings.recurrent.width)
        heads = [
            Linear("choose", self.gru.width, self.actions),
            Linear("value", self.gru.width, 1),
        ]
        self.parameters = Parameters([*self.encoder.layers, *self.gru.layers, *heads])

    @property
    def numbers(self) -> int:
        """How many numbers a pass over one row takes, with its gradients."""
        return super().numbers + self.gru.numbers

    def step(
        self, weights: Mapping[str, Tensor], inputs: Tensor, hidden: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, values, and what is carried on."""
        carried = self.gru.step(weights, self.encoder(weights, inputs), hidden)
        return *self.heads(weights, carried), carried

    def unroll(
        self, weights: Mapping[str, Tensor], inputs: Tensor, hidden: Tensor, keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return logits and values of sequences, (agents, sequences × rows, …)."""
        seen = self.encoder(weights, inputs)
        seen = seen.view(*keep.shape, seen.shape[2])
        carried = self.gru.unroll(weights, seen, hidden, keep)
        return self.heads(weights, carried.flatten(1, 2))


class RecurrentPpoPolicy(PpoPolicy):
    """Draws actions from probabilities, and carries something on."""

    network_type = RecurrentPpoNetwork
    network: RecurrentPpoNetwork

    def act(self, moment: PolicyInput) -> PolicyOutput:
        """Draw by the cumulative probabilities; greedy where exploration is 0."""
        self._hidden = torch.from_numpy(np.stack(moment.hidden))
        return replace(super().act(moment), hidden=self._hidden.numpy())

    def outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values of what is seen; what is carried changes."""
        *found, self._hidden = self.network.step(self.weights, inputs, self._hidden)
        return found[0], found[1]


@dataclass
class SequenceMinibatch(Minibatch):
    """Some sequences of all agents; places are (sequences × rows)."""

    hidden: Tensor
    """(agents, sequences, numbers)."""
    keep: Tensor
    """(agents, sequences, rows): 0 where an episode starts."""


class RecurrentPpoLearner(PpoLearner):
    """Goes over the sequences of the newest round a few times."""

    network_type = RecurrentPpoNetwork
    network: RecurrentPpoNetwork

    @classmethod
    def hidden(cls, settings: AgentSettings) -> int:
        """Return how many numbers an agent carries from turn to turn."""
        return settings.recurrent.width

    def values(
        self,
        experience: Experience,
        readers: Sequence[ReplayReader],
        steps: Sequence[Array],
    ) -> tuple[Tensor, Tensor]:
        """Return values where steps opened and closed, by the hidden states of then."""
        shape = (*experience.actions.shape, self.hidden(self.agents[0].settings))
        before, after = np.zeros((2, *shape), np.float32)
        for i, (reader, found) in enumerate(zip(readers, steps, strict=True)):
            turns, worlds = reader.opening(found)
            closes = reader.closes(found)
            before[i, : len(found)] = reader.at("hidden", turns, worlds)
            after[i, : len(found)] = reader.at("hidden", closes, worlds)
        pairs = [(experience.inputs, before), (experience.next_inputs, after)]
        both = [
            self.network.step(self.group.weights, *map(torch.from_numpy, pair))[1]
            for pair in pairs
        ]
        return both[0], both[1]

    def minibatches(
        self,
        experience: Experience,
        readers: Sequence[ReplayReader],
        steps: Sequence[Array],
        number: int,
    ) -> Iterator[Minibatch]:
        """Share out the sequences of a round by chance, a few times over."""
        length, settings = (
            self.agents[0].settings.recurrent.sequence,
            self.agents[0].settings,
        )
        turns = experience.actions.shape[1] // readers[0].worlds
        chains = [
            Chain.cut(reader, found, turns, length)
            for reader, found in zip(readers, steps, strict=True)
        ]
        chain = Chain.side_by_side(chains)
        sequences = chain.indices.shape[1]
        size = -(-sequences // settings.ppo.minibatches)
        for one in range(settings.ppo.passes):
            drawn = self.stream.bits((self.agent_numbers, number, one), 0, sequences)
            shuffled = order(drawn)
            spare = size * settings.ppo.minibatches - sequences
            shuffled = np.pad(shuffled, ((0, 0), (0, spare)), constant_values=-1)
            for part in np.split(shuffled, settings.ppo.minibatches, axis=1):
                yield _minibatch(experience, chain, part)

    def outputs(self, part: Minibatch) -> tuple[Tensor, Tensor]:
        """Return logits and values of a minibatch."""
        assert isinstance(part, SequenceMinibatch)
        return self.network.unroll(self.group.weights, part.inputs, part.hidden, part.keep)


def _minibatch(experience: Experience, chain: Chain, chosen: Array) -> SequenceMinibatch:
    """Return some sequences, (agents, n) by number; those below 0 weigh nothing."""
    index = np.arange(len(chosen))[:, None]
    places = chain.indices[index, chosen]
    spare = (places < 0) | (chosen < 0)[:, :, None]
    part = experience.part(
        np.where(spare, 0, places).reshape(len(chosen), -1), spare.reshape(len(chosen), -1)
    )
    keep = ~chain.starts[index, chosen]
    return SequenceMinibatch(
        **vars(part),
        hidden=torch.from_numpy(chain.hidden[index, chosen]),
        keep=torch.from_numpy(keep.astype(np.float32)),
    )


RECURRENT_PPO = Algorithm("recurrent_ppo", RecurrentPpoPolicy, RecurrentPpoLearner)
