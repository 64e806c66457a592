"""The base of learners that train the networks of a whole group with Adam."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from rookery.algorithms.base import Agent, Learner, Metrics, Shapes, State
from rookery.algorithms.common.group import STOPPED, Group
from rookery.algorithms.nets.layers import Parameters
from rookery.kernels import Scalar, kernel
from rookery.replay.buffer import ReplayReader
from rookery.rng import Purpose, Stream
from rookery.specs import Array

AVERAGES = ("loss", "td_error", "q_value", "gradient_norm")
"""The metrics of a round that are averages over its updates."""


@dataclass
class PassResult:
    """The losses of one pass over a batch."""

    loss: Tensor
    """(agents,), the loss to minimise, with importance weights applied."""
    errors: Tensor
    """(agents, batch): absolute temporal-difference errors."""
    values: Tensor
    """(agents, batch): the values that were predicted."""
    learned: Tensor | None = None
    """(agents, batch) bool: which entries were learned from; None: all."""


class StackedLearner(Learner):
    """A learner whose state is flat parameter vectors, those of a group stacked.

    Subclasses define `parameters` and `learn`. They compute losses (agents,) with
    `group.weights`, and then call `group.differentiate` and `group.apply`.
    """

    def __init__(self, agents: Sequence[Agent], seed: int, parameters: Parameters) -> None:
        super().__init__(agents, seed)
        self.group = Group(agents, parameters)
        self.stream = Stream(seed, Purpose.LEARNER)
        self.agent_numbers = np.array([agent.number for agent in agents])

    @classmethod
    @abstractmethod
    def parameters(cls, agent: Agent) -> Parameters:
        """Return the layout of an agent's parameters."""

    @classmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return the arrays of `Group`: weights, target, moments, counters, spread."""
        return Group.shapes(cls.parameters(agent).size)

    @classmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the padded flat vector of named parameters."""
        return cls.parameters(agent).flat(named)

    @classmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return named parameters without padding."""
        return cls.parameters(agent).unpadded(flat)

    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an initial state, with weights drawn for this agent."""
        stream = Stream(self.seed, Purpose.INITIAL)
        return Group.initial(self.group.parameters.initial(stream, agent.number))

    def load(self, states: Sequence[State]) -> None:
        """Take the group's states."""
        self.group.load(states)

    def save(self) -> list[dict[str, Array]]:
        """Return the group's states."""
        return self.group.save()

    def named(self, state: State) -> dict[str, Array]:
        """Return a state with every parameter by name, without padding."""
        return self.group.named(state)

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state from what `named` gave."""
        return self.group.unnamed(arrays)


class RoundLog:
    """Averages the results of a round's updates, for each agent."""

    def __init__(self, agents: int) -> None:
        self.sums = np.zeros((agents, len(AVERAGES)))
        """(agents, averages) over all updates so far."""
        self.updates = np.zeros(agents, np.int64)
        """(agents,) how many updates were made."""

    def add(self, result: PassResult, norms: Array, active: Array) -> None:
        """Add one update of the active agents."""
        losses = result.loss.detach().numpy()
        errors, values = result.errors.numpy(), result.values.numpy()
        _add_updates(losses, errors, values, norms, active, self.sums)
        self.updates += active

    def metrics(self, readers: Sequence[ReplayReader], group: Group) -> list[Metrics]:
        """Return each agent's metrics; averages only if it made an update."""
        per_agent: list[Metrics] = []
        for i, updates in enumerate(self.updates.tolist()):
            metrics: Metrics = {"updates": updates, "usable_steps": len(readers[i].usable)}
            if updates:
                averages = (self.sums[i] / updates).tolist()
                metrics |= dict(zip(AVERAGES, averages, strict=True))
            if group.counters[i, STOPPED]:
                metrics["stopped"] = 1.0
            per_agent.append(metrics)
        return per_agent


@kernel
def _add_updates(
    losses: Array, errors: Array, values: Array, norms: Array, active: Array, sums: Array
) -> None:
    """Add the `AVERAGES` of an update to sums, (agents, averages), for active agents."""
    for a in range(len(active)):
        if active[a]:
            add_update(losses[a], errors[a], values[a], norms[a], sums[a])


@kernel
def add_update(
    loss: Scalar, errors: Array, values: Array, norm: Scalar, sums: Array
) -> None:
    """Add the `AVERAGES` of an agent's update to its sums, (averages,)."""
    error, value = 0.0, 0.0
    for b in range(len(errors)):
        error += errors[b]
        value += values[b]
    sums[0] += loss
    sums[1] += error / len(errors)
    sums[2] += value / len(errors)
    sums[3] += norm
