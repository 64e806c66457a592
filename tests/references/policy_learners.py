"""Whole rounds of learners of a policy, compared update by update with the references."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.ppo import PPO
from rookery.algorithms.recurrent_ppo import RECURRENT_PPO
from rookery.algorithms.vtrace import VTRACE
from rookery.rng import Purpose, Stream
from tests.references.drawing import Sampler, actor_critic_parts, draw_group, merge
from tests.references.experience import TURNS, WORLDS, Experience
from tests.references.networks import Weights, encode, gru_step, policy_and_value
from tests.references.optimizer import check_update, gradient_of
from tests.references.policies import (
    PolicySample,
    estimate_gae,
    estimate_vtrace,
    loss_of,
    ppo_objective,
    vtrace_objective,
)
from tests.references.recording import SEED, RecordedGroup, ReferenceAgent, Round, same
from tests.references.returns import factor_of, transitions

ROUNDS = 3


class PolicyReference:
    """One actor-critic agent, as in the papers."""

    def __init__(self, algorithm: str, agent: Agent, experience: Experience) -> None:
        self.agent, self.experience, self.settings = agent, experience, agent.settings
        self.vtrace, self.recurrent = algorithm == "vtrace", algorithm == "recurrent_ppo"
        self.parts = self.settings.vtrace if self.vtrace else self.settings.ppo

    # The network, for one row.

    def forward(self, w: Weights, turn: int, world: int, hidden: Tensor | None):
        """Return log π of legal actions, V, and the next hidden state."""
        x = encode(w, self.experience.obs(turn, world), self.settings.network, torch.tanh)
        if self.recurrent:
            x = hidden = gru_step(w, x, hidden)
        return *policy_and_value(w, x, self.experience.legal(turn, world)), hidden

    def stored(self, turn: int, world: int) -> Tensor | None:
        return self.experience.hidden(turn, world) if self.recurrent else None

    # A round.

    def take_in(self, first: int) -> None:
        """Take in the transitions that closed in a round, wherever they opened."""
        self.steps = [
            each for each in transitions(self.experience, 1) if each.closes >= first
        ]
        self.factor = factor_of(self.experience)

    @torch.no_grad()
    def evaluate(self, w: Weights) -> list[PolicySample]:
        """Return transitions with advantages, by some weights and stored hidden states."""
        samples = []
        for step in self.steps:
            logs, value, _ = self.forward(w, *step.row, self.stored(*step.row))
            after = (step.closes, step.world)
            next_value = self.forward(w, *after, self.stored(*after))[1].item()
            mu = self.experience.worlds[step.world][step.turn].probability
            ratio = logs[step.action].exp().item() / mu
            reward = self.factor * step.gain
            samples.append(PolicySample(step, reward, mu, value.item(), next_value, ratio))
        if self.vtrace:
            estimate_vtrace(samples, self.parts.rho_bar, self.parts.c_bar)
        else:
            estimate_gae(samples, self.parts.gae)
        return samples

    def sequences(self) -> list[list[int]]:
        """Return the transitions of each sequence, by index.

        Without a hidden state, one each; else as many of one world as fit a sequence.
        """
        if not self.recurrent:
            slots = TURNS * WORLDS
            return [[k] if k < len(self.steps) else [] for k in range(slots)]
        length, sequences = self.settings.recurrent.sequence, []
        for world in range(WORLDS):
            own = [k for k, step in enumerate(self.steps) if step.world == world]
            for start in range(0, TURNS, length):
                sequences.append(own[start : start + length])
        return sequences

    def minibatches(self, number: int) -> list[list[list[int]]]:
        """Return the sequences of every update: all of them once in each pass."""
        sequences, minibatches = self.sequences(), []
        size = -(-len(sequences) // self.parts.minibatches)
        stream = Stream(SEED, Purpose.LEARNER)
        for k in range(self.parts.passes):
            drawn = stream.bits((self.agent.number, number, k), 0, len(sequences))[0]
            order = sorted(range(len(sequences)), key=lambda k: drawn[k])
            for part in range(self.parts.minibatches):
                indices = order[part * size : (part + 1) * size]
                minibatches.append([sequences[k] for k in indices if sequences[k]])
        return minibatches

    def losses(
        self, w: Weights, samples: list[PolicySample], sequence: list[int]
    ) -> list[Tensor]:
        """Return the losses of a sequence's transitions, unrolled row by row."""
        losses, hidden, before = [], None, None
        for k in sequence:
            sample, (turn, world) = samples[k], samples[k].step.row
            if before is None:
                hidden = self.stored(turn, world)
            elif before < turn - self.experience.worlds[world][turn].age and self.recurrent:
                hidden = torch.zeros_like(hidden)  # another episode
            logs, value, hidden = self.forward(w, turn, world, hidden)
            log_pi, before = logs[sample.step.action], turn
            if self.vtrace:
                objective = vtrace_objective(sample, log_pi, self.parts.rho_bar)
            else:
                objective = ppo_objective(sample, log_pi, self.parts.clip)
            losses.append(loss_of(objective, sample, logs, value, self.parts))
        return losses

    def check(self, where: str, agent: ReferenceAgent, samples, sequences) -> None:
        """Compare one update."""
        weights = {
            k: w.clone().requires_grad_() for k, w in agent.before["weights"].items()
        }
        losses = [
            loss for each in sequences for loss in self.losses(weights, samples, each)
        ]
        loss = torch.stack(losses).mean()
        check_update(where, self.settings, agent, loss, gradient_of(loss, weights))


