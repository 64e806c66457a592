"""Whole rounds of learners of a policy, compared update by update with the references."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.ppo import PPO
from rookery.algorithms.recurrent_ppo import RECURRENT_PPO
from rookery.algorithms.vtrace import VTRACE
from rookery.rng import Purpose, Stream
from tests.references.drawing import Chance, actor_critic_parts, draw_group, merge
from tests.references.lives import TURNS, WORLDS, Life
from tests.references.networks import Weights, carry, policy_and_value, read
from tests.references.optimizer import check_update, gradient_of
from tests.references.policies import (
    Judged,
    judge_by_gae,
    judge_by_vtrace,
    loss_of,
    ppo_objective,
    vtrace_objective,
)
from tests.references.returns import factor_of, transitions
from tests.references.watching import SEED, ReferenceAgent, Round, Watched, same

ROUNDS = 3


class PolicyReference:
    """One agent that learns a policy, as the papers say."""

    def __init__(self, algorithm: str, agent: Agent, life: Life) -> None:
        self.agent, self.life, self.settings = agent, life, agent.settings
        self.vtrace, self.recurrent = algorithm == "vtrace", algorithm == "recurrent_ppo"
        self.parts = self.settings.vtrace if self.vtrace else self.settings.ppo

    # The network, for one row.

    def look(self, w: Weights, turn: int, world: int, hidden: Tensor | None):
        """Return log π of legal actions, V, and what is carried on."""
        x = read(w, self.life.seen(turn, world), self.settings.network, torch.tanh)
        if self.recurrent:
            x = hidden = carry(w, x, hidden)
        return *policy_and_value(w, x, self.life.legal(turn, world)), hidden

    def stored(self, turn: int, world: int) -> Tensor | None:
        return self.life.hidden(turn, world) if self.recurrent else None

    # A round.

    def take_in(self, first: int) -> None:
        """Take in the steps that closed in a round, wherever they opened."""
        self.steps = [one for one in transitions(self.life, 1) if one.closes >= first]
        self.factor = factor_of(self.life)

    @torch.no_grad()
    def judge(self, w: Weights) -> list[Judged]:
        """Return what steps are worth, by some weights and the hidden states as stored."""
        judged = []
        for step in self.steps:
            logs, value, _ = self.look(w, *step.place, self.stored(*step.place))
            after = (step.closes, step.world)
            value_after = self.look(w, *after, self.stored(*after))[1].item()
            mu = self.life.worlds[step.world][step.turn].probability
            ratio = logs[step.action].exp().item() / mu
            reward = self.factor * step.gain
            judged.append(Judged(step, reward, mu, value.item(), value_after, ratio))
        if self.vtrace:
            judge_by_vtrace(judged, self.parts.rho_bar, self.parts.c_bar)
        else:
            judge_by_gae(judged, self.parts.gae)
        return judged

    def sequences(self) -> list[list[int]]:
        """Return which steps are gone through one after the other, by their numbers.

        Alone, if nothing is carried on; else as many of one world as fit a sequence.
        """
        if not self.recurrent:
            places = TURNS * WORLDS
            return [[k] if k < len(self.steps) else [] for k in range(places)]
        length, found = self.settings.recurrent.sequence, []
        for world in range(WORLDS):
            own = [k for k, step in enumerate(self.steps) if step.world == world]
            for start in range(0, TURNS, length):
                found.append(own[start : start + length])
        return found

    def minibatches(self, number: int) -> list[list[list[int]]]:
        """Return the sequences of every update: all of them once in each pass."""
        sequences, found = self.sequences(), []
        size = -(-len(sequences) // self.parts.minibatches)
        stream = Stream(SEED, Purpose.LEARNER)
        for one in range(self.parts.passes):
            drawn = stream.bits((self.agent.number, number, one), 0, len(sequences))[0]
            order = sorted(range(len(sequences)), key=lambda k: drawn[k])
            for part in range(self.parts.minibatches):
                chosen = order[part * size : (part + 1) * size]
                found.append([sequences[k] for k in chosen if sequences[k]])
        return found

    def losses(self, w: Weights, judged: list[Judged], sequence: list[int]) -> list[Tensor]:
        """Return the losses of the steps of a sequence, going through it row by row."""
        found, hidden, before = [], None, None
        for k in sequence:
            one, (turn, world) = judged[k], judged[k].step.place
            if before is None:
                hidden = self.stored(turn, world)
            elif before < turn - self.life.worlds[world][turn].age and self.recurrent:
                hidden = torch.zeros_like(hidden)  # another episode
            logs, value, hidden = self.look(w, turn, world, hidden)
            log_pi, before = logs[one.step.action], turn
            if self.vtrace:
                objective = vtrace_objective(one, log_pi, self.parts.rho_bar)
            else:
                objective = ppo_objective(one, log_pi, self.parts.clip)
            found.append(loss_of(objective, one, logs, value, self.parts))
        return found

    def check(self, where: str, agent: ReferenceAgent, judged, sequences) -> None:
        """Compare one update."""
        weights = {
            k: w.clone().requires_grad_() for k, w in agent.before["weights"].items()
        }
        every = [one for each in sequences for one in self.losses(weights, judged, each)]
        loss = torch.stack(every).mean()
        check_update(where, self.settings, agent, loss, gradient_of(loss, weights))


def check_round(found: Round, references: list[PolicyReference]) -> None:
    """Compare all updates that a group made in a round."""
    for i, reference in enumerate(references):
        reference.take_in(found.first)
        minibatches = reference.minibatches(found.number)
        same("updates", found.metrics[i]["updates"], sum(map(bool, minibatches)))
        same("minibatches", len(found.updates), len(minibatches))
        judged = None
        for k, update in enumerate(found.updates):
            where = f"agent {i}, update {k} of round {found.number}"
            agent, anew = update.agents[i], k % reference.parts.minibatches == 0
            same(f"whether {where} is made", agent is not None, bool(minibatches[k]))
            if judged is None or (reference.vtrace and anew):
                # Who takes no part in an update has the weights that it had before.
                state = next(one.agents[i] for one in found.updates[k:] if one.agents[i])
                judged = reference.judge(state.before["weights"])
            if agent is not None:
                reference.check(where, agent, judged, minibatches[k])


def compare(algorithm: Algorithm, agents: list[Agent], luck: int) -> None:
    """Train a group and compare all it does with the references."""
    group = Watched(algorithm, agents, luck)
    references = [
        PolicyReference(algorithm.name, agent, life)
        for agent, life in zip(agents, group.lives, strict=True)
    ]
    for _ in range(ROUNDS):
        check_round(group.train(), references)


EVERY_ROW = {"replay": {"capacity": 200}}
"""They learn from all steps that close in a round, however long ago they opened."""


def compare_ppo(case: int, **chosen) -> None:
    chance = Chance(3, case)
    parts = {
        **actor_critic_parts(chance),
        "clip": chance.of(0.05, 0.2, 0.8),
        "gae": chance.of(0.0, 0.9, 1.0),
    }
    drawn = merge({"ppo": parts, **EVERY_ROW}, chosen)
    compare(PPO, draw_group(chance, **drawn), case)


def compare_vtrace(case: int, **chosen) -> None:
    chance = Chance(4, case)
    parts = {
        **actor_critic_parts(chance),
        "rho_bar": chance.of(0.5, 1.0, 3.0),
        "c_bar": chance.of(0.0, 0.5, 1.0, 2.0),
    }
    drawn = merge({"vtrace": parts, **EVERY_ROW}, chosen)
    compare(VTRACE, draw_group(chance, **drawn), case)


def compare_recurrent_ppo(case: int, **chosen) -> None:
    chance = Chance(5, case)
    parts = {**actor_critic_parts(chance), "clip": chance.of(0.05, 0.2, 0.8)}
    recurrent = {"width": 16, "sequence": chance.whole(2, 7)}
    drawn = merge({"ppo": parts, "recurrent": recurrent, **EVERY_ROW}, chosen)
    compare(RECURRENT_PPO, draw_group(chance, **drawn), case)
