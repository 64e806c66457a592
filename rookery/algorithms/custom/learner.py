"""A user's own algorithm: a class that gives values or probabilities, and learns.

Everything it remembers is what its `state` gives. The instance is built anew for every
round and loaded with that, so that nothing else can survive: a run that is resumed goes
on as if it had never stopped. Arrays of any type lie byte by byte in the flat weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from rookery.algorithms.base import (
    WEIGHTS,
    Agent,
    Learner,
    Metrics,
    Policy,
    PolicyInput,
    PolicyOutput,
    Shapes,
    State,
)
from rookery.algorithms.common.choosing import choose_by_chances, choose_by_values
from rookery.algorithms.common.group import STOPPED, UPDATES
from rookery.algorithms.custom.sandbox import Code, seed_at, seed_of
from rookery.config.agent import AgentSettings
from rookery.config.messages import shown
from rookery.errors import ConfigError
from rookery.replay.buffer import Batch, ReplayReader
from rookery.replay.rewards import RewardSpread
from rookery.rng import Purpose, Stream
from rookery.specs import Array

BYTES = 4
"""Of an element of the weights."""
BATCH_DRAW, SEED_DRAW = range(2)
TYPES = "?bBhHiIlLqQefd"
"""What arrays of a state may hold: truth values and numbers, and no objects."""


class Mine:
    """An instance of a user's algorithm, and where its state lies in flat weights."""

    def __init__(self, code: Code, agent: Agent, seed: int = 0) -> None:
        self.code, self.agent, self._seed = code, agent, seed
        self.itself = code.build(agent, seed)
        self._arrays = self._state()
        """As they were first; shapes and types stay like this."""

    @property
    def size(self) -> int:
        """How many elements the weights have."""
        return sum(_elements(array) for array in self._arrays.values())

    def _state(self) -> dict[str, Array]:
        with self.code.running(self.agent, "state", self._seed ^ 1):
            found = {str(k): np.asarray(a) for k, a in dict(self.itself.state()).items()}
        bad = [name for name, array in found.items() if array.dtype.char not in TYPES]
        if bad or not found:
            what = f"'{bad[0]}' as {found[bad[0]].dtype}" if bad else "no arrays"
            raise self._error("state", f"gave {what}: give arrays of numbers, by name.")
        return found

    def save(self) -> Array:
        """Return the state as flat weights."""
        now = self._state()
        if misfit := self._misfit(now):
            raise self._error(
                "state", f"changed: {misfit}; names, shapes and types must stay."
            )
        return self.packed(now)

    def load(self, flat: Array) -> None:
        """Take a state from flat weights."""
        with self.code.running(self.agent, "load", self._seed ^ 2):
            self.itself.load(self.unpacked(flat))

    def packed(self, arrays: Mapping[str, Array]) -> Array:
        """Return named arrays as flat weights."""
        if misfit := self._misfit(arrays):
            raise ConfigError(
                f"weights do not fit {self.code.name}: {misfit}; use the code and the "
                "settings they were trained with."
            )
        flat = np.zeros(self.size, np.float32)
        data, start = flat.view(np.uint8), 0
        for name, form in self._arrays.items():
            part = np.frombuffer(arrays[name].tobytes(), np.uint8)
            data[start : start + form.nbytes] = part
            start += BYTES * _elements(form)
        return flat

    def _misfit(self, arrays: Mapping[str, Array]) -> str:
        """Return the first difference from the arrays at the start, if there is one."""
        for name in [*self._arrays, *arrays]:
            found, expected = _form(arrays.get(name)), _form(self._arrays.get(name))
            if found != expected:
                return f"'{name}' is {found}, expected {expected}"
        return ""

    def unpacked(self, flat: Array) -> dict[str, Array]:
        """Return named arrays from flat weights, as copies."""
        data, start, found = np.ascontiguousarray(flat).view(np.uint8), 0, {}
        for name, form in self._arrays.items():
            part = data[start : start + form.nbytes].tobytes()
            found[name] = np.frombuffer(part, form.dtype).reshape(form.shape).copy()
            start += BYTES * _elements(form)
        return found

    def table(self, method: str, seen: Mapping[str, Array], seed: int) -> Array:
        """Return values or probabilities, (worlds, actions)."""
        with self.code.running(self.agent, method, seed):
            found = np.asarray(getattr(self.itself, method)(dict(seen)))
        expected = (len(next(iter(seen.values()))), self.agent.spec.num_actions)
        if found.shape != expected or found.dtype.char not in TYPES:
            what = f"returned {_form(found)}, expected numbers {expected}: one per world"
            raise self._error(method, f"{what} and action.")
        if method == "probabilities" and not (found >= 0).all():
            raise self._error(method, f"returned {found.min()}, expected 0 or more.")
        return found.astype(np.float32)

    def update(self, batch: Batch, seed: int) -> dict[str, float]:
        """Let it learn from a batch; return its figures."""
        with self.code.running(self.agent, "update", seed):
            figures = dict(self.itself.update(batch) or {})
        try:
            return {str(name): float(value) for name, value in figures.items()}
        except (TypeError, ValueError) as error:
            what = f"returned {shown(str(figures))}"
            raise self._error("update", f"{what}, expected numbers by name.") from error

    def _error(self, method: str, what: str) -> Exception:
        return self.code.error(self.agent, method, what)


