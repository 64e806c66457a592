"""Whole rounds of learners of values, compared update by update with the references."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.dqn import DQN
from rookery.algorithms.iqn import IQN
from rookery.rng import Purpose, Stream
from tests.references.drawing import Chance, draw_group, merge, value_parts
from tests.references.lives import WORLDS, Life
from tests.references.networks import Weights, drawn_noise, with_noise
from tests.references.optimizer import check_update, gradient_of
from tests.references.replay import PlainPriorities
from tests.references.returns import Transition, factor_of, transitions
from tests.references.values import Sample, dqn_loss, iqn_loss
from tests.references.watching import SEED, ReferenceAgent, Round, Watched, agree, same

ROUNDS = 3

Loss = Callable[[Sample, Weights, Weights, Life], tuple[Tensor, float]]


class ValueReference:
    """One agent that learns values, as the papers say."""

    def __init__(self, agent: Agent, life: Life, parts, loss: Loss) -> None:
        self.agent, self.life, self.parts, self.loss = agent, life, parts, loss
        self.settings = agent.settings
        replay = self.settings.replay
        self.priorities = None
        if replay.kind == "prioritised":
            self.priorities = PlainPriorities(replay, life.slots, WORLDS)
        self.ends = 1 if parts.retrace is None else self.settings.n_step
        self.usable: list[Transition] = []

    def take_in(self) -> None:
        """Take in the rows of a round."""
        n = self.settings.n_step if self.parts.retrace is None else 1
        self.usable = transitions(self.life, n)
        self.by_place = {step.place: step for step in self.usable}
        self.factor = factor_of(self.life)
        if self.priorities is not None:
            self.priorities.take_in(list(self.by_place))

    @property
    def updates(self) -> int:
        enough = max(self.settings.replay.warmup, self.settings.batch_size)
        return self.settings.updates_per_round if len(self.usable) >= enough else 0

    def draw(self, numbers: np.ndarray) -> tuple[list[Transition], list[float]]:
        """Return the steps of a batch, and their importance weights."""
        if self.priorities is None:
            drawn = [self.usable[int(x * len(self.usable))] for x in numbers]
            return drawn, [1.0] * len(drawn)
        places, weights = self.priorities.draw(numbers)
        return [self.by_place[place] for place in places], weights

    def path(self, step: Transition) -> list[Transition]:
        """Return a step and those of the same episode that follow, as far as is known."""
        found = [step]
        while len(found) < self.ends:
            after = self.by_place.get((found[-1].closes, step.world))
            if after is None:
                break
            found.append(after)
        return found

    def batch_loss(self, weights: Weights, target: Weights, place):
        """Return the loss of the batch of one pass; `place` is agent, round and pass."""
        size, n = self.settings.batch_size, self.settings.network.quantiles
        count = size + (1 + self.ends) * size * n
        drawn = Stream(SEED, Purpose.LEARNER).uniform(place, 0, count)[0]
        fractions = drawn[size:].astype(np.float32)
        taus = fractions[: size * n].reshape(size, n).tolist()
        others = fractions[size * n :].reshape(size, self.ends, n).tolist()
        theta = with_noise(weights, drawn_noise(weights, place, SEED, 0))
        shaken = with_noise(target, drawn_noise(target, place, SEED, 1))
        steps, importance = self.draw(drawn[:size])
        found = [
            self.loss(
                Sample(self.path(step), importance[k], self.factor, taus[k], others[k]),
                theta,
                shaken,
                self.life,
            )
            for k, step in enumerate(steps)
        ]
        errors = [error for _, error in found]
        if self.priorities is not None:
            self.priorities.update([step.place for step in steps], errors)
        return torch.stack([loss for loss, _ in found]).mean(), errors

    def check(
        self, where: str, number: int, update: int, agent: ReferenceAgent
    ) -> list[float]:
        """Compare one update; return the errors of its last batch."""
        passes = self.settings.gradient.accumulate
        weights = {
            k: w.clone().requires_grad_() for k, w in agent.before["weights"].items()
        }
        total = torch.zeros((), dtype=torch.float64)
        for one in range(passes):
            place = (self.agent.number, number, update * passes + one)
            loss, errors = self.batch_loss(weights, agent.before["target"], place)
            total = total + loss / passes
        check_update(where, self.settings, agent, loss, gradient_of(total, weights))
        if self.priorities is not None:
            found, expected = agent.after["priorities"], self.priorities.in_memory()
            agree(f"priorities of {where}", found, expected)
            largest = [self.priorities.largest]
            agree(f"largest priority of {where}", agent.after["largest_priority"], largest)
        return errors


def check_round(
    found: Round, references: list[ValueReference], errors: bool = True
) -> None:
    """Compare all updates that a group made in a round; and their mean errors."""
    for i, reference in enumerate(references):
        reference.take_in()
        same("usable steps", found.metrics[i]["usable_steps"], len(reference.usable))
        same("updates", found.metrics[i]["updates"], reference.updates)
        means = []
        for k, update in enumerate(found.updates):
            where = f"agent {i}, update {k} of round {found.number}"
            agent = update.agents[i]
            same(f"whether {where} is made", agent is not None, k < reference.updates)
            if agent is not None:
                means += [reference.check(where, found.number, k, agent)]
        if means and errors:
            agree(f"error of agent {i}", found.metrics[i]["td_error"], np.mean(means))


def compare(algorithm: Algorithm, agents: list[Agent], luck: int) -> None:
    """Train a group and compare all it does with the references."""
    name, loss = algorithm.name, {"dqn": dqn_loss, "iqn": iqn_loss}[algorithm.name]
    group = Watched(algorithm, agents, luck)
    references = [
        ValueReference(agent, life, getattr(agent.settings, name), loss)
        for agent, life in zip(agents, group.lives, strict=True)
    ]
    for _ in range(ROUNDS):
        check_round(group.train(), references)


def compare_dqn(case: int, **chosen) -> None:
    chance = Chance(1, case)
    drawn = merge({"dqn": value_parts(chance)}, chosen)
    compare(DQN, draw_group(chance, **drawn), case)


def compare_iqn(case: int, **chosen) -> None:
    chance = Chance(2, case)
    parts = {**value_parts(chance), "acting_quantiles": chance.whole(1, 3)}
    compare(IQN, draw_group(chance, **merge({"iqn": parts}, chosen)), case)
