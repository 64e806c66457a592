"""Tabular Q-learning: a table with one line of values per observation ever met.

For small games, to teach and to compare others with. An observation is its own bytes, so
two that differ in one bit are two lines, and no two share one. The table is the weights;
lines are taken in the order in which observations are first learned from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from rookery.algorithms.base import (
    WEIGHTS,
    Agent,
    Algorithm,
    Learner,
    Metrics,
    Policy,
    PolicyInput,
    PolicyOutput,
    Shapes,
    State,
)
from rookery.algorithms.common.choosing import choose_by_values
from rookery.algorithms.common.group import STOPPED, UPDATES
from rookery.config.agent import AgentSettings
from rookery.errors import ConfigError
from rookery.replay.buffer import Batch, ReplayReader
from rookery.replay.rewards import RewardSpread
from rookery.rng import Purpose, Stream
from rookery.specs import Array

COLUMNS = ("taken", "seen", "values")


def line_of(agent: Agent) -> np.dtype[Any]:
    """Return what a line holds: an observation as bytes, and values of its actions."""
    parts = agent.spec.parts.values()
    size = sum(prod(part.shape) * part.dtype.itemsize for part in parts)
    seen = (np.uint8, (agent.settings.frames * size,))
    return np.dtype(
        [
            ("taken", np.bool_),
            ("seen", *seen),
            ("values", np.float64, agent.spec.num_actions),
        ]
    )


class QTable:
    """The values of one agent, by what it sees."""

    def __init__(self, agent: Agent, lines: Array) -> None:
        self._agent, self.lines = agent, lines.copy()
        self.values = self.lines["values"]
        self._places = {
            self.lines["seen"][i].tobytes(): i
            for i in np.flatnonzero(self.lines["taken"]).tolist()
        }
        self._nothing = np.zeros(agent.spec.num_actions)

    def __len__(self) -> int:
        return len(self._places)

    def keys(self, seen: Mapping[str, Array]) -> list[bytes]:
        """Return observations (n, frames, *shape) as bytes, all parts one after another."""
        parts = [np.ascontiguousarray(seen[name]) for name in self._agent.spec.parts]
        count = len(parts[0])
        flat = [part.reshape(count, -1).view(np.uint8) for part in parts]
        return [line.tobytes() for line in np.concatenate(flat, axis=1)]

    def look(self, key: bytes) -> Array:
        """Return the values of an observation; of one never met, nothing but zeros."""
        place = self._places.get(key)
        return self._nothing if place is None else self.values[place]

    def take(self, key: bytes) -> int:
        """Return the line of an observation; one that is new takes the next."""
        place = self._places.setdefault(key, len(self._places))
        if place == len(self.lines):
            raise ConfigError(
                f"agent '{self._agent.spec.id}' has met more than {place} different "
                "observations: a table is for small games; raise tabular.entries, lower "
                "frames, or choose algorithm=dqn."
            )
        if not self.lines["taken"][place]:
            self.lines["taken"][place] = True
            self.lines["seen"][place] = np.frombuffer(key, np.uint8)
        return place


class TabularPolicy(Policy):
    """Acts by the highest value, or by chance any legal action."""

    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the table to act with."""
        self._table = QTable(self.agents[0], weights[0])

    def act(self, moment: PolicyInput) -> PolicyOutput:
        """Choose the best action, or by chance a random one."""
        keys = self._table.keys(moment.seen[0])
        values = np.stack([self._table.look(k) for k in keys])
        return choose_by_values(values, moment, self.agents)


