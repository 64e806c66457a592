"""Rounds of value-based learners, compared update by update with the references."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.dqn import DQN
from rookery.algorithms.iqn import IQN
from rookery.rng import Purpose, Stream
from tests.references.drawing import (
    Sampler,
    dqn_parts,
    draw_group,
    merge,
    value_parts,
)
from tests.references.experience import WORLDS, Experience
from tests.references.networks import Weights, drawn_noise, with_noise
from tests.references.optimizer import check_update, gradient_of
from tests.references.recording import (
    SEED,
    RecordedGroup,
    ReferenceAgent,
    Round,
    agree,
    same,
)
from tests.references.replay import PlainPriorities
from tests.references.returns import Transition, factor_of, transitions
from tests.references.values import Sample, dqn_loss, iqn_loss

ROUNDS = 3

Loss = Callable[[Sample, Weights, Weights, Experience], tuple[Tensor, float]]


class ValueReference:
    """One value-based agent, as in the papers."""

    def __init__(self, agent: Agent, experience: Experience, parts, loss: Loss) -> None:
        self.agent, self.experience, self.parts, self.loss = agent, experience, parts, loss
        self.settings = agent.settings
        replay = self.settings.replay
        self.priorities = None
        if replay.kind == "prioritised":
            self.priorities = PlainPriorities(replay, experience.slots, WORLDS)
        self.ends = 1 if parts.retrace is None else self.settings.n_step
        self.usable: list[Transition] = []

    def take_in(self) -> None:
        """Take in the rows of a round."""
        n = self.settings.n_step if self.parts.retrace is None else 1
        self.usable = transitions(self.experience, n)
        self.by_row = {step.row: step for step in self.usable}
        self.factor = factor_of(self.experience)
        if self.priorities is not None:
            self.priorities.take_in(list(self.by_row))

    @property
    def updates(self) -> int:
        enough = max(self.settings.replay.warmup, self.settings.batch_size)
        return self.settings.updates_per_round if len(self.usable) >= enough else 0

    def draw(self, numbers: np.ndarray) -> tuple[list[Transition], list[float]]:
        """Return the transitions of a batch, and their importance weights."""
        if self.priorities is None:
            drawn = [self.usable[int(x * len(self.usable))] for x in numbers]
            return drawn, [1.0] * len(drawn)
        rows, weights = self.priorities.draw(numbers)
        return [self.by_row[row] for row in rows], weights

    def path(self, step: Transition) -> list[Transition]:
        """Return a transition and the known ones of the same episode that follow."""
        path = [step]
        while len(path) < self.ends:
            after = self.by_row.get((path[-1].closes, step.world))
            if after is None:
                break
            path.append(after)
        return path

    def batch_loss(self, weights: Weights, target: Weights, key):
        """Return the loss of the batch of one pass; `key` is agent, round and pass."""
        size, n = self.settings.batch_size, self.settings.network.quantiles
        count = size + (1 + self.ends) * size * n
        drawn = Stream(SEED, Purpose.LEARNER).uniform(key, 0, count)[0]
        numbers = drawn[size:].astype(np.float32)
        taus = numbers[: size * n].reshape(size, n).tolist()
        next_taus = numbers[size * n :].reshape(size, self.ends, n).tolist()
        theta = with_noise(weights, drawn_noise(weights, key, SEED, 0))
        noisy_target = with_noise(target, drawn_noise(target, key, SEED, 1))
        steps, importance = self.draw(drawn[:size])
        results = [
            self.loss(
                Sample(self.path(step), importance[k], self.factor, taus[k], next_taus[k]),
                theta,
                noisy_target,
                self.experience,
            )
            for k, step in enumerate(steps)
        ]
        errors = [error for _, error in results]
        if self.priorities is not None:
            self.priorities.update([step.row for step in steps], errors)
        return torch.stack([loss for loss, _ in results]).mean(), errors

    def check(
        self, where: str, number: int, update: int, agent: ReferenceAgent
    ) -> list[float]:
        """Compare one update; return the errors of its last batch."""
        passes = self.settings.gradient.accumulate
        weights = {
            k: w.clone().requires_grad_() for k, w in agent.before["weights"].items()
        }
        total = torch.zeros((), dtype=torch.float64)
        for k in range(passes):
            key = (self.agent.number, number, update * passes + k)
            loss, errors = self.batch_loss(weights, agent.before["target"], key)
            total = total + loss / passes
        check_update(where, self.settings, agent, loss, gradient_of(total, weights))
        if self.priorities is not None:
            actual, expected = agent.after["priorities"], self.priorities.in_memory()
            agree(f"priorities of {where}", actual, expected)
            largest = [self.priorities.largest]
            agree(f"largest priority of {where}", agent.after["largest_priority"], largest)
        return errors


def check_round(
    played: Round, references: list[ValueReference], errors: bool = True
) -> None:
    """Compare all updates that a group made in a round, and their mean errors."""
    for i, reference in enumerate(references):
        reference.take_in()
        same("usable steps", played.metrics[i]["usable_steps"], len(reference.usable))
        same("updates", played.metrics[i]["updates"], reference.updates)
        means = []
        for k, update in enumerate(played.updates):
            where = f"agent {i}, update {k} of round {played.number}"
            agent = update.agents[i]
            same(f"whether {where} is made", agent is not None, k < reference.updates)
            if agent is not None:
                means += [reference.check(where, played.number, k, agent)]
        if means and errors:
            agree(f"error of agent {i}", played.metrics[i]["td_error"], np.mean(means))


def compare(algorithm: Algorithm, agents: list[Agent], data_seed: int) -> None:
    """Train a group and compare all its updates with the references."""
    name, loss = algorithm.name, {"dqn": dqn_loss, "iqn": iqn_loss}[algorithm.name]
    group = RecordedGroup(algorithm, agents, data_seed)
    references = [
        ValueReference(agent, experience, getattr(agent.settings, name), loss)
        for agent, experience in zip(agents, group.experiences, strict=True)
    ]
    for _ in range(ROUNDS):
        check_round(group.train(), references)


def compare_dqn(case: int, **settings) -> None:
    sampler = Sampler(1, case)
    drawn = merge({"dqn": dqn_parts(sampler)}, settings)
    compare(DQN, draw_group(sampler, **drawn), case)


def compare_iqn(case: int, **settings) -> None:
    sampler = Sampler(2, case)
    parts = {**value_parts(sampler), "acting_quantiles": sampler.whole(1, 3)}
    compare(IQN, draw_group(sampler, **merge({"iqn": parts}, settings)), case)
