"""Value-based learners: batches from the replay, updates, priorities.

Subclasses define the loss (`compute_losses`). All random numbers are keyed by agent, round
and pass; those of several passes are drawn in one call. An agent that is warming up, is
stopped, or has made all its updates keeps every bit while the others continue.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from rookery.algorithms.base import Agent, Metrics, Shapes, State
from rookery.algorithms.common.batches import (
    BatchBuffers,
    PassDraws,
    PassKeys,
    StackedBatch,
    pass_keys,
    passes_ahead,
)
from rookery.algorithms.common.schedules import updates_due
from rookery.algorithms.common.stacked import PassResult, RoundLog, StackedLearner
from rookery.algorithms.nets.layers import Features, Parameters
from rookery.algorithms.torch_setup import flushed_denormals
from rookery.replay.buffer import ReplayReader
from rookery.replay.priorities import Priorities
from rookery.specs import Array


class ValueBasedLearner(StackedLearner):
    """Learns from batches of transitions that are sampled from the replay.

    Subclasses define `parameters` and `compute_losses`. They can also override `batches`,
    to learn from something other than transitions, and `draw_ahead`.
    """

    updates_each_agent = False
    """Whether `make_updates` makes all updates; an update then is one pass."""

    def __init__(
        self,
        agents: Sequence[Agent],
        seed: int,
        parameters: Parameters,
        draws: int = 0,
        ends: int = 1,
    ) -> None:
        """Set up the group.

        Args:
            agents: those of the group.
            seed: the run's seed.
            parameters: the layout of an agent's parameters.
            draws: how many random numbers per agent a pass gets for its loss.
            ends: how many rows the target of a transition bootstraps from.
        """
        super().__init__(agents, seed, parameters)
        settings = agents[0].settings
        self.batch_size, self._accumulate = (
            settings.batch_size,
            settings.gradient.accumulate,
        )
        self.is_prioritised = settings.replay.kind == "prioritised"
        self._draws = self.batch_size + draws
        ahead = passes_ahead(agents, self._draws, ends)
        self.updates_ahead = max(1, ahead // self._accumulate)
        """For how many updates random numbers and transitions are drawn at once."""
        features = Features(agents[0].spec, settings.frames)
        self.buffers = BatchBuffers(agents, features, ends)
        self._priorities: list[Priorities | None] = [None] * len(agents)
        """None until the first round after `load`: they need a reader."""
        self._loaded_priorities: list[tuple[Array, float]] = []

    @abstractmethod
    def compute_losses(self, batch: StackedBatch) -> PassResult:
        """Return the losses of a batch; called once per pass, with gradients enabled."""

    def backpropagate(self, batch: StackedBatch) -> PassResult:
        """Write the gradients of a pass, divided by the passes of an update.

        Here by autograd; algorithms with gradients by hand override it.
        """
        result = self.compute_losses(batch)
        self.group.differentiate(result.loss / self._accumulate)
        return result

    def draw_ahead(self, passes: range, keys: PassKeys) -> None:
        """Draw other random numbers that `compute_losses` needs, for several passes."""

    def batches(
        self,
        readers: Sequence[ReplayReader],
        transitions: Sequence[Array | None],
        passes: Sequence[PassDraws],
    ) -> Iterator[StackedBatch]:
        """Yield one batch per pass; its observations are overwritten by the next.

        Args:
            readers: one per agent.
            transitions: sampled for each agent, (passes × batch); None if it makes no
                update.
            passes: the random numbers of each pass.
        """
        factors = [spread.factor for spread in self.group.spreads]
        return self.buffers.draw(readers, transitions, passes, factors)

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
        if self.is_prioritised:
            state |= {"priorities": np.zeros(1), "largest_priority": np.ones(1)}
        return state

    def load(self, states: Sequence[State]) -> None:
        """Take the group's states."""
        super().load(states)
        if self.is_prioritised:
            self._loaded_priorities = [
                (np.array(state["priorities"]), float(state["largest_priority"][0]))
                for state in states
            ]
            self._priorities = [None] * len(states)

    def save(self) -> list[dict[str, Array]]:
        """Return the group's states."""
        states = super().save()
        if self.is_prioritised:
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

    @flushed_denormals()
    def learn(
        self, readers: Sequence[ReplayReader], number: int, first: int
    ) -> list[Metrics]:
        """Make the updates of a round; rows from turn `first` on are new."""
        for i, reader in enumerate(readers):
            self.group.spreads[i].update(reader, first)
            if self.is_prioritised:
                self._priorities_of(i, reader).advance(reader.closed_since(first))
        updates = np.array(
            [
                updates_due(agent.settings, len(reader.usable))
                for agent, reader in zip(self.agents, readers, strict=True)
            ]
        )
        log = RoundLog(len(readers))
        last = int(updates.max(initial=0))
        for start in range(0, last, self.updates_ahead):
            ready = (start < updates) & self.group.running
            if not ready.any():
                break
            ahead = range(start, min(start + self.updates_ahead, last))
            passes = self._draw_passes(number, ahead)
            if self.updates_each_agent:
                self._update_each_agent(readers, passes, updates - start, ready, log)
                continue
            batches = (
                iter(())
                if self.is_prioritised
                else self._sample_uniform(readers, passes, ready)
            )
            for update in ahead:
                self.beat()
                active = (update < updates) & self.group.running
                if active.any():
                    k = (update - start) * self._accumulate
                    mine = slice(k, k + self._accumulate)
                    self._update(readers, passes[mine], batches, active, log)
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
    ) -> Iterator[StackedBatch]:
        """Yield the batches of some passes; every transition is equally likely."""
        numbers = np.stack([draws.batch for draws in passes], axis=1)
        transitions = [
            reader.sample(numbers[i].ravel()) if ready[i] else None
            for i, reader in enumerate(readers)
        ]
        return self.batches(readers, transitions, passes)

    def _update_each_agent(
        self,
        readers: Sequence[ReplayReader],
        passes: Sequence[PassDraws],
        updates: Array,
        ready: Array,
        log: RoundLog,
    ) -> None:
        """Make up to an update per pass, all those of an agent before the next agent's."""
        numbers = np.stack([draws.batch for draws in passes], axis=1)
        for i in np.flatnonzero(ready).tolist():
            self.beat()
            count = min(len(passes), int(updates[i]))
            transitions = readers[i].sample(numbers[i, :count].ravel())
            made = self.make_updates(i, readers[i], transitions, count, log.sums[i])
            log.updates[i] += made

    def make_updates(
        self, i: int, reader: ReplayReader, transitions: Array, updates: int, sums: Array
    ) -> int:
        """Make some updates of one agent; for learners with `updates_each_agent`.

        Args:
            i: the agent's place in the group.
            reader: of its rows.
            transitions: (updates × batch) to learn from.
            updates: how many.
            sums: (averages,) of the round's log, to be added to.

        Returns:
            How many updates were made: fewer if the agent was stopped.
        """
        raise NotImplementedError

    def _sample_prioritised(
        self, readers: Sequence[ReplayReader], draws: PassDraws, active: Array
    ) -> tuple[StackedBatch, dict[int, Array]]:
        """Return the batch of one pass, and the transitions in it by agent."""
        transitions: dict[int, Array] = {}
        importance = np.ones((len(readers), self.batch_size), np.float32)
        for i in np.flatnonzero(active).tolist():
            priorities = self._priorities_of(i, readers[i])
            transitions[i], importance[i] = priorities.sample(draws.batch[i])
        sampled = [transitions.get(i) for i in range(len(readers))]
        (batch,) = self.batches(readers, sampled, [draws])
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
        batches: Iterator[StackedBatch],
        active: Array,
        log: RoundLog,
    ) -> None:
        """Make one update, with the mean gradient of `gradient.accumulate` passes."""
        for k, draws in enumerate(passes):
            if self.is_prioritised:
                batch, transitions = self._sample_prioritised(readers, draws, active)
            else:
                batch, transitions = next(batches), {}
            result = self.backpropagate(batch)
            for i, sampled in transitions.items():
                # What was not learned from keeps its priority.
                learned = (
                    slice(None) if result.learned is None else result.learned[i].numpy()
                )
                errors = result.errors[i].numpy()[learned]
                self._priorities_of(i, readers[i]).update(sampled[learned], errors)
            self.group.accumulate(k, len(passes))
        norms = self.group.apply(result.loss.detach().numpy(), active)
        log.add(result, norms, active & self.group.running)