class TabularLearner(Learner):
    """Moves one value after the other towards what followed, by drawn steps."""

    def __init__(self, agents: Sequence[Agent], seed: int) -> None:
        super().__init__(agents, seed)
        (self._agent,) = agents
        if self._agent.settings.replay.kind != "uniform":
            raise ConfigError(
                f"agent '{self._agent.spec.id}': tabular Q-learning draws its steps "
                "evenly: leave replay.kind at uniform."
            )
        self._stream = Stream(seed, Purpose.LEARNER)
        self._spread = RewardSpread(self._agent.settings.reward)

    @classmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return the table, and what counts and rewards need."""
        return {
            WEIGHTS: ((agent.settings.tabular.entries,), line_of(agent)),
            "counters": ((2,), np.int64),
            "reward_spread": ((3,), np.float64),
        }

    @classmethod
    def n_step(cls, settings: AgentSettings) -> int:
        """Return 1: further ahead, what follows would not be the best that could."""
        return 1

    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an empty table."""
        shapes = self.shapes(agent, 1, 1)
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}

    def load(self, states: Sequence[State]) -> None:
        """Take the agent's state."""
        (state,) = states
        self._table = QTable(self._agent, state[WEIGHTS])
        self._counters = np.array(state["counters"])
        self._spread.load(state["reward_spread"])

    def save(self) -> list[dict[str, Array]]:
        """Return the agent's state."""
        about = {"counters": self._counters, "reward_spread": self._spread.state}
        return [{WEIGHTS: self._table.lines, **about}]

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round; NaN anywhere stops the agent where it was."""
        (reader,) = readers
        self._spread.update(reader, first)
        settings = self._agent.settings
        enough = len(reader.usable) >= max(settings.replay.warmup, settings.batch_size)
        updates = settings.updates_per_round if enough else 0
        metrics: Metrics = {"updates": 0, "usable_steps": len(reader.usable)}
        if updates and not self._counters[STOPPED]:
            metrics |= self._updates(reader, number, updates)
        if self._counters[STOPPED]:
            metrics["stopped"] = 1.0
        return [metrics]

    def _updates(self, reader: ReplayReader, number: int, updates: int) -> Metrics:
        table = QTable(self._agent, self._table.lines)
        places = (self._agent.number, number, np.arange(updates))
        drawn = self._stream.uniform(places, 0, self._agent.settings.batch_size)
        batch = reader.batch(reader.sample(drawn.ravel()))
        errors, values = self._learn_steps(table, batch)
        if not np.isfinite(errors).all():
            self._counters[STOPPED] = 1
            return {}
        self._table = table
        self._counters[UPDATES] += updates
        return {
            "updates": updates,
            "td_error": float(np.abs(errors).mean()),
            "q_value": float(np.mean(values)),
            "table_lines": len(table),
        }

    def _learn_steps(self, table: QTable, batch: Batch) -> tuple[list[float], list[float]]:
        """Let every step move its value; return how wrong each was, and what it said."""
        rate, factor = self._agent.settings.tabular.rate, self._spread.factor
        now, after = table.keys(batch.seen), table.keys(batch.next_seen)
        returns, discounts = (batch.returns * factor).tolist(), batch.discounts.tolist()
        errors, values = [], []
        for i, action in enumerate(batch.actions.tolist()):
            self.beat()
            legal = slice(None) if batch.next_legal is None else batch.next_legal[i]
            best = table.look(after[i])[legal].max(initial=-np.inf)
            follows = best if np.isfinite(best) else table.look(after[i]).max()
            line = table.take(now[i])
            value = float(table.values[line, action])
            error = returns[i] + discounts[i] * float(follows) - value
            table.values[line, action] = value + rate * error
            errors.append(error)
            values.append(value)
        return errors, values

    # By name.

    @classmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the table from its columns."""
        lines = np.zeros(agent.settings.tabular.entries, line_of(agent))
        for name in COLUMNS:
            expected = lines[name].shape
            found = named[name].shape if name in named else (0,)
            if found != expected:
                raise ConfigError(
                    f"column '{name}' of a table is {found}, expected {expected}: use the "
                    "game and settings it was made with."
                )
            lines[name] = named[name]
        return lines

    @classmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return the columns of the table, whole: of a shape that stays."""
        return {name: np.ascontiguousarray(flat[name]) for name in COLUMNS}

    def named(self, state: State) -> dict[str, Array]:
        """Return a state with all columns of its table."""
        lines = state[WEIGHTS]
        rest = {name: array for name, array in state.items() if name != WEIGHTS}
        names = lines.dtype.names or ()
        return rest | {f"{WEIGHTS}.{k}": np.ascontiguousarray(lines[k]) for k in names}

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state from what `named` gave."""
        lines = np.zeros(self._agent.settings.tabular.entries, line_of(self._agent))
        for name in lines.dtype.names or ():
            lines[name] = arrays[f"{WEIGHTS}.{name}"]
        rest = {k: a for k, a in arrays.items() if not k.startswith(f"{WEIGHTS}.")}
        return rest | {WEIGHTS: lines}


TABULAR = Algorithm("tabular", TabularPolicy, TabularLearner, stackable=False)
