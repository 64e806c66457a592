"""The interfaces of an algorithm: `Policy` acts, `Learner` learns, `Algorithm` is the pair.

Agents with the same stack key form a *group* and are computed as one. The actor builds a
policy and a worker builds a learner, each for a whole group and from the agents' specs and
settings alone; only the arrays of a state pass between them. Neither knows about processes,
schedules or games.
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
"""One agent's state: its weights, and everything else it needs to continue learning."""
Shapes = dict[str, tuple[tuple[int, ...], Any]]
Metrics = dict[str, float]

LEFT_OUT = "left_out"
"""Metric of on-policy learners: transitions that are too long to be learned from."""
STATE_COPIES = 2
"""A state, and as much again for an update: gradients and Adam's intermediate results."""
TRANSITION_BYTES = 120
"""Upper bound on the memory per row while transitions are put together for a window."""
WEIGHTS = "weights"
"""The array of a state that a policy acts with; all others are only for learning."""


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
        """Whether a player acts for it, so that it has neither policy nor learner."""
        return self.algorithm is None

    @property
    def policy(self) -> type[Policy]:
        """How it acts; a scripted agent has no policy."""
        assert self.algorithm is not None
        return self.algorithm.policy

    @property
    def on_policy(self) -> bool:
        """Whether it learns from the newest round only."""
        return self.learner.on_policy

    @property
    def hidden(self) -> int:
        """Size of its recurrent hidden state; 0 if it has none."""
        return self.learner.hidden(self.settings)


def observation_bytes(agent: Agent) -> int:
    """Return how much memory one observation takes, with all its frames."""
    parts = agent.spec.parts.values()
    row = sum(prod(part.shape) * part.dtype.itemsize for part in parts)
    return agent.settings.frames * row


@dataclass
class PolicyInput:
    """What a policy gets each time its group acts."""

    observations: Sequence[Mapping[str, Array]]
    """Per agent: part name to (worlds, frames, *shape)."""
    legal: Sequence[Array | None]
    """Per agent: (worlds, actions) bool, or None if every action is always legal."""
    draws: Array
    """(agents, worlds, 2) random numbers in [0, 1)."""
    exploration: Array
    """(agents,) probability of a random action."""
    hidden: Sequence[Array] = ()
    """Per agent: (worlds, units), the hidden state of recurrent agents."""


@dataclass
class PolicyOutput:
    """What a policy returns for its group."""

    actions: Array
    """(agents, worlds) int64."""
    probabilities: Array
    """(agents, worlds): the probability with which each action was chosen."""
    values: Array
    """(agents, worlds): the return the agent expects; 0 if it does not estimate one."""
    entropies: Array
    """(agents, worlds): the entropy of the choice, in nats."""
    hidden: Array | None = None
    """(agents, worlds, units): the next hidden state of recurrent agents."""
    action_values: Array | None = None
    """(agents, worlds, actions): the value of every action, if they are chosen by value."""
    action_probabilities: Array | None = None
    """(agents, worlds, actions): the policy, if actions are sampled from one."""


class Policy(ABC):
    """How a group acts. Subclass it to define how an algorithm chooses actions.

    The actor builds one instance per group. It calls `begin_round` once per round with the
    weights to act with, then `act` every time the group's agents act. All randomness comes
    from `PolicyInput.draws`, so that the same input gives the same actions; a policy keeps
    nothing from one `act` to the next (hidden states are passed in and out). Example:

        class RandomPolicy(Policy):
            def begin_round(self, weights, number, noise=True):
                self.count = self.agents[0].spec.num_actions

            def act(self, inputs):
                actions = (inputs.draws[..., 0] * self.count).astype(np.int64)
                each = np.full(actions.shape, 1 / self.count)
                return PolicyOutput(actions, each, np.zeros_like(each), -np.log(each))
    """

    is_compiled: bool = False
    """Whether `act` consists of compiled loops, which settings of torch and numpy do not
    change; else it is called with those of a new process."""

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.agents, self.seed = agents, seed

    @abstractmethod
    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the weights for one round; called before the round's first `act`.

        Args:
            weights: the `WEIGHTS` array of each agent's state.
            number: of the round; random numbers that last a round are keyed by it.
            noise: whether noisy networks act with noise; False in greedy evaluation.
        """

    @abstractmethod
    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Choose actions for all agents of the group in all worlds."""

    @classmethod
    def estimates_values(cls) -> bool:
        """Whether `PolicyOutput.values` are estimates, and not just zeros."""
        return True


