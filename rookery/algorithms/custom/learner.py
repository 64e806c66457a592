"""Custom algorithms: a user's class that gives values or probabilities, and learns.

All that the class remembers is what its `state` returns. The instance is built from scratch
and loaded with that for every round, so that nothing else can survive, and a resumed run
continues as if it had never stopped. Arrays of any type are stored in the flat weights byte
by byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from rookery.algorithms.base import Agent, Metrics, Policy, PolicyInput, PolicyOutput
from rookery.algorithms.common.exploration import (
    act_by_probabilities,
    act_by_values,
    temperatures_of,
)
from rookery.algorithms.common.single_agent import SingleAgentLearner
from rookery.algorithms.custom.sandbox import UserClass, acting_seed, seed_of
from rookery.config.agent import AgentSettings
from rookery.config.messages import shown
from rookery.errors import ConfigError
from rookery.replay.buffer import Batch, ReplayReader
from rookery.rng import Purpose, Stream
from rookery.specs import Array

ELEMENT_BYTES = 4
"""Size of an element of the weights."""
BATCH_DRAW, SEED_DRAW = range(2)
TYPES = "?bBhHiIlLqQefd"
"""Types of a state's arrays: booleans and numbers, but no objects."""


class Instance:
    """An instance of a user's class, and the layout of its state in flat weights."""

    def __init__(self, user_class: UserClass, agent: Agent, seed: int = 0) -> None:
        self.user_class, self.agent, self._seed = user_class, agent, seed
        self._object = user_class.build(agent, seed)
        self._layout = self._state()
        """The initial state; names, shapes and types must stay like this."""

    @property
    def size(self) -> int:
        """Number of elements of the flat weights."""
        return sum(_elements(array) for array in self._layout.values())

    def _state(self) -> dict[str, Array]:
        with self.user_class.calling(self.agent, "state", self._seed ^ 1):
            state = {str(k): np.asarray(a) for k, a in dict(self._object.state()).items()}
        bad = [name for name, array in state.items() if array.dtype.char not in TYPES]
        if bad or not state:
            returned = f"'{bad[0]}' as {state[bad[0]].dtype}" if bad else "no arrays"
            raise self._error(
                "state", f"returned {returned}, expected a dict of numeric arrays by name."
            )
        return state

    def save(self) -> Array:
        """Return the state as flat weights."""
        state = self._state()
        if misfit := self._misfit(state):
            raise self._error(
                "state", f"changed: {misfit}; keep names, shapes and types the same."
            )
        return self.pack(state)

    def load(self, flat: Array) -> None:
        """Load a state from flat weights."""
        with self.user_class.calling(self.agent, "load", self._seed ^ 2):
            self._object.load(self.unpack(flat))

    def pack(self, arrays: Mapping[str, Array]) -> Array:
        """Return named arrays as flat weights."""
        if misfit := self._misfit(arrays):
            raise ConfigError(
                f"weights do not fit {self.user_class.path}: {misfit}; use the code and "
                "the settings they were trained with."
            )
        flat = np.zeros(self.size, np.float32)
        data, start = flat.view(np.uint8), 0
        for name, array in self._layout.items():
            content = np.frombuffer(arrays[name].tobytes(), np.uint8)
            data[start : start + array.nbytes] = content
            start += ELEMENT_BYTES * _elements(array)
        return flat

    def unpack(self, flat: Array) -> dict[str, Array]:
        """Return named arrays from flat weights, as copies."""
        data, start, arrays = np.ascontiguousarray(flat).view(np.uint8), 0, {}
        for name, array in self._layout.items():
            content = data[start : start + array.nbytes].tobytes()
            arrays[name] = np.frombuffer(content, array.dtype).reshape(array.shape).copy()
            start += ELEMENT_BYTES * _elements(array)
        return arrays

    def _misfit(self, arrays: Mapping[str, Array]) -> str:
        """Return the first difference from the initial state's arrays; '' if none."""
        for name in [*self._layout, *arrays]:
            form, expected = _form(arrays.get(name)), _form(self._layout.get(name))
            if form != expected:
                return f"'{name}' is {form}, expected {expected}"
        return ""

    def table(self, method: str, observations: Mapping[str, Array], seed: int) -> Array:
        """Return values or probabilities, (worlds, actions)."""
        with self.user_class.calling(self.agent, method, seed):
            table = np.asarray(getattr(self._object, method)(dict(observations)))
        worlds = len(next(iter(observations.values())))
        expected = (worlds, self.agent.spec.num_actions)
        if table.shape != expected or table.dtype.char not in TYPES:
            raise self._error(
                method,
                f"returned {_form(table)}, expected numbers {expected}: one per world and "
                "action.",
            )
        if method == "probabilities" and not (table >= 0).all():
            raise self._error(method, f"returned {table.min()}, expected 0 or more.")
        return table.astype(np.float32)

    def update(self, batch: Batch, seed: int) -> dict[str, float]:
        """Update it with a batch; return its metrics."""
        with self.user_class.calling(self.agent, "update", seed):
            metrics = dict(self._object.update(batch) or {})
        try:
            return {str(name): float(value) for name, value in metrics.items()}
        except (TypeError, ValueError) as error:
            raise self._error(
                "update", f"returned {shown(str(metrics))}, expected numbers by name."
            ) from error

    def _error(self, method: str, problem: str) -> Exception:
        return self.user_class.error(self.agent, method, problem)


