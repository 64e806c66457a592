"""Tabular Q-learning (Watkins, 1989): a table with one row of values per observation.

For small games, for teaching and as a baseline. The key of an observation is its bytes, so
two that differ in one bit have different rows. The table is the agent's weights; rows are
assigned in the order in which observations are first learned from.

Two options make an agent slower to lower a value than to raise it, since a low return may
only mean that another agent explored: hysteretic Q-learning (Matignon et al., 2007) and
lenient learning (common/leniency.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.algorithms.base import (
    Agent,
    Algorithm,
    Metrics,
    Policy,
    PolicyInput,
    PolicyOutput,
    Shapes,
    State,
    observation_bytes,
)
from rookery.algorithms.common.exploration import act_by_values, temperatures_of
from rookery.algorithms.common.leniency import Leniency, initial_temperatures
from rookery.algorithms.common.single_agent import SingleAgentLearner
from rookery.config.agent import AgentSettings
from rookery.errors import ConfigError
from rookery.replay.buffer import Batch, ReplayReader
from rookery.specs import Array

COLUMNS = ("taken", "seen", "values")
"""Whether a row is in use, the observation as bytes, and the values of its actions."""
TEMPERATURES = "temperatures"
"""The array of a lenient agent's state, (entries, actions)."""


def row_type(agent: Agent) -> np.dtype[Any]:
    """Return the type of a row of an agent's table."""
    taken, seen, values = COLUMNS
    return np.dtype(
        [
            (taken, np.bool_),
            (seen, np.uint8, (observation_bytes(agent),)),
            (values, np.float64, agent.spec.num_actions),
        ]
    )


class QTable:
    """The action values of one agent, by observation."""

    def __init__(self, agent: Agent, rows: Array) -> None:
        self._agent, self.rows = agent, rows.copy()
        self.values = self.rows["values"]
        self._indices = {
            self.rows["seen"][i].tobytes(): i
            for i in np.flatnonzero(self.rows["taken"]).tolist()
        }
        self._zeros = np.zeros(agent.spec.num_actions)

    def __len__(self) -> int:
        return len(self._indices)

    def keys(self, observations: Mapping[str, Array]) -> list[bytes]:
        """Return observations (n, frames, *shape) as bytes, all parts one after another."""
        parts = [
            np.ascontiguousarray(observations[name]) for name in self._agent.spec.parts
        ]
        count = len(parts[0])
        flat = [part.reshape(count, -1).view(np.uint8) for part in parts]
        return [row.tobytes() for row in np.concatenate(flat, axis=1)]

    def look_up(self, key: bytes) -> Array:
        """Return the values of an observation; zeros if it is not in the table."""
        index = self.find(key)
        return self._zeros if index is None else self.values[index]

    def find(self, key: bytes) -> int | None:
        """Return the row of an observation; None if it is not in the table."""
        return self._indices.get(key)

    def index(self, key: bytes) -> int:
        """Return the row of an observation, which is added if it is new."""
        index = self._indices.setdefault(key, len(self._indices))
        if index == len(self.rows):
            raise ConfigError(
                f"agent '{self._agent.id}' has observed more than {index} different "
                "observations: a table is for small games; raise tabular.entries, lower "
                "frames, or choose algorithm=dqn."
            )
        if not self.rows["taken"][index]:
            self.rows["taken"][index] = True
            self.rows["seen"][index] = np.frombuffer(key, np.uint8)
        return index