class Learner(ABC):
    """How a group learns. Subclass it, or one of the bases below, to define an update.

    - `SingleAgentLearner` (common/single_agent.py): one agent, uniform replay, any state.
    - `StackedLearner` (common/stacked.py): networks of a whole group, with Adam.
    - `ValueBasedLearner` (value_based.py): adds sampling from the replay, priorities and
      a target network; override `compute_losses`. `QLearner` (q_learning.py) adds noisy
      networks and Retrace.
    - `PpoLearner` (ppo.py): on-policy; override `compute_advantages` or `policy_loss`.

    Class methods are asked before a run starts and in every process: how large a state is,
    how much an agent explores, how many rows it keeps. A worker builds one instance per
    group and calls `load` with the last states, then for every round `learn` and `save`. It
    calls `load` again if another worker has trained the agent since. An update must not
    depend on which other agents are in the group, and draws random numbers only from
    streams keyed by agent and round. Example, DQN with its loss halved:

        class HalfDqnLearner(DqnLearner):
            def compute_losses(self, batch):
                result = super().compute_losses(batch)
                return replace(result, loss=0.5 * result.loss)

        HALF_DQN = Algorithm("half_dqn", DqnPolicy, HalfDqnLearner)
    """

    on_policy: ClassVar[bool] = False
    """Whether it learns from the newest round only."""
    takes_module: ClassVar[bool] = False
    """Whether a user's module can read the observations (`network.module`)."""

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        self.agents, self.seed = agents, seed
        self.beat: Callable[[], None] = lambda: None
        """A heartbeat, to be called with every update since a round can take long."""

    @classmethod
    @abstractmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return shape and type of each array of an agent's state.

        Args:
            agent: whose state it is.
            slots: turns that its rows have room for.
            worlds: of the run.
        """

    @classmethod
    def exploration(cls, settings: AgentSettings, steps: int) -> float:
        """Return the probability of a random action after so many of the agent's steps."""
        return epsilon(settings.epsilon, steps)

    @classmethod
    def n_step(cls, settings: AgentSettings) -> int:
        """Return after how many rows in which the agent is active a transition closes."""
        return settings.n_step

    @classmethod
    def updates(cls, settings: AgentSettings) -> int:
        """Return how many updates an agent makes per round."""
        return settings.updates_per_round

    @classmethod
    def working_bytes(cls, agent: Agent, worlds: int, turns: int) -> int:
        """Estimate the peak memory an agent's learning takes in its process.

        Shared memory is not included, nor what a custom algorithm allocates.

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
        window = TRANSITION_BYTES * cls.window_rows(settings, worlds, turns)
        batch = 4 * settings.batch_size * observation_bytes(agent)
        return STATE_COPIES * state + window + batch

    @classmethod
    def window_rows(cls, settings: AgentSettings, worlds: int, turns: int) -> int:
        """Return how many rows an agent learns from, in rounds of so many turns."""
        return settings.replay.capacity

    @abstractmethod
    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an agent's initial state, drawn from the run's seed and its number."""

    @abstractmethod
    def load(self, states: Sequence[State]) -> None:
        """Take the group's states, one per agent; called before the first `learn`.

        It is called again if another worker has trained the agents since.
        """

    @abstractmethod
    def save(self) -> list[dict[str, Array]]:
        """Return the group's states; the next update may change these arrays in place."""

    @abstractmethod
    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round and return each agent's metrics.

        Args:
            readers: one per agent, with all rows of the round taken in.
            number: of the round; random numbers are keyed by it.
            first: the first turn of the newest round of experience.
        """

    @classmethod
    @abstractmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the `WEIGHTS` array from what `named_weights` gave, as read from a file.

        Raises:
            ConfigError: if the arrays do not fit the agent's network.
        """

    @classmethod
    @abstractmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return the `WEIGHTS` array as named arrays without padding, for files."""

    def named(self, state: State) -> dict[str, Array]:
        """Return a state's arrays without padding: for digests, checkpoints, exports."""
        return dict(state)

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state from what `named` gave."""
        return dict(arrays)

    @classmethod
    def hidden(cls, settings: AgentSettings) -> int:
        """Return the size of an agent's recurrent hidden state; 0 if it has none."""
        return 0

    @classmethod
    def refusals(cls, settings: AgentSettings) -> Iterator[str]:
        """Yield a line for each way in which an agent's settings contradict each other."""
        yield from ()


@dataclass(frozen=True)
class Algorithm:
    """A policy and a learner that belong together, under the name users select them by.

    To add a built-in algorithm, define an `Algorithm` at the top level of a module in
    rookery/algorithms; `registry.algorithms` finds it there, and `algorithm=NAME` selects
    it. Algorithms outside the package are classes named by path (`./mine.py:Mine`); see
    docs/your-own-algorithm.md.
    """

    name: str
    policy: type[Policy]
    learner: type[Learner]
    stackable: bool = True
    """Whether several agents can be one group; if not, each is a group of one."""
