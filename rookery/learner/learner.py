"""The learner worker: stage 4 of the data path, trains some of a run's agents.

For each round it reads the rows up to a boundary, lets every group make its updates, and
publishes each agent's new state. It knows rows and states, but no game. A worker that is
restarted repeats the round from the newest version: same rows, same random numbers, same
bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from rookery.algorithms.agents import capacity_of, learning_ids
from rookery.algorithms.base import Agent, Learner
from rookery.algorithms.torch_setup import standard_state
from rookery.protocol.arena import COMMIT, Arena, first_row
from rookery.protocol.process_spec import ProcessSpec
from rookery.protocol.schedule import RoundSchedule
from rookery.replay.buffer import ReplayReader
from rookery.replay.rewards import shaped
from rookery.replay.rows import Rows
from rookery.shm.counters import fence
from rookery.shm.heartbeat import Heartbeat


class LearnerWorker:
    """Trains the agents that a process hosts, one round at a time."""

    def __init__(
        self,
        process_spec: ProcessSpec,
        agents: Sequence[Agent],
        arena: Arena,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        """Build a learner for each group, or the part of it, that is hosted here.

        Args:
            process_spec: says which agents are hosted, and which form a group.
            agents: all agents of the run.
            arena: the run's shared memory.
            heartbeat: gets a beat with every update.
        """
        config, heartbeat = process_spec.config, heartbeat or Heartbeat()
        self.schedule = RoundSchedule(
            config, arena.counters, learning_ids(agents), heartbeat
        )
        self._heartbeat = heartbeat
        hosted = [
            [agents[i] for i in group if i in process_spec.hosted and agents[i].learns]
            for group in process_spec.groups
        ]
        self._groups = [
            _Group(group, arena, config.seed, config.turns_per_round, heartbeat.beat)
            for group in hosted
            if group
        ]

    def begin(self) -> int:
        """Load every agent's newest state; return the last round all have finished."""
        return min((group.begin() for group in self._groups), default=0)

    def learn_round(self, number: int) -> None:
        """Learn round `number` from all rows up to its boundary, and publish it."""
        for group in self._groups:
            if group.version < number:
                self._heartbeat.beat()
                boundary = self.schedule.await_learning(number, group.learner.on_policy)
                with self._heartbeat.spending("work"):
                    group.learn(number, boundary)


class _Group:
    """Agents that are trained as one computation."""

    @standard_state()
    def __init__(
        self,
        agents: Sequence[Agent],
        arena: Arena,
        seed: int,
        turns: int,
        beat: Callable[[], None],
    ) -> None:
        self._turns, self._counters, self._beat = turns, arena.counters, beat
        self.learner: Learner = agents[0].learner(agents, seed)
        self.learner.beat = beat
        self._readers = [
            reader_of(
                agent,
                arena.rows(agent.id),
                turns,
                arena.counters.load(first_row(agent.id)),
            )
            for agent in agents
        ]
        self._states = [arena.states(agent.id) for agent in agents]
        self._reports = [arena.reports(agent.id) for agent in agents]

    @property
    def version(self) -> int:
        """The newest version that all agents have published."""
        return min(states.version for states in self._states)

    @standard_state()
    def begin(self) -> int:
        """Load the newest version that all agents have, and return it.

        An agent that had published a later version repeats the rounds in between. In
        async it may have been ahead by more than the one earlier version that is kept:
        then it continues from that one, and learns from some rounds a second time.
        """
        version = self.version
        self.learner.load(
            [states.read(max(version, states.version - 1)) for states in self._states]
        )
        return version

    @standard_state()
    def learn(self, number: int, boundary: int) -> None:
        """Learn a round from the rows up to turn `boundary`, and publish it.

        If the process ends before publishing, nothing has changed.
        """
        started = time.perf_counter()
        first = self._readers[0].boundary or max(0, boundary - self._turns)
        for reader in self._readers:
            reader.advance(boundary, self._beat)
        metrics = self.learner.learn(self._readers, number, first)
        self._check_untouched()
        seconds = (time.perf_counter() - started) / len(self._states)
        for i, state in enumerate(self.learner.save()):
            if self._states[i].version < number:
                values = {name: float(value) for name, value in metrics[i].items()}
                self._reports[i].write(number, {"metrics": values, "seconds": seconds})
                self._states[i].publish(number, state)

    def _check_untouched(self) -> None:
        """Verify, before publishing, that no row was overwritten while it was read."""
        fence()  # all rows are read before the counter is
        commit = self._counters.load(COMMIT)
        for reader in self._readers:
            reader.check_untouched(commit)


def reader_of(
    agent: Agent, rows: Rows, turns_per_round: int, first: int = 0
) -> ReplayReader:
    """Return a reader of an agent's rows, configured by the agent's settings."""
    settings = agent.settings
    return ReplayReader(
        agent.id,
        rows,
        capacity=capacity_of(agent, turns_per_round, rows.columns["age"].shape[1]),
        frames=settings.frames,
        n_step=agent.learner.n_step(settings),
        discount=settings.discount,
        discount_per=settings.discount_per,
        first=first,
        shape_rewards=partial(shaped, settings=settings.reward),
    )