def check_round(played: Round, references: list[PolicyReference]) -> None:
    """Compare all updates that a group made in a round."""
    for i, reference in enumerate(references):
        reference.take_in(played.first)
        minibatches = reference.minibatches(played.number)
        same("updates", played.metrics[i]["updates"], sum(map(bool, minibatches)))
        same("minibatches", len(played.updates), len(minibatches))
        samples = None
        for k, update in enumerate(played.updates):
            where = f"agent {i}, update {k} of round {played.number}"
            agent = update.agents[i]
            is_new_pass = k % reference.parts.minibatches == 0
            same(f"whether {where} is made", agent is not None, bool(minibatches[k]))
            if samples is None or (reference.vtrace and is_new_pass):
                # An agent that takes no part in an update keeps its weights.
                later = (each.agents[i] for each in played.updates[k:])
                state = next(each for each in later if each)
                samples = reference.evaluate(state.before["weights"])
            if agent is not None:
                reference.check(where, agent, samples, minibatches[k])


def compare(algorithm: Algorithm, agents: list[Agent], data_seed: int) -> None:
    """Train a group and compare all its updates with the references."""
    group = RecordedGroup(algorithm, agents, data_seed)
    references = [
        PolicyReference(algorithm.name, agent, experience)
        for agent, experience in zip(agents, group.experiences, strict=True)
    ]
    for _ in range(ROUNDS):
        check_round(group.train(), references)


EVERY_ROW = {"replay": {"capacity": 200}}
"""They learn from all transitions that close in a round, however long they are."""


def compare_ppo(case: int, **settings) -> None:
    sampler = Sampler(3, case)
    parts = {
        **actor_critic_parts(sampler),
        "clip": sampler.of(0.05, 0.2, 0.8),
        "gae": sampler.of(0.0, 0.9, 1.0),
    }
    drawn = merge({"ppo": parts, **EVERY_ROW}, settings)
    compare(PPO, draw_group(sampler, **drawn), case)


def compare_vtrace(case: int, **settings) -> None:
    sampler = Sampler(4, case)
    parts = {
        **actor_critic_parts(sampler),
        "rho_bar": sampler.of(0.5, 1.0, 3.0),
        "c_bar": sampler.of(0.0, 0.5, 1.0, 2.0),
    }
    drawn = merge({"vtrace": parts, **EVERY_ROW}, settings)
    compare(VTRACE, draw_group(sampler, **drawn), case)


def compare_recurrent_ppo(case: int, **settings) -> None:
    sampler = Sampler(5, case)
    parts = {**actor_critic_parts(sampler), "clip": sampler.of(0.05, 0.2, 0.8)}
    recurrent = {"width": 16, "sequence": sampler.whole(2, 7)}
    drawn = merge({"ppo": parts, "recurrent": recurrent, **EVERY_ROW}, settings)
    compare(RECURRENT_PPO, draw_group(sampler, **drawn), case)
