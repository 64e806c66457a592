"""The base of learners that train one agent at a time, from uniformly sampled batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.algorithms.base import WEIGHTS, Agent, Learner, Metrics, Shapes, State
from rookery.algorithms.common.group import STOPPED, UPDATES
from rookery.algorithms.common.schedules import updates_due
from rookery.errors import ConfigError
from rookery.replay.buffer import ReplayReader
from rookery.replay.rewards import RewardSpread
from rookery.rng import Purpose, Stream
from rookery.specs import Array

PREFIX = f"{WEIGHTS}."


class SingleAgentLearner(Learner):
    """A learner of one agent, for algorithms that cannot be stacked.

    Subclasses define the form of the weights (`weights_shape`, `initial_weights`,
    `flat_weights`, `named_weights`) and `make_updates`. Counters, reward scaling, warm-up
    and stopping at NaN are handled here.
    """

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        super().__init__(agents, seed)
        (self.agent,) = agents
        settings = self.agent.settings
        if settings.replay.kind != "uniform":
            raise ConfigError(
                f"agent '{self.agent.id}': replay.kind is {settings.replay.kind}, but "
                f"{settings.algorithm} learns from uniformly sampled batches: set "
                "replay.kind=uniform."
            )
        self.stream = Stream(seed, Purpose.LEARNER)
        self.spread = RewardSpread(settings.reward)

    @classmethod
    @abstractmethod
    def weights_shape(cls, agent: Agent) -> tuple[tuple[int, ...], Any]:
        """Return shape and type of the `WEIGHTS` array."""

    @abstractmethod
    def initial_weights(self, agent: Agent) -> Array:
        """Return an agent's initial `WEIGHTS` array."""

    @abstractmethod
    def make_updates(
        self, reader: ReplayReader, number: int, updates: int
    ) -> tuple[Array, Metrics] | None:
        """Make the updates of a round, starting from `self.weights`.

        Called only if at least one update is due. Returns the new weights and metrics, or
        None if anything became NaN: the agent is then stopped with its old weights.
        """

    @classmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return the weights, counters and reward spread."""
        return {
            WEIGHTS: cls.weights_shape(agent),
            "counters": ((2,), np.int64),
            "reward_spread": ((3,), np.float64),
        }

    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an agent's initial state."""
        return {
            WEIGHTS: self.initial_weights(agent),
            "counters": np.zeros(2, np.int64),
            "reward_spread": np.zeros(3),
        }

    def load(self, states: Sequence[State]) -> None:
        """Take the agent's state."""
        (state,) = states
        self.weights = np.array(state[WEIGHTS])
        self._counters = np.array(state["counters"])
        self.spread.load(state["reward_spread"])

    def save(self) -> list[dict[str, Array]]:
        """Return the agent's state."""
        return [
            {
                WEIGHTS: self.weights,
                "counters": self._counters,
                "reward_spread": self.spread.state,
            }
        ]

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round, unless the agent is stopped or still warming up."""
        (reader,) = readers
        self.spread.update(reader, first)
        updates = updates_due(self.agent.settings, len(reader.usable))
        metrics: Metrics = {"updates": 0, "usable_steps": len(reader.usable)}
        if updates and not self._counters[STOPPED]:
            result = self.make_updates(reader, number, updates)
            if result is None:
                self._counters[STOPPED] = 1
            else:
                self.weights, learned = result
                self._counters[UPDATES] += updates
                metrics |= learned | {"updates": updates}
        if self._counters[STOPPED]:
            metrics["stopped"] = 1.0
        return [metrics]

    def named(self, state: State) -> dict[str, Array]:
        """Return a state with its weights by name."""
        weights = self.named_weights(self.agent, state[WEIGHTS])
        rest = {name: array for name, array in state.items() if name != WEIGHTS}
        return rest | {f"{PREFIX}{name}": array for name, array in weights.items()}

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state from what `named` gave."""
        weights = {
            name.removeprefix(PREFIX): array
            for name, array in arrays.items()
            if name.startswith(PREFIX)
        }
        rest = {k: array for k, array in arrays.items() if not k.startswith(PREFIX)}
        return rest | {WEIGHTS: self.flat_weights(self.agent, weights)}
