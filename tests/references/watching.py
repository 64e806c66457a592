"""Groups that learn while every update is written down; and what is compared of it.

A reference starts each update from the state that the code under test had, so that what
float32 rounds off never adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm, Metrics
from tests.references.lives import TURNS, Life

SEED = 7

# The code works in float32, of 24 bits, and the references in float64. A sum of some
# hundred products of numbers around 1 then differs by some 1e-6, and a gradient through
# several layers by up to 1e-5 of its largest entry; a wrong formula differs by far more.
RELATIVE = 1e-5
"""Of the largest number in an array."""
ABSOLUTE = 1e-6
"""For sums that cancel."""


class Differs(AssertionError):
    """What the code says is not what the paper says."""


def agree(what: str, found, expected, absolute: float = ABSOLUTE) -> None:
    """See that two arrays are the same, but for the precision of float32."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        raise Differs(f"{what}: {found.shape} numbers, expected {expected.shape}")
    limit = RELATIVE * np.abs(expected).max(initial=0) + absolute
    off = np.abs(found - expected)
    if not (off <= limit).all():  # NaN is never below
        worst = np.unravel_index(off.argmax(), off.shape)
        raise Differs(
            f"{what}: {found[worst]:.8g}, expected {expected[worst]:.8g} at {worst} "
            f"(limit {limit:.2g})"
        )


def same(what: str, found, expected) -> None:
    """See that two things are equal."""
    if found != expected:
        raise Differs(f"{what}: {found}, expected {expected}")


Named = dict[str, Tensor]


@dataclass
class ReferenceAgent:
    """One agent's part in an update."""

    before: dict[str, Named]
    """weights, target, means and squares by name, float64; and the rest of the state."""
    after: dict[str, Named]
    loss: float
    gradient: Named
    """As autograd found it, not clipped yet."""


@dataclass
class Update:
    """One step of a group; None of those who took none."""

    agents: list[ReferenceAgent | None]


@dataclass
class Round:
    number: int
    first: int
    metrics: list[Metrics]
    updates: list[Update]


class Watched:
    """A group with its lives; learns rounds and writes down all updates."""

    def __init__(self, algorithm: Algorithm, agents: list[Agent], luck: int) -> None:
        self.agents, self.rounds = agents, 0
        self.lives = [
            Life(
                agent,
                luck,
                algorithm.learner.n_step(agent.settings),
                algorithm.learner.hidden(agent.settings),
            )
            for agent in agents
        ]
        self.learner = algorithm.learner(agents, SEED)
        self.learner.load([self._first_state(agent) for agent in agents])
        self._apply = self.learner.group.apply
        self.learner.group.apply = self._watched
        self._updates: list[Update] = []

    def _first_state(self, agent: Agent):
        """Return a first state whose target is another network, which values otherwise."""
        other = self.learner.initial(replace(agent, number=agent.number + 100))
        return {**self.learner.initial(agent), "target": other["weights"]}

    def train(self) -> Round:
        """Live and learn a round."""
        self.rounds, self._updates = self.rounds + 1, []
        for life in self.lives:
            life.live()
        first = self.lives[0].boundary - TURNS
        readers = [life.reader for life in self.lives]
        metrics = self.learner.learn(readers, self.rounds, first)
        return Round(self.rounds, first, metrics, self._updates)

    def _watched(self, gradients, loss, active):
        before = self.states()
        kept = [gradient.clone() for gradient in gradients]
        norms = self._apply(gradients, loss, active)
        after, names = self.states(), list(self.learner.group.weights)
        agents: list[ReferenceAgent | None] = [None] * len(self.agents)
        for i in np.flatnonzero(active).tolist():
            gradient = {
                name: real(each[i], before[i]["weights"][name])
                for name, each in zip(names, kept, strict=True)
            }
            agents[i] = ReferenceAgent(before[i], after[i], loss[i].item(), gradient)
        self._updates.append(Update(agents))
        return norms

    def states(self):
        found = []
        for state in self.learner.save():
            groups: dict = {}
            for key, array in self.learner.named(state).items():
                group, _, name = key.partition(".")
                tensor = torch.tensor(np.array(array), dtype=torch.float64)
                if name:
                    groups.setdefault(group, {})[name] = tensor
                else:
                    groups[group] = tensor
            found.append(groups)
        return found


def real(padded: Tensor, like: Tensor) -> Tensor:
    """Return what is no padding."""
    return padded[: like.shape[0], : like.shape[1]].double()
