"""PPO: a clipped policy gradient, for a group of agents as one computation.

It learns from the same rows in the same rounds as every other algorithm: the steps that
close in the newest round, also if they opened before it, with the probabilities stored
when they were taken. Values for advantages are computed once, with the state that it
starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import (
    LEFT_OUT,
    Agent,
    Algorithm,
    Learner,
    Metrics,
    Shapes,
    State,
    seen_bytes,
)
from rookery.algorithms.common import losses
from rookery.algorithms.common.group import STOPPED, Group
from rookery.algorithms.common.rollout import Experience, Minibatch
from rookery.algorithms.ppo_acting import PpoNetwork, PpoPolicy
from rookery.algorithms.value_based import Losses, RoundLog
from rookery.config.agent import ActorCriticParts, AgentSettings
from rookery.replay.buffer import ReplayReader
from rookery.rng import Purpose, Stream, order
from rookery.specs import Array

LEAST_TURNS = 64
"""How far back steps may open, however short a round is."""
FOUND_BYTES = 256
"""What is known of a step, and what finding the one after it takes."""


class PpoLearner(Learner):
    """Goes over the steps of the newest round a few times."""

    on_policy = True
    network_type: ClassVar[type[PpoNetwork]] = PpoNetwork
    judges_each_pass: ClassVar[bool] = False
    """Whether steps are judged anew, by what was learned meanwhile, for every pass."""

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        super().__init__(agents, seed)
        self.network = self.network_type(agents[0])
        self.group = Group(agents, self.network.parameters)
        self.stream = Stream(seed, Purpose.LEARNER)
        self.agent_numbers = np.array([agent.number for agent in agents])

    @classmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return weights, moments and counters."""
        return Group.shapes(cls.network_type(agent).parameters.size)

    @classmethod
    def exploration(cls, settings: AgentSettings, steps: int) -> float:
        """Return 1: it always draws by its own probabilities."""
        return 1.0

    @classmethod
    def n_step(cls, settings: AgentSettings) -> int:
        """Return 1: advantages look further ahead by themselves."""
        return 1

    @classmethod
    def updates(cls, settings: AgentSettings) -> int:
        """Return how many updates it makes in a round."""
        parts = cls.parts(settings)
        return parts.passes * parts.minibatches

    @classmethod
    def window_rows(cls, settings: AgentSettings, worlds: int, turns: int) -> int:
        """Return how many rows are kept: two rounds or more, since steps may be long."""
        return max(2 * turns, LEAST_TURNS) * worlds

    @classmethod
    def working_bytes(cls, agent: Agent, worlds: int, turns: int) -> int:
        """Return about how much memory learning takes: a round, and a pass over it."""
        network, places = cls.network_type(agent), turns * worlds
        features, part = (
            network.features.padded,
            -(-places // cls.parts(agent.settings).minibatches),
        )
        laid = 4 * (2 * places + part) * features + places * (
            2 * seen_bytes(agent) + FOUND_BYTES
        )
        # Once over all of it, which takes half as much without gradients.
        passed = 4 * max(places // 2, part) * network.numbers
        return super().working_bytes(agent, worlds, turns) + laid + passed

    @staticmethod
    def parts(settings: AgentSettings) -> ActorCriticParts:
        """Return how a round is gone over."""
        return settings.ppo

    @classmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the weights a policy takes."""
        return cls.network_type(agent).parameters.flat(named)

    @classmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return weights by name, without padding."""
        return cls.network_type(agent).parameters.real(flat)

    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an agent's first state."""
        stream = Stream(self.seed, Purpose.INITIAL)
        return Group.initial(self.network.parameters.initial(stream, agent.number))

    def load(self, states: Sequence[State]) -> None:
        """Take the group's states."""
        self.group.load(states)

    def named(self, state: State) -> dict[str, Array]:
        """Return a state's arrays without padding."""
        return self.group.named(state)

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state from what `named` gave."""
        return self.group.unnamed(arrays)

    def save(self) -> list[dict[str, Array]]:
        """Return the group's states."""
        return self.group.save()

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make passes × minibatches updates from the steps that closed since `first`."""
        for spread, reader in zip(self.group.spreads, readers, strict=True):
            spread.update(reader, first)
        steps = [np.sort(reader.closed_since(first)) for reader in readers]
        log = RoundLog(len(readers))
        ready = np.array([len(found) > 0 for found in steps]) & self.group.going
        if ready.any():
            places = (readers[0].boundary - first) * readers[0].worlds
            experience = self._experience(readers, steps, places)
            for minibatch in self.minibatches(experience, readers, steps, number):
                self.beat()
                self._update(minibatch, ready, log)
        self.group.check_padding()
        found = log.metrics(readers, self.group.counters[:, STOPPED] > 0)
        for one, reader in zip(found, readers, strict=True):
            one[LEFT_OUT] = reader.left_behind(reader.boundary - first)
        return found

    def _experience(
        self, readers: Sequence[ReplayReader], steps: Sequence[Array], places: int
    ) -> Experience:
        """Lay out the steps of a round, judged by the state it starts from."""
        experience = Experience.empty(self.network.features, self.agents, places)
        for i, (reader, found) in enumerate(zip(readers, steps, strict=True)):
            batch = reader.batch(found)
            experience.lay(i, self.network.features, reader, found, batch)
            experience.returns[i] *= self.group.spreads[i].factor
        self.judge(experience, readers, steps)
        return experience

    @torch.no_grad()
    def judge(
        self,
        experience: Experience,
        readers: Sequence[ReplayReader],
        steps: Sequence[Array],
    ) -> None:
        """Give steps their advantages and value targets, by the state there is now."""
        values, after = self.values(experience, readers, steps)
        for i, (reader, found) in enumerate(zip(readers, steps, strict=True)):
            gae = self.agents[i].settings.ppo.gae
            experience.value(i, reader, found, values[i].numpy(), after[i].numpy(), gae)

    def values(
        self,
        experience: Experience,
        readers: Sequence[ReplayReader],
        steps: Sequence[Array],
    ) -> tuple[Tensor, Tensor]:
        """Return values where steps opened and where they closed, (agents, places)."""
        weights = self.group.weights
        _, values = self.network(weights, torch.from_numpy(experience.inputs))
        _, after = self.network(weights, torch.from_numpy(experience.next_inputs))
        return values, after

    def minibatches(
        self,
        experience: Experience,
        readers: Sequence[ReplayReader],
        steps: Sequence[Array],
        number: int,
    ) -> Iterator[Minibatch]:
        """Share out the steps of a round by chance, a few times over."""
        settings = self.parts(self.agents[0].settings)
        places = experience.actions.shape[1]
        size = -(-places // settings.minibatches)
        for one in range(settings.passes):
            if one and self.judges_each_pass:
                self.judge(experience, readers, steps)
            drawn = self.stream.bits((self.agent_numbers, number, one), 0, places)
            shuffled = np.pad(
                order(drawn), ((0, 0), (0, size * settings.minibatches - places))
            )
            for part in range(settings.minibatches):
                chosen = shuffled[:, part * size : (part + 1) * size]
                spare = np.arange(part * size, part * size + size) >= places
                yield experience.part(chosen, spare)

    def _update(self, minibatch: Minibatch, ready: Array, log: RoundLog) -> None:
        # Without a step there is nothing to learn: moments would move weights.
        used = minibatch.weights.any(dim=1).numpy()
        active = ready & self.group.going & used
        found = self._losses(minibatch)
        norms = self.group.apply(self.group.gradients(found.loss), found.loss, active)
        log.add(found, norms, active & self.group.going)

    def outputs(self, part: Minibatch) -> tuple[Tensor, Tensor]:
        """Return logits and values of a minibatch."""
        return self.network(self.group.weights, part.inputs)

    def policy_loss(self, logs: Tensor, part: Minibatch) -> Tensor:
        """Return the loss of each step from the logarithms of what was done, now."""
        ratio = (logs - part.old_logs).exp()
        return losses.clipped_ratio(
            ratio, part.advantages, self.agents[0].settings.ppo.clip
        )

    def _losses(self, part: Minibatch) -> Losses:
        settings = self.parts(self.agents[0].settings)
        logits, values = self.outputs(part)
        logs = torch.log_softmax(losses.masked(logits, part.legal), dim=2)
        share = part.weights / part.weights.sum(dim=1, keepdim=True).clamp(min=1.0)
        policy = self.policy_loss(losses.pick(logs, part.actions), part)
        probabilities = torch.where(logs > losses.FAR_BELOW / 2, logs.exp() * logs, 0.0)
        bonus = settings.entropy * probabilities.sum(dim=2)
        errors = part.targets - values
        each = policy + bonus + settings.value * errors.square()
        used = share * share.shape[1]  # unused places count for nothing in means
        return Losses(
            (each * share).sum(dim=1),
            errors.detach().abs() * used,
            values.detach() * used,
        )


PPO = Algorithm("ppo", PpoPolicy, PpoLearner)