class TabularPolicy(Policy):
    """Takes the action with the highest value, or explores."""

    def begin_round(
        self, weights: Sequence[Array], number: int, noise: bool = True
    ) -> None:
        """Take the table to act with."""
        self._table = QTable(self.agents[0], weights[0])

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Take the best actions, or explore."""
        keys = self._table.keys(inputs.observations[0])
        values = np.stack([self._table.look_up(key) for key in keys])
        temperatures = temperatures_of(self.agents, inputs.exploration)
        return act_by_values(values[None], inputs, temperatures)


class TabularLearner(SingleAgentLearner):
    """Moves one value after the other towards its target, by sampled transitions."""

    _leniency: Leniency | None = None

    @classmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return the table and, of a lenient agent, temperatures."""
        shapes = super().shapes(agent, slots, worlds)
        if agent.settings.tabular.leniency:
            size = (agent.settings.tabular.entries, agent.spec.num_actions)
            shapes[TEMPERATURES] = (size, np.float64)
        return shapes

    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an agent's initial state."""
        state = super().initial(agent)
        if agent.settings.tabular.leniency:
            state[TEMPERATURES] = initial_temperatures(agent)
        return state

    def load(self, states: Sequence[State]) -> None:
        """Take the agent's state."""
        super().load(states)
        if TEMPERATURES in states[0]:
            self._leniency = Leniency(
                self.agent.settings.tabular, np.array(states[0][TEMPERATURES])
            )

    def save(self) -> list[dict[str, Array]]:
        """Return the agent's state."""
        (state,) = super().save()
        if self._leniency is not None:
            state[TEMPERATURES] = self._leniency.temperatures
        return [state]

    @classmethod
    def n_step(cls, settings: AgentSettings) -> int:
        """Return 1: longer returns would not be those of the best actions."""
        return 1

    @classmethod
    def weights_shape(cls, agent: Agent) -> tuple[tuple[int, ...], Any]:
        """Return the size of the table and the type of its rows."""
        return (agent.settings.tabular.entries,), row_type(agent)

    def initial_weights(self, agent: Agent) -> Array:
        """Return an empty table."""
        return np.zeros(*self.weights_shape(agent))

    @classmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the table from its columns."""
        rows = np.zeros(*cls.weights_shape(agent))
        for name in COLUMNS:
            expected = rows[name].shape
            shape = named[name].shape if name in named else (0,)
            if shape != expected:
                raise ConfigError(
                    f"column '{name}' of a table is {shape}, expected {expected}: use the "
                    "game and settings it was trained with."
                )
            rows[name] = named[name]
        return rows

    @classmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return the columns of the table, unused rows included: shapes never change."""
        return {name: np.ascontiguousarray(flat[name]) for name in COLUMNS}

    def make_updates(
        self, reader: ReplayReader, number: int, updates: int
    ) -> tuple[Array, Metrics] | None:
        """Learn from `updates` batches, one transition after the other."""
        table, size = QTable(self.agent, self.weights), self.agent.settings.batch_size
        key = (self.agent.number, number, np.arange(updates))
        draws = self.stream.uniform(key, 0, size)
        batch = reader.batch(reader.sample(draws.ravel()))
        leniency = None
        if self._leniency is not None:
            leniency = self._leniency.copy(self.stream.uniform(key, 1, size).ravel())
        errors, values = self._learn_transitions(table, batch, leniency)
        if not np.isfinite(errors).all():
            return None
        self._leniency = leniency
        return table.rows, {
            "td_error": float(np.abs(errors).mean()),
            "q_value": float(np.mean(values)),
            "table_lines": len(table),
        }

    def _learn_transitions(
        self, table: QTable, batch: Batch, leniency: Leniency | None
    ) -> tuple[list[float], list[float]]:
        """Update the table; return each transition's error, and its value before."""
        settings, factor = self.agent.settings.tabular, self.spread.factor
        rate, lower_rate = settings.rate, settings.rate * settings.hysteresis
        keys, next_keys = table.keys(batch.seen), table.keys(batch.next_seen)
        returns, discounts = (batch.returns * factor).tolist(), batch.discounts.tolist()
        errors, values = [], []
        for i, action in enumerate(batch.actions.tolist()):
            self.beat()
            legal = slice(None) if batch.next_legal is None else batch.next_legal[i]
            next_values = table.look_up(next_keys[i])
            best = next_values[legal].max(initial=-np.inf)
            if not np.isfinite(best):  # nothing is legal there
                best = next_values.max()
            row = table.index(keys[i])
            value = float(table.values[row, action])
            error = returns[i] + discounts[i] * float(best) - value
            if error >= 0 or leniency is None or not leniency.forgives(i, row, action):
                table.values[row, action] = (
                    value + (lower_rate if error < 0 else rate) * error
                )
            if leniency is not None:
                after = table.find(next_keys[i])
                leniency.cool(row, action, leniency.mean(after) if discounts[i] else None)
            errors.append(error)
            values.append(value)
        return errors, values


TABULAR = Algorithm("tabular", TabularPolicy, TabularLearner, stackable=False)
