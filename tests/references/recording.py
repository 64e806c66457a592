"""Groups whose every update is recorded, and comparisons with the references.

A reference starts each update from the state that the code under test had, so that
rounding errors of float32 do not add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Algorithm, Metrics
from tests.references.experience import TURNS, Experience

SEED = 7

# The code works in float32, of 24 bits, and the references in float64. A sum of some
# hundred products of numbers around 1 then differs by some 1e-6, and a gradient through
# several layers by up to 1e-5 of its largest entry; a wrong formula differs by far more.
RELATIVE = 1e-5
"""Of the largest number in an array."""
ABSOLUTE = 1e-6
"""For sums that cancel."""


class Differs(AssertionError):
    """The code under test and the reference disagree."""


def agree(name: str, actual, expected, absolute: float = ABSOLUTE) -> None:
    """Check that two arrays are equal up to the precision of float32."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if actual.shape != expected.shape:
        raise Differs(f"{name}: {actual.shape} numbers, expected {expected.shape}")
    limit = RELATIVE * np.abs(expected).max(initial=0) + absolute
    off = np.abs(actual - expected)
    if not (off <= limit).all():  # NaN is never below
        worst = np.unravel_index(off.argmax(), off.shape)
        raise Differs(
            f"{name}: {actual[worst]:.8g}, expected {expected[worst]:.8g} at {worst} "
            f"(limit {limit:.2g})"
        )


def same(name: str, actual, expected) -> None:
    """Check that two objects are equal."""
    if actual != expected:
        raise Differs(f"{name}: {actual}, expected {expected}")


Named = dict[str, Tensor]


@dataclass
class ReferenceAgent:
    """One agent's update."""

    before: dict[str, Named]
    """weights, target, means and squares by name, float64; and the rest of the state."""
    after: dict[str, Named]
    loss: float
    gradient: Named
    """As the code under test computed it, not clipped yet."""


@dataclass
class Update:
    """One update of a group; None for agents that did not take part."""

    agents: list[ReferenceAgent | None]


@dataclass
class Round:
    number: int
    first: int
    metrics: list[Metrics]
    updates: list[Update]


class RecordedGroup:
    """A group with random experience; learns rounds and records all updates."""

    def __init__(self, algorithm: Algorithm, agents: list[Agent], data_seed: int) -> None:
        self.agents, self.rounds = agents, 0
        self.experiences = [
            Experience(
                agent,
                data_seed,
                algorithm.learner.n_step(agent.settings),
                algorithm.learner.hidden(agent.settings),
            )
            for agent in agents
        ]
        self.learner = algorithm.learner(agents, SEED)
        self.learner.load([self._initial(agent) for agent in agents])
        self._apply = self.learner.group.apply
        self.learner.group.apply = self._recorded
        self._updates: list[Update] = []

    def _initial(self, agent: Agent):
        """Return an initial state whose target is a different network."""
        other = self.learner.initial(replace(agent, number=agent.number + 100))
        return {**self.learner.initial(agent), "target": other["weights"]}

    def train(self) -> Round:
        """Play and learn a round."""
        self.rounds, self._updates = self.rounds + 1, []
        for experience in self.experiences:
            experience.play_round()
        first = self.experiences[0].boundary - TURNS
        readers = [experience.reader for experience in self.experiences]
        metrics = self.learner.learn(readers, self.rounds, first)
        return Round(self.rounds, first, metrics, self._updates)

    def _recorded(self, losses, active):
        before = self.states()
        group = self.learner.group
        copies = {name: gradient.clone() for name, gradient in group.gradients.items()}
        norms = self._apply(losses, active)
        after = self.states()
        agents: list[ReferenceAgent | None] = [None] * len(self.agents)
        for i in np.flatnonzero(active).tolist():
            gradient = {
                name: unpadded(each[i], before[i]["weights"][name])
                for name, each in copies.items()
            }
            agents[i] = ReferenceAgent(before[i], after[i], losses[i].item(), gradient)
        self._updates.append(Update(agents))
        return norms

    def states(self):
        states = []
        for state in self.learner.save():
            groups: dict = {}
            for key, array in self.learner.named(state).items():
                group, _, name = key.partition(".")
                tensor = torch.tensor(np.array(array), dtype=torch.float64)
                if name:
                    groups.setdefault(group, {})[name] = tensor
                else:
                    groups[group] = tensor
            states.append(groups)
        return states


def unpadded(padded: Tensor, like: Tensor) -> Tensor:
    """Return a parameter without its padding."""
    return padded[: like.shape[0], : like.shape[1]].double()
