"""What an algorithm is: how a group of agents acts, and how it learns.

A *group* is agents with the same stack key: one computation serves them all. An algorithm
brings a `Policy`, which the actor uses, and a `Rule`, which a learner uses. Both are built
from plans alone, in the process that uses them; what passes between them is the arrays of
a state. Neither knows of processes, schedules or games.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from rookery.algorithms.common.schedules import epsilon
from rookery.config.agent import AgentSettings
from rookery.replay.buffer import ReplayReader
from rookery.specs import AgentSpec, Array

State = Mapping[str, Array]
"""One agent's state: weights, and whatever learning needs to go on."""
Shapes = dict[str, tuple[tuple[int, ...], Any]]
Metrics = dict[str, float]

LEAST = 1e-12
"""The smallest chance that has a logarithm."""
LEFT_OUT = "left_out"
"""Of on-policy learners: steps that are too long to be learned from."""
STATE_COPIES = 2
"""A state, and what taking a step needs: gradients, and Adam's numbers in between."""
STEP_BYTES = 120
"""What putting a step together takes at most, while it is done for a whole window."""
WEIGHTS = "weights"
"""The array that acts; everything else in a state is for learning."""


@dataclass(frozen=True)
class Agent:
    """One agent of a run: what it observes, its settings, and what decides its actions.

    It *learns*, or is *frozen* (acts with weights that do not change), or is *scripted*
    (a player acts for it, and it has no algorithm).
    """

    number: int
    spec: AgentSpec
    settings: AgentSettings
    algorithm: Algorithm | None = None
    """None if it is scripted."""
    player: str | None = None
    """The scripted player that acts for it."""
    learns: bool = False

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.spec.id

    @property
    def learner(self) -> type[Learner]:
        """How it learns; for a scripted agent, the defaults of the base class."""
        return Learner if self.algorithm is None else self.algorithm.learner

    @property
    def is_scripted(self) -> bool:
        """Whether a player acts for it, and it has neither network nor learner."""
        return self.algorithm is None

    @property
    def policy(self) -> type[Policy]:
        """How it acts; a scripted agent has none."""
        assert self.algorithm is not None
        return self.algorithm.policy

    @property
    def on_policy(self) -> bool:
        """Whether it learns from its newest round alone."""
        return self.learner.on_policy

    @property
    def hidden(self) -> int:
        """Size of its recurrent hidden state; 0 if it has none."""
        return self.learner.hidden(self.settings)


def seen_bytes(agent: Agent) -> int:
    """Return how much memory one observation takes, with all its frames."""
    parts = agent.spec.parts.values()
    row = sum(prod(part.shape) * part.dtype.itemsize for part in parts)
    return agent.settings.frames * row


@dataclass
class PolicyInput:
    """What a group sees at its moment to act."""

    seen: Sequence[Mapping[str, Array]]
    """Per agent: part name to (worlds, frames, *shape)."""
    legal: Sequence[Array | None]
    """Per agent: (worlds, actions) bool, or None."""
    draws: Array
    """(agents, worlds, 2) random numbers in [0, 1)."""
    exploration: Array
    """(agents,) chance of a random action."""
    hidden: Sequence[Array] = ()
    """Per agent: (worlds, numbers) that recurrent agents carry from turn to turn."""


@dataclass
class PolicyOutput:
    """What a group does."""

    actions: Array
    """(agents, worlds) int64."""
    probabilities: Array
    """(agents, worlds): how likely each of these was."""
    values: Array
    """(agents, worlds): what the agent expected of it."""
    entropies: Array
    """(agents, worlds): how undecided it was, in nats."""
    hidden: Array | None = None
    """(agents, worlds, numbers): what recurrent agents carry on to the next turn."""


class Policy(ABC):
    """How a group acts."""

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.agents, self.seed = agents, seed

    @abstractmethod
    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the weights to act with, one flat array per agent, for one round.

        Without `noise`, weights that explore by noise act as they are.
        """

    @abstractmethod
    def act(self, moment: PolicyInput) -> PolicyOutput:
        """Choose for all agents and worlds in one pass."""


class Learner(ABC):
    """How a group learns."""

    on_policy: ClassVar[bool] = False
    """Whether it learns only from the newest round."""

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.agents, self.seed = agents, seed
        self.beat: Callable[[], None] = lambda: None
        """A sign of life, to be given with every update: a round may take long."""

    @classmethod
    @abstractmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return the arrays of an agent's state, by formula."""

    @classmethod
    def exploration(cls, settings: AgentSettings, steps: int) -> float:
        """Return an agent's chance of a random action after so many of its own steps."""
        return epsilon(settings.epsilon, steps)

    @classmethod
    def n_step(cls, settings: AgentSettings) -> int:
        """Return after how many rows in which the agent is active a step closes."""
        return settings.n_step

    @classmethod
    def updates(cls, settings: AgentSettings) -> int:
        """Return how many updates an agent makes in a round."""
        return settings.updates_per_round

    @classmethod
    def working_bytes(cls, agent: Agent, worlds: int, turns: int) -> int:
        """Return about how much memory of its own an agent's learning takes at its peak.

        What lies in shared memory is not counted, nor what a user's own code gets.

        Args:
            agent: whose learning it is.
            worlds: of the run.
            turns: of a round.
        """
        state = sum(
            prod(shape) * np.dtype(dtype).itemsize
            for shape, dtype in cls.shapes(agent, 1, 1).values()
        )
        settings = agent.settings
        steps = STEP_BYTES * cls.window_rows(settings, worlds, turns)
        return STATE_COPIES * state + steps + 4 * settings.batch_size * seen_bytes(agent)

    @classmethod
    def window_rows(cls, settings: AgentSettings, worlds: int, turns: int) -> int:
        """Return how many rows an agent learns from, in rounds of so many turns."""
        return settings.replay.capacity

    @abstractmethod
    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an agent's first state."""

    @abstractmethod
    def load(self, states: Sequence[State]) -> None:
        """Take the group's states, one per agent."""

    @abstractmethod
    def save(self) -> list[dict[str, Array]]:
        """Return the group's states; what is returned may change with the next update."""

    @abstractmethod
    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round from what the readers have taken in.

        Args:
            readers: one per agent.
            number: of the round; what random numbers are keyed by.
            first: the first turn of the newest round of experience.
        """

    @classmethod
    @abstractmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the weights a policy takes, from named arrays without padding."""

    @classmethod
    @abstractmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return weights by name, without padding."""

    def named(self, state: State) -> dict[str, Array]:
        """Return a state's arrays without padding: for digests, checkpoints, exports."""
        return dict(state)

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state from what `named` gave."""
        return dict(arrays)

    @classmethod
    def hidden(cls, settings: AgentSettings) -> int:
        """Return how many numbers an agent carries from turn to turn; 0: none."""
        return 0

    @classmethod
    def refusals(cls, settings: AgentSettings) -> Iterator[str]:
        """Say which of an agent's settings cannot go together, a line each."""
        yield from ()


@dataclass(frozen=True)
class Algorithm:
    """A policy and a rule that belong together."""

    name: str
    policy: type[Policy]
    learner: type[Learner]
    stackable: bool = True
    """Whether agents can be one computation; a user's own never is."""
