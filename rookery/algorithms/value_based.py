"""Value learners: the rule that draws batches, steps, and keeps priorities.

What a batch is compared with is the subclass's business (`losses`). All numbers are keyed
by agent, round and pass; those of several passes are drawn in one call. An agent that is
not ready, is stopped, or has made all its updates keeps every bit while the others go on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Learner, Metrics, Shapes, State
from rookery.algorithms.common.batches import (
    Columns,
    Given,
    Place,
    Places,
    Supply,
    lay_out,
    passes_at_once,
    places_of,
)
from rookery.algorithms.common.group import STOPPED, Group
from rookery.algorithms.nets.layers import Parameters
from rookery.replay.buffer import Batch, ReplayReader
from rookery.replay.priorities import Priorities
from rookery.rng import Purpose, Stream
from rookery.specs import Array


@dataclass
class Losses:
    """What a pass over a batch found."""

    loss: Tensor
    """(agents,), with importance weights applied."""
    errors: Tensor
    """(agents, batch): how wrong each step was."""
    values: Tensor
    """(agents, batch): what was expected of each."""
    learned: Tensor | None = None
    """(agents, batch) bool: which were learned from; None: all."""


class ValueBasedLearner(Learner):
    """Learns from batches of steps that are drawn from all that is remembered."""

    def __init__(
        self, agents: Sequence[Agent], seed: int, parameters: Parameters, draws: int
    ) -> None:
        super().__init__(agents, seed)
        self.group = Group(agents, parameters)
        settings = agents[0].settings
        self.batch_size, self._repeats = settings.batch_size, settings.gradient.accumulate
        self._prioritised = settings.replay.kind == "prioritised"
        self._count = self.batch_size + draws
        self._at_once = max(1, passes_at_once(agents, self._count) // self._repeats)
        self._stream = Stream(seed, Purpose.LEARNER)
        self._agents = np.array([agent.number for agent in agents])
        self._even = torch.ones(len(agents), self.batch_size)
        self._priorities: list[Priorities | None] = [None] * len(agents)
        self._leaves: list[tuple[Array, float]] = []

    @staticmethod
    @abstractmethod
    def parameters(agent: Agent) -> Parameters:
        """Return where an agent's parameters lie."""

    @classmethod
    def flat_weights(cls, agent: Agent, named: Mapping[str, Array]) -> Array:
        """Return the weights a policy takes."""
        return cls.parameters(agent).flat(named)

    @classmethod
    def named_weights(cls, agent: Agent, flat: Array) -> dict[str, Array]:
        """Return weights by name, without padding."""
        return cls.parameters(agent).real(flat)

    @abstractmethod
    def losses(
        self,
        batches: Sequence[Batch | None],
        columns: Columns,
        importance: Tensor,
        draws: Array,
        place: Place,
    ) -> Losses:
        """Compare what the network says of batches with what followed."""

    def draw_ahead(self, passes: range, places: Places) -> None:
        """Draw what `losses` needs beside its `draws` for some passes."""

    # The state.

    @classmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return weights, target, moments, counters, and what draws and rewards need."""
        found = Group.shapes(cls.parameters(agent).size)
        if agent.settings.replay.kind == "prioritised":
            found["priorities"] = ((slots * worlds,), np.float64)
            found["largest_priority"] = ((1,), np.float64)
        return found

    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an agent's first state; priorities start at nothing."""
        stream = Stream(self.seed, Purpose.INITIAL)
        state = Group.initial(self.group.parameters.initial(stream, agent.number))
        if self._prioritised:
            state |= {"priorities": np.zeros(1), "largest_priority": np.ones(1)}
        return state

    def load(self, states: Sequence[State]) -> None:
        """Take the group's states."""
        self.group.load(states)
        if self._prioritised:
            self._leaves = [
                (np.array(state["priorities"]), float(state["largest_priority"][0]))
                for state in states
            ]
            self._priorities = [None] * len(states)

    def named(self, state: State) -> dict[str, Array]:
        """Return a state's arrays without padding."""
        return self.group.named(state)

    def unnamed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state from what `named` gave."""
        return self.group.unnamed(arrays)

    def save(self) -> list[dict[str, Array]]:
        """Return the group's states."""
        states = self.group.save()
        for i, state in enumerate(states):
            kept = self._priorities[i]
            if kept is not None:
                state["priorities"] = kept.leaves
                state["largest_priority"] = np.array([kept.largest])
            elif self._prioritised:
                state["priorities"] = self._leaves[i][0]
                state["largest_priority"] = np.array([self._leaves[i][1]])
        return states

    # A round.

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round; rows from turn `first` on are new."""
        for i, reader in enumerate(readers):
            self.group.spreads[i].update(reader, first)
            if self._prioritised:
                self._take_in_priorities(i, reader, first)
        updates = np.array([self._updates(i, reader) for i, reader in enumerate(readers)])
        log = RoundLog(len(readers))
        last = int(updates.max(initial=0))
        for start in range(0, last, self._at_once):
            some = range(start, min(start + self._at_once, last))
            if not ((start < updates) & self.group.going).any():
                break
            supply = self._supply(readers, number, some, start < updates)
            for update in some:
                self.beat()
                active = (update < updates) & self.group.going
                if active.any():
                    self._update(readers, supply, (number, update), active, log)
        self.group.check_padding()
        return log.metrics(readers, self.group.counters[:, STOPPED] > 0)

    def _supply(
        self, readers: Sequence[ReplayReader], number: int, updates: range, ready: Array
    ) -> Supply:
        """Return the numbers of some updates and, if they are drawn evenly, the steps."""
        passes = range(updates.start * self._repeats, updates.stop * self._repeats)
        places = places_of(self._agents, number, passes)
        self.draw_ahead(passes, places)
        draws = self._stream.uniform(places, 0, self._count)
        draws = draws.reshape(len(passes), len(readers), self._count)
        given: list[Given] = []
        if not self._prioritised:
            batches: list[Batch | None] = [None] * len(readers)
            for i in np.flatnonzero(ready & self.group.going).tolist():
                numbers = draws[:, i, : self.batch_size].ravel()
                batches[i] = self.read(i, readers[i], readers[i].sample(numbers))
            given = self.lay_out(batches, len(passes))
        return Supply(passes.start, draws, given)

    def read(self, i: int, reader: ReplayReader, steps: Array) -> Batch:
        """Return drawn steps of one agent with all that `losses` needs."""
        return reader.batch(steps)

    def lay_out(self, batches: Sequence[Batch | None], passes: int) -> list[Given]:
        """Return what passes are given, from the steps of all of them."""
        factors = [spread.factor for spread in self.group.spreads]
        return lay_out(batches, passes, self.agents[0], factors)

    def _take_in_priorities(self, i: int, reader: ReplayReader, first: int) -> None:
        kept = self._priorities[i]
        if kept is None:
            kept = self._priorities[i] = Priorities(self.agents[i].settings.replay, reader)
            kept.load(*self._leaves[i])
        kept.advance(reader.closed_since(first))

    def _updates(self, i: int, reader: ReplayReader) -> int:
        """Return how many updates an agent makes: none before it has seen enough."""
        settings = self.agents[i].settings
        enough = max(settings.replay.warmup, settings.batch_size)
        return settings.updates_per_round if len(reader.usable) >= enough else 0

    def _update(
        self,
        readers: Sequence[ReplayReader],
        supply: Supply,
        moment: tuple[int, int],
        active: Array,
        log: RoundLog,
    ) -> None:
        """Make one update; `moment` is the round, and which update of it."""
        total: list[Tensor] = []
        number, update = moment
        for repeat in range(self._repeats):
            place = (self._agents, number, update * self._repeats + repeat)
            found = self._pass(readers, supply, place, active)
            gradients = self.group.gradients(found.loss / self._repeats)
            total = (
                [a.add_(b) for a, b in zip(total, gradients, strict=True)]
                if total
                else gradients
            )
        norms = self.group.apply(total, found.loss, active)
        log.add(found, norms, active & self.group.going)

    def _pass(
        self, readers: Sequence[ReplayReader], supply: Supply, place: Place, active: Array
    ) -> Losses:
        one = place[2] - supply.first
        draws = supply.draws[one]
        rest = draws[:, self.batch_size :]
        if not self._prioritised:
            given = supply.given[one]
            return self.losses(given.batches, given.columns, self._even, rest, place)
        batches: list[Batch | None] = [None] * len(readers)
        chosen: dict[int, Array] = {}
        importance = np.ones((len(readers), self.batch_size), np.float32)
        for i in np.flatnonzero(active).tolist():
            kept = self._kept(i)
            chosen[i], importance[i] = kept.sample(draws[i, : self.batch_size])
            batches[i] = self.read(i, readers[i], chosen[i])
        (given,) = self.lay_out(batches, 1)
        weights = torch.from_numpy(importance)
        found = self.losses(batches, given.columns, weights, rest, place)
        for i, steps in chosen.items():
            # What was not learned from is as surprising as before.
            some = slice(None) if found.learned is None else found.learned[i].numpy()
            self._kept(i).update(steps[some], found.errors[i].numpy()[some])
        return found

    def _kept(self, i: int) -> Priorities:
        kept = self._priorities[i]
        assert kept is not None
        return kept


class RoundLog:
    """Adds up what the updates of a round found."""

    def __init__(self, agents: int) -> None:
        names = ("loss", "td_error", "q_value", "gradient_norm")
        self._sums = {name: np.zeros(agents) for name in names}
        self._updates = np.zeros(agents, np.int64)

    def add(self, found: Losses, norms: Array, active: Array) -> None:
        """Take in one update."""
        figures = {
            "loss": found.loss.detach().numpy(),
            "td_error": found.errors.mean(dim=1).numpy(),
            "q_value": found.values.mean(dim=1).numpy(),
            "gradient_norm": norms,
        }
        for name, values in figures.items():
            self._sums[name] += np.where(active, values, 0.0)
        self._updates += active

    def metrics(self, readers: Sequence[ReplayReader], stopped: Array) -> list[Metrics]:
        """Return each agent's means; without an update there is nothing to tell."""
        found: list[Metrics] = []
        for i, updates in enumerate(self._updates.tolist()):
            one: Metrics = {"updates": updates, "usable_steps": len(readers[i].usable)}
            if updates:
                one |= {name: float(sums[i] / updates) for name, sums in self._sums.items()}
            if stopped[i]:
                one["stopped"] = 1.0
            found.append(one)
        return found
