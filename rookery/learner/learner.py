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
from rookery.algorithms.base import Agent, Learner, Metrics
from rookery.algorithms.torch_setup import standard_state
from rookery.config.run import Config
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

        def build(group: Sequence[Agent]) -> _Group:
            return _Group(group, arena, config, heartbeat.beat)

        self._shared = [(build([agents[s.agent]]), s) for s in process_spec.shared]
        """Agents that other workers train in other rounds, each as a group of one."""
        self._groups = [build(group) for group in hosted if group]

    def begin(self) -> int:
        """Load every agent's newest state; return the last round all have finished."""
        shared = [group.version for group, _ in self._shared]
        return min([*(group.begin() for group in self._groups), *shared], default=0)

    def learn_round(self, number: int) -> None:
        """Learn round `number` from all rows up to its boundary, and publish it.

        Other agents can be one round behind. Then nothing is published yet, but the other
        groups learn in the meantime.
        """
        shared = [group for group, share in self._shared if share.includes(number)]
        due = [group for group in [*shared, *self._groups] if group.version < number]
        # A shared agent comes first, since another worker waits for it; but last if it is
        # still with that worker.
        due.sort(key=lambda group: group.version < number - 1)
        learned: list[_Group] = []
        for group in due:
            self._heartbeat.beat()
            boundary = self.schedule.await_learning(
                number, group.learner.on_policy, group.ids
            )
            with self._heartbeat.spending("work"):
                group.learn(number, boundary)
            learned.append(group)
            if self.schedule.can_publish(number):
                self._publish(learned, number)
        if learned:
            self.schedule.await_publishing(number)
            self._publish(learned, number)

    def _publish(self, learned: list[_Group], number: int) -> None:
        """Publish what some groups have learned, and empty the list."""
        with self._heartbeat.spending("work"):
            while learned:
                learned.pop(0).publish(number)


class _Group:
    """Agents that are trained as one computation."""

    @standard_state()
    def __init__(
        self,
        agents: Sequence[Agent],
        arena: Arena,
        config: Config,
        beat: Callable[[], None],
    ) -> None:
        self._turns, self._is_async = config.turns_per_round, config.schedule == "async"
        self._counters, self._beat = arena.counters, beat
        self.ids = [agent.id for agent in agents]
        self.learner: Learner = agents[0].learner(agents, config.seed)
        self.learner.beat = beat
        self._readers = [
            reader_of(
                agent,
                arena.rows(agent.id),
                self._turns,
                arena.counters.load(first_row(agent.id)),
            )
            for agent in agents
        ]
        self._states = [arena.states(agent.id) for agent in agents]
        self._reports = [arena.reports(agent.id) for agent in agents]
        self._learned: int | None = None
        """The round whose result the learner holds; None before the first."""
        self._metrics: list[Metrics] = []
        self._seconds = 0.0

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
        self._learned = version
        return version

    @standard_state()
    def learn(self, number: int, boundary: int) -> None:
        """Learn a round from the rows up to turn `boundary`.

        If the process ends before `publish`, nothing has changed.
        """
        started = time.perf_counter()
        if self._learned != number - 1:  # another worker has learned in the meantime
            self.begin()
        first = max(0, boundary - self._turns)
        if self._is_async and self._readers[0].boundary:
            first = self._readers[0].boundary
        for reader in self._readers:
            reader.advance(boundary, self._beat)
        self._metrics = self.learner.learn(self._readers, number, first)
        self._learned = number
        self._check_untouched()
        self._seconds = (time.perf_counter() - started) / len(self._states)

    def publish(self, number: int) -> None:
        """Publish the round that was learned last, and what was measured in it."""
        for i, state in enumerate(self.learner.save()):
            if self._states[i].version < number:
                values = {name: float(x) for name, x in self._metrics[i].items()}
                report = {"metrics": values, "seconds": self._seconds}
                self._reports[i].write(number, report)
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