def _elements(array: Array) -> int:
    return -(-prod(array.shape) * array.itemsize // ELEMENT_BYTES)


def _form(array: Array | None) -> str:
    return "nothing" if array is None else f"{array.shape} {array.dtype}"


class CustomPolicy(Policy):
    """Acts by the values or probabilities of a user's class."""

    user_class: ClassVar[UserClass]
    method: ClassVar[str]
    """`values` or `probabilities`, whichever the class has."""

    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Build an instance with the state to act with."""
        self._instance = Instance(self.user_class, self.agents[0])
        self._instance.load(weights[0])

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Choose by values and explore, or sample by probabilities."""
        observations, seed = inputs.observations[0], acting_seed(inputs)
        table = self._instance.table(self.method, observations, seed)
        if self.method == "probabilities":
            return act_by_probabilities(table, inputs)
        temperatures = temperatures_of(self.agents, inputs.exploration)
        return act_by_values(table[None], inputs, temperatures)

    @classmethod
    def estimates_values(cls) -> bool:
        """Whether the class gives values."""
        return cls.method == "values"


class CustomLearner(SingleAgentLearner):
    """Trains a user's class with sampled batches."""

    user_class: ClassVar[UserClass]
    method: ClassVar[str]

    @classmethod
    def exploration(cls, settings: AgentSettings, steps: int) -> float:
        """Return the probability of a random action; 1 if actions are always sampled."""
        if cls.method == "probabilities":
            return 1.0
        return super().exploration(settings, steps)

    @classmethod
    def weights_shape(cls, agent: Agent) -> tuple[tuple[int, ...], Any]:
        """Return the size of the user's state."""
        return (Instance(cls.user_class, agent).size,), np.float32

    def initial_weights(self, agent: Agent) -> Array:
        """Return the state that the user's constructor gives, seeded for this agent."""
        seed = seed_of(Stream(self.seed, Purpose.INITIAL), (agent.number,), 0)
        return Instance(self.user_class, agent, seed).save()

    @classmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the user's state as flat weights."""
        return Instance(cls.user_class, agent).pack(named)

    @classmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return the arrays of the user's state."""
        return Instance(cls.user_class, agent).unpack(flat)

    def make_updates(
        self, reader: ReplayReader, number: int, updates: int
    ) -> tuple[Array, Metrics] | None:
        """Build and load an instance, update it, and return its state and mean metrics."""
        instance = Instance(self.user_class, self.agent)
        instance.load(self.weights)
        metrics: dict[str, list[float]] = {}
        for update in range(updates):
            self.beat()
            key = (self.agent.number, number, update)
            draws = self.stream.uniform(key, BATCH_DRAW, self.agent.settings.batch_size)[0]
            batch = reader.batch(reader.sample(draws))
            batch = replace(batch, returns=batch.returns * np.float32(self.spread.factor))
            seed = seed_of(self.stream, key, SEED_DRAW)
            for name, value in instance.update(batch, seed).items():
                metrics.setdefault(name, []).append(value)
        weights = instance.save()
        if _has_nan(instance.unpack(weights).values()) or _has_nan(metrics.values()):
            return None
        return weights, {name: float(np.mean(values)) for name, values in metrics.items()}


def _has_nan(arrays: Iterable[Array | list[float]]) -> bool:
    return any(np.isnan(array).any() for array in arrays)
