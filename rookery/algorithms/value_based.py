"""Value-based learners: batches from the replay, updates, priorities.

Subclasses define the loss (`compute_losses`). All random numbers are keyed by agent, round
and pass; those of several passes are drawn in one call. An agent that is warming up, is
stopped, or has made all its updates keeps every bit while the others continue.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.base import Agent, Metrics, Shapes, State
from rookery.algorithms.common.batches import (
    PassDraws,
    PassKeys,
    StackedBatch,
    pass_keys,
    passes_ahead,
    stack_batches,
)
from rookery.algorithms.common.schedules import updates_due
from rookery.algorithms.common.stacked import PassResult, RoundLog, StackedLearner
from rookery.algorithms.nets.layers import Parameters
from rookery.replay.buffer import Batch, ReplayReader
from rookery.replay.priorities import Priorities
from rookery.specs import Array


class ValueBasedLearner(StackedLearner):
    """Learns from batches of transitions that are sampled from the replay.

    Subclasses define `parameters` and `compute_losses`. They can also override `read` and
    `stack`, to learn from something other than single transitions, and `draw_ahead`.
    """

    def __init__(
        self, agents: Sequence[Agent], seed: int, parameters: Parameters, draws: int
    ) -> None:
        """Set up the group; a pass gets `draws` random numbers per agent for its loss."""
        super().__init__(agents, seed, parameters)
        settings = agents[0].settings
        self.batch_size, self._accumulate = (
            settings.batch_size,
            settings.gradient.accumulate,
        )
        self._prioritised = settings.replay.kind == "prioritised"
        self._draws = self.batch_size + draws
        self._updates_ahead = max(1, passes_ahead(agents, self._draws) // self._accumulate)
        self._priorities: list[Priorities | None] = [None] * len(agents)
        """None until the first round after `load`: they need a reader."""
        self._loaded_priorities: list[tuple[Array, float]] = []

    @abstractmethod
    def compute_losses(self, batch: StackedBatch) -> PassResult:
        """Return the losses of a batch; called once per pass, with gradients enabled."""

    def draw_ahead(self, passes: range, keys: PassKeys) -> None:
        """Draw other random numbers that `compute_losses` needs, for several passes."""

    def read(self, i: int, reader: ReplayReader, transitions: Array) -> Batch:
        """Return what agent `i` of the group learns from, for sampled transitions."""
        return reader.batch(transitions)

    def stack(
        self, batches: Sequence[Batch | None], passes: Sequence[PassDraws]
    ) -> list[StackedBatch]:
        """Return one stacked batch per pass, from what `read` returned for all of them."""
        factors = [spread.factor for spread in self.group.spreads]
        return stack_batches(batches, passes, self.agents[0], factors)

    # The state.

    @classmethod
    def shapes(cls, agent: Agent, slots: int, worlds: int) -> Shapes:
        """Return the arrays of the group and, with prioritised replay, priorities."""
        shapes = super().shapes(agent, slots, worlds)
        if agent.settings.replay.kind == "prioritised":
            shapes["priorities"] = ((slots * worlds,), np.float64)
            shapes["largest_priority"] = ((1,), np.float64)
        return shapes

    def initial(self, agent: Agent) -> dict[str, Array]:
        """Return an agent's initial state, without priorities of any transition."""
        state = super().initial(agent)
        if self._prioritised:
            state |= {"priorities": np.zeros(1), "largest_priority": np.ones(1)}
        return state

    def load(self, states: Sequence[State]) -> None:
        """Take the group's states."""
        super().load(states)
        if self._prioritised:
            self._loaded_priorities = [
                (np.array(state["priorities"]), float(state["largest_priority"][0]))
                for state in states
            ]
            self._priorities = [None] * len(states)

    def save(self) -> list[dict[str, Array]]:
        """Return the group's states."""
        states = super().save()
        if self._prioritised:
            for i, state in enumerate(states):
                priorities = self._priorities[i]
                leaves, largest = (
                    self._loaded_priorities[i]
                    if priorities is None
                    else (priorities.leaves, priorities.largest)
                )
                state["priorities"] = leaves
                state["largest_priority"] = np.array([largest])
        return states

    # A round.

    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round; rows from turn `first` on are new."""
        for i, reader in enumerate(readers):
            self.group.spreads[i].update(reader, first)
            if self._prioritised:
                self._priorities_of(i, reader).advance(reader.closed_since(first))
        updates = np.array(
            [
                updates_due(agent.settings, len(reader.usable))
                for agent, reader in zip(self.agents, readers, strict=True)
            ]
        )
        log = RoundLog(len(readers))
        last = int(updates.max(initial=0))
        for start in range(0, last, self._updates_ahead):
            ready = (start < updates) & self.group.running
            if not ready.any():
                break
            ahead = range(start, min(start + self._updates_ahead, last))
            passes = self._draw_passes(number, ahead)
            batches = (
                [] if self._prioritised else self._sample_uniform(readers, passes, ready)
            )
            for update in ahead:
                self.beat()
                active = (update < updates) & self.group.running
                if active.any():
                    k = (update - start) * self._accumulate
                    mine = slice(k, k + self._accumulate)
                    self._update(readers, passes[mine], batches[mine], active, log)
        self.group.check_padding()
        return log.metrics(readers, self.group)

    def _draw_passes(self, number: int, updates: range) -> list[PassDraws]:
        """Return the random numbers of all passes of some updates."""
        passes = range(updates.start * self._accumulate, updates.stop * self._accumulate)
        keys = pass_keys(self.agent_numbers, number, passes)
        self.draw_ahead(passes, keys)
        draws = self.stream.uniform(keys, 0, self._draws)
        draws = draws.reshape(len(passes), len(self.agents), self._draws)
        size = self.batch_size
        return [
            PassDraws((self.agent_numbers, number, k), numbers[:, :size], numbers[:, size:])
            for k, numbers in zip(passes, draws, strict=True)
        ]

    def _sample_uniform(
        self, readers: Sequence[ReplayReader], passes: Sequence[PassDraws], ready: Array
    ) -> list[StackedBatch]:
        """Return the batches of some passes; every transition is equally likely."""
        batches: list[Batch | None] = [None] * len(readers)
        for i in np.flatnonzero(ready).tolist():
            numbers = np.concatenate([draws.batch[i] for draws in passes])
            batches[i] = self.read(i, readers[i], readers[i].sample(numbers))
        return self.stack(batches, passes)

    def _sample_prioritised(
        self, readers: Sequence[ReplayReader], draws: PassDraws, active: Array
    ) -> tuple[StackedBatch, dict[int, Array]]:
        """Return the batch of one pass, and the transitions in it by agent."""
        batches: list[Batch | None] = [None] * len(readers)
        transitions: dict[int, Array] = {}
        importance = np.ones((len(readers), self.batch_size), np.float32)
        for i in np.flatnonzero(active).tolist():
            priorities = self._priorities_of(i, readers[i])
            transitions[i], importance[i] = priorities.sample(draws.batch[i])
            batches[i] = self.read(i, readers[i], transitions[i])
        (batch,) = self.stack(batches, [draws])
        batch.importance = torch.from_numpy(importance)
        return batch, transitions

    def _priorities_of(self, i: int, reader: ReplayReader) -> Priorities:
        priorities = self._priorities[i]
        if priorities is None:
            priorities = Priorities(self.agents[i].settings.replay, reader)
            priorities.load(*self._loaded_priorities[i])
            self._priorities[i] = priorities
        return priorities

    def _update(
        self,
        readers: Sequence[ReplayReader],
        passes: Sequence[PassDraws],
        batches: Sequence[StackedBatch],
        active: Array,
        log: RoundLog,
    ) -> None:
        """Make one update, with the mean gradient of `gradient.accumulate` passes."""
        total: list[Tensor] = []
        for k, draws in enumerate(passes):
            if self._prioritised:
                batch, transitions = self._sample_prioritised(readers, draws, active)
            else:
                batch, transitions = batches[k], {}
            result = self.compute_losses(batch)
            for i, sampled in transitions.items():
                # What was not learned from keeps its priority.
                learned = (
                    slice(None) if result.learned is None else result.learned[i].numpy()
                )
                errors = result.errors[i].numpy()[learned]
                self._priorities_of(i, readers[i]).update(sampled[learned], errors)
            gradients = self.group.gradients(result.loss / self._accumulate)
            if total:
                for mean, gradient in zip(total, gradients, strict=True):
                    mean.add_(gradient)
            else:
                total = gradients
        norms = self.group.apply(total, result.loss, active)
        log.add(result, norms, active & self.group.running)