def _elements(array: Array) -> int:
    return -(-prod(array.shape) * array.itemsize // BYTES)


def _form(array: Array | None) -> str:
    return "nothing" if array is None else f"{array.shape} {array.dtype}"


class CustomPolicy(Policy):
    """Acts by what a user's algorithm says."""

    code: ClassVar[Code]
    method: ClassVar[str]
    """Which of `values` and `probabilities` it has."""

    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the state to act with."""
        self._mine = Mine(self.code, self.agents[0])
        self._mine.load(weights[0])

    def act(self, moment: PolicyInput) -> PolicyOutput:
        """Choose by values with some exploration, or draw by probabilities."""
        table = self._mine.table(self.method, moment.seen[0], seed_at(moment))
        if self.method != "values":
            return choose_by_chances(table, moment)
        return choose_by_values(table, moment, self.agents)


class CustomLearner(Learner):
    """Lets a user's algorithm learn from batches of steps, drawn evenly."""

    code: ClassVar[Code]
    method: ClassVar[str]

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        super().__init__(agents, seed)
        (self._agent,) = agents
        if self._agent.settings.replay.kind != "uniform":
            raise ConfigError(
                f"agent '{self._agent.spec.id}': {self.code.name} is given batches that "
                "are drawn evenly: leave replay.kind at uniform."
            )
        self._stream = Stream(seed, Purpose.LEARNER)
        self._spread = RewardSpread(self._agent.settings.reward)

    @classmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return the arrays of an agent's state."""
        return {
            WEIGHTS: ((Mine(cls.code, agent).size,), np.float32),
            "counters": ((2,), np.int64),
            "reward_spread": ((3,), np.float64),
        }

    @classmethod
    def exploration(cls, settings: AgentSettings, steps: int) -> float:
        """Return the chance of a random action; by probabilities all are drawn."""
        if cls.method == "probabilities":
            return 1.0
        return super().exploration(settings, steps)

    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return what the user's constructor draws."""
        seed = seed_of(Stream(self.seed, Purpose.INITIAL), (agent.number,), 0)
        return {
            WEIGHTS: Mine(self.code, agent, seed).save(),
            "counters": np.zeros(2, np.int64),
            "reward_spread": np.zeros(3),
        }

    def load(self, states: Sequence[State]) -> None:
        """Take the agent's state."""
        (state,) = states
        self._weights = np.array(state[WEIGHTS])
        self._counters = np.array(state["counters"])
        self._spread.load(state["reward_spread"])

    def save(self) -> list[dict[str, Array]]:
        """Return the agent's state."""
        spread = self._spread.state
        about = {"counters": self._counters, "reward_spread": spread}
        return [{WEIGHTS: self._weights, **about}]

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round; NaN anywhere stops the agent where it was."""
        (reader,) = readers
        self._spread.update(reader, first)
        settings = self._agent.settings
        enough = len(reader.usable) >= max(settings.replay.warmup, settings.batch_size)
        metrics: Metrics = {"updates": 0, "usable_steps": len(reader.usable)}
        if enough and settings.updates_per_round and not self._counters[STOPPED]:
            metrics |= self._updates(reader, number)
        if self._counters[STOPPED]:
            metrics["stopped"] = 1.0
        return [metrics]

    def _updates(self, reader: ReplayReader, number: int) -> Metrics:
        """Build, load, update, and keep the state; return the means of all figures."""
        mine = Mine(self.code, self._agent)
        mine.load(self._weights)
        updates = self._agent.settings.updates_per_round
        found: dict[str, list[float]] = {}
        for update in range(updates):
            self.beat()
            place = (self._agent.number, number, update)
            seed = seed_of(self._stream, place, SEED_DRAW)
            for name, value in mine.update(self._batch(reader, place), seed).items():
                found.setdefault(name, []).append(value)
        weights = mine.save()
        if _has_nan(mine.unpacked(weights).values()) or _has_nan(found.values()):
            self._counters[STOPPED] = 1
            return {}
        self._weights = weights
        self._counters[UPDATES] += updates
        means = {name: float(np.mean(values)) for name, values in found.items()}
        return means | {"updates": updates}

    def _batch(self, reader: ReplayReader, place: tuple[int, int, int]) -> Batch:
        size, factor = self._agent.settings.batch_size, np.float32(self._spread.factor)
        numbers = self._stream.uniform(place, BATCH_DRAW, size)[0]
        batch = reader.batch(reader.sample(numbers))
        return replace(batch, returns=batch.returns * factor)

    # By name.

    @classmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the weights a policy takes."""
        return Mine(cls.code, agent).packed(named)

    @classmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return the arrays of the user's state."""
        return Mine(cls.code, agent).unpacked(flat)

    def named(self, state: State) -> dict[str, Array]:
        """Return a state with the user's arrays by name."""
        own = self.named_weights(self._agent, state[WEIGHTS])
        rest = {name: array for name, array in state.items() if name != WEIGHTS}
        return rest | {f"{WEIGHTS}.{name}": array for name, array in own.items()}

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state from what `named` gave."""
        start = f"{WEIGHTS}."
        own = {k.removeprefix(start): a for k, a in arrays.items() if k.startswith(start)}
        rest = {k: array for k, array in arrays.items() if not k.startswith(start)}
        return rest | {WEIGHTS: self.flat_weights(self._agent, own)}


def _has_nan(arrays: Any) -> bool:
    return any(np.isnan(array).any() for array in arrays)
