"""PPO (Schulman et al., 2017), for a group of agents as one computation.

It learns from the same rows in the same rounds as the other algorithms: the transitions
that close in the newest round, including those that opened before it, with the action
probabilities stored when they were taken. Advantages are GAE, computed once per round with
the weights it starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import (
    LEFT_OUT,
    Agent,
    Algorithm,
    Metrics,
    Policy,
    PolicyInput,
    PolicyOutput,
    observation_bytes,
)
from rookery.algorithms.common import losses
from rookery.algorithms.common.exploration import entropies_of, sample, stack_legal
from rookery.algorithms.common.group import Inputs
from rookery.algorithms.common.rollout import Minibatch, Rollout
from rookery.algorithms.common.stacked import PassResult, RoundLog, StackedLearner
from rookery.algorithms.custom.encoder import encoder_of
from rookery.algorithms.kernels.actor_critic import ActorCriticPass
from rookery.algorithms.nets.layers import Linear, Parameters, Weights, linear, padded
from rookery.algorithms.torch_setup import flushed_denormals
from rookery.config.agent import ActorCriticParts, AgentSettings
from rookery.replay.buffer import ReplayReader
from rookery.rng import order
from rookery.specs import Array

MIN_WINDOW_TURNS = 64
"""How long a transition can be at least, however short a round is."""
SLOT_BYTES = 256
"""Memory of a slot of a rollout besides its observations, including its construction."""


class PpoNetwork:
    """Encoder, action logits and a value."""

    def __init__(self, agent: Agent) -> None:
        width = agent.settings.network.width
        self.encoder = encoder_of(agent, torch.tanh_)
        self.features, self.actions = self.encoder.features, agent.spec.num_actions
        heads = [Linear("choose", width, self.actions), Linear("value", width, 1)]
        self.parameters = self.encoder.parameters(heads)

    @property
    def floats_per_row(self) -> int:
        """How many numbers a row takes in a forward and backward pass."""
        return self.encoder.floats_per_row + 5 * padded(self.actions) + padded(1)

    def __call__(self, weights: Weights, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (agents, rows, actions) and values (agents, rows)."""
        return self.heads(weights, self.encoder(weights, obs))

    def heads(self, weights: Weights, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values from the last hidden layer."""
        logits = linear(weights, "choose", hidden)[..., : self.actions]
        return logits, linear(weights, "value", hidden)[..., 0]


class PpoPolicy(Policy):
    """Samples actions from the network's probabilities."""

    network_type: ClassVar[type[PpoNetwork]] = PpoNetwork

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        super().__init__(agents, seed)
        self.network = self.network_type(agents[0])
        self._inputs: Inputs | None = None

    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the weights to act with."""
        self.weights = self.network.parameters.views(torch.from_numpy(np.stack(weights)))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values for (agents, worlds, features)."""
        return self.network(self.weights, obs)

    @torch.no_grad()
    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Sample actions; take the most likely one where exploration is 0."""
        worlds = inputs.draws.shape[1]
        if self._inputs is None or self._inputs.rows != worlds:
            self._inputs = Inputs(self.network.features, len(self.agents), worlds)
        logits, values = self.forward(self._inputs.fill(inputs.observations))
        legal = None
        if any(mask is not None for mask in inputs.legal):
            legal = torch.from_numpy(stack_legal(inputs.legal, logits.shape))
        probabilities = torch.log_softmax(losses.masked(logits, legal), dim=2).exp().numpy()
        sampled = sample(probabilities, inputs.draws[..., 0])
        greedy = inputs.exploration[:, None] == 0
        actions = np.where(greedy, probabilities.argmax(axis=2), sampled)
        chosen = np.take_along_axis(probabilities, actions[..., None], axis=2)[..., 0]
        return PolicyOutput(
            actions,
            chosen,
            values.numpy(),
            entropies_of(probabilities),
            action_probabilities=probabilities,
        )


class PpoLearner(StackedLearner):
    """Makes a few passes over the transitions of the newest round.

    Subclasses can override `network_type`, `compute_advantages`, `policy_loss` and how a
    round is split (`minibatches`).
    """

    on_policy = True
    takes_module = True
    network_type: ClassVar[type[PpoNetwork]] = PpoNetwork
    has_gradients_by_hand: ClassVar[bool] = True
    """Whether this very class has; subclasses do not inherit it, and use autograd."""
    advantages_each_pass: ClassVar[bool] = False
    """Whether advantages are computed again for every pass, with the newest weights."""

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.network = self.network_type(agents[0])
        super().__init__(agents, seed, self.network.parameters)
        self._pass: ActorCriticPass | None = None

    @classmethod
    def parameters(cls, agent: Agent) -> Parameters:
        """Return the layout of the network's parameters."""
        return cls.network_type(agent).parameters

    @classmethod
    def exploration(cls, settings: AgentSettings, steps: int) -> float:
        """Return 1: actions are always sampled."""
        return 1.0

    @classmethod
    def n_step(cls, settings: AgentSettings) -> int:
        """Return 1: advantages look further ahead."""
        return 1

    @classmethod
    def updates(cls, settings: AgentSettings) -> int:
        """Return how many updates an agent makes per round."""
        parts = cls.parts(settings)
        return parts.passes * parts.minibatches

    @classmethod
    def window_rows(cls, settings: AgentSettings, worlds: int, turns: int) -> int:
        """Return how many rows are kept: two rounds or more, for long transitions."""
        return max(2 * turns, MIN_WINDOW_TURNS) * worlds

    @classmethod
    def working_bytes(cls, agent: Agent, worlds: int, turns: int) -> int:
        """Estimate the memory of an update: a rollout, and a pass over it."""
        network, slots = cls.network_type(agent), turns * worlds
        minibatch = -(-slots // cls.parts(agent.settings).minibatches)
        inputs = 4 * (2 * slots + minibatch) * network.features.padded
        rollout = slots * (2 * observation_bytes(agent) + SLOT_BYTES)
        # Advantages take a pass over all slots, half as large without gradients.
        passes = 4 * max(slots // 2, minibatch) * network.floats_per_row
        return super().working_bytes(agent, worlds, turns) + inputs + rollout + passes

    @staticmethod
    def parts(settings: AgentSettings) -> ActorCriticParts:
        """Return the algorithm's settings, `settings.ppo` or `settings.vtrace`."""
        return settings.ppo

    @flushed_denormals()
    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make passes × minibatches updates from transitions closed since `first`."""
        for spread, reader in zip(self.group.spreads, readers, strict=True):
            spread.update(reader, first)
        transitions = [np.sort(reader.closed_since(first)) for reader in readers]
        log = RoundLog(len(readers))
        ready = np.array([len(each) > 0 for each in transitions]) & self.group.running
        if ready.any():
            slots = (readers[0].boundary - first) * readers[0].worlds
            features = self.network.features
            rollout = Rollout(features, self.agents, readers, transitions, slots)
            for i, spread in enumerate(self.group.spreads):
                rollout.rewards[i] *= spread.factor
            self.compute_advantages(rollout)
            for minibatch in self.minibatches(rollout, number):
                self.beat()
                # With no transition there is no gradient, but moments would move weights.
                used = minibatch.weights.any(dim=1).numpy()
                active = ready & self.group.running & used
                result = self.backpropagate(minibatch)
                norms = self.group.apply(result.loss.detach().numpy(), active)
                log.add(result, norms, active & self.group.running)
        self.group.check_padding()
        per_agent = log.metrics(readers, self.group)
        for metrics, reader in zip(per_agent, readers, strict=True):
            metrics[LEFT_OUT] = reader.left_behind(reader.boundary - first)
        return per_agent

    @torch.no_grad()
    def compute_advantages(self, rollout: Rollout) -> None:
        """Fill in advantages and returns, with the current weights."""
        values, next_values = self.values(rollout)
        for i, agent in enumerate(self.agents):
            rollout.estimate_advantages(
                i, values[i], next_values[i], agent.settings.ppo.gae
            )

    def values(self, rollout: Rollout) -> tuple[Array, Array]:
        """Return values where transitions open and where they close, (agents, slots)."""
        by_hand, weights = self.pass_by_hand(self.rows_of(rollout)), self.group.weights
        if by_hand is not None:
            return by_hand.values(rollout.inputs), by_hand.values(rollout.next_inputs)
        _, values = self.network(weights, torch.from_numpy(rollout.inputs))
        _, next_values = self.network(weights, torch.from_numpy(rollout.next_inputs))
        return values.numpy(), next_values.numpy()

    def pass_by_hand(self, rows: int) -> ActorCriticPass | None:
        """Return the pass over so many rows with gradients by hand; None: use autograd."""
        settings = self.agents[0].settings
        is_own = vars(type(self)).get("has_gradients_by_hand", False)
        if not is_own or settings.network.module is not None:
            return None
        if self._pass is None or self._pass.rows != rows:
            parts = self.parts(settings)
            self._pass = ActorCriticPass(self.network, self.group, parts, rows)
        return self._pass

    def rows_of(self, rollout: Rollout) -> int:
        """Return how many slots of a rollout are in a minibatch."""
        slots = rollout.actions.shape[1]
        return -(-slots // self.parts(self.agents[0].settings).minibatches)

    def minibatches(self, rollout: Rollout, number: int) -> Iterator[Minibatch]:
        """Split the slots of a rollout at random, once per pass."""
        settings = self.parts(self.agents[0].settings)
        slots, size = rollout.actions.shape[1], self.rows_of(rollout)
        for k in range(settings.passes):
            if k and self.advantages_each_pass:
                self.compute_advantages(rollout)
            draws = self.stream.bits((self.agent_numbers, number, k), 0, slots)
            shuffled = np.pad(
                order(draws), ((0, 0), (0, size * settings.minibatches - slots))
            )
            for start in range(0, size * settings.minibatches, size):
                unused = np.arange(start, start + size) >= slots
                yield rollout.minibatch(shuffled[:, start : start + size], unused)

    def backpropagate(self, minibatch: Minibatch) -> PassResult:
        """Write the gradients of a pass: by hand, or by autograd for other classes."""
        by_hand = self.pass_by_hand(minibatch.actions.shape[1])
        if by_hand is not None:
            return by_hand.backpropagate(minibatch)
        result = self.compute_losses(minibatch)
        self.group.differentiate(result.loss)
        return result

    def outputs(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """Return logits and values of a minibatch."""
        return self.network(self.group.weights, minibatch.inputs)

    def policy_loss(self, log_probs: Tensor, minibatch: Minibatch) -> Tensor:
        """Return the policy loss of each transition, from log π(a | s) now."""
        ratio = (log_probs - minibatch.old_log_probs).exp()
        clip = self.agents[0].settings.ppo.clip
        return losses.clipped_ratio(ratio, minibatch.advantages, clip)

    def compute_losses(self, minibatch: Minibatch) -> PassResult:
        """Return policy loss, entropy bonus and value loss, averaged over transitions."""
        settings = self.parts(self.agents[0].settings)
        logits, values = self.outputs(minibatch)
        log_probs = torch.log_softmax(losses.masked(logits, minibatch.legal), dim=2)
        weights = minibatch.weights
        share = weights / weights.sum(dim=1, keepdim=True).clamp(min=1.0)
        policy_loss = self.policy_loss(losses.pick(log_probs, minibatch.actions), minibatch)
        legal = log_probs > losses.FAR_BELOW / 2
        entropy_loss = torch.where(legal, log_probs.exp() * log_probs, 0.0).sum(dim=2)
        errors = minibatch.returns - values
        value_loss = errors.square()
        loss = policy_loss + settings.entropy * entropy_loss + settings.value * value_loss
        used = share * share.shape[1]  # so that unused slots do not count in means
        return PassResult(
            (loss * share).sum(dim=1),
            errors.detach().abs() * used,
            values.detach() * used,
        )


PPO = Algorithm("ppo", PpoPolicy, PpoLearner)
