"""The learner: stage 4 of the data path, what trains some agents of a company.

For each round it takes in the rows up to a boundary, lets every group make its updates, and
publishes the new state of every agent. It knows rows and states, and no game. One that
starts anew redoes the round from the newest version: the same rows, the same numbers, the
same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from rookery.algorithms.agents import capacity_of
from rookery.algorithms.base import Agent, Learner, Metrics, State
from rookery.algorithms.torch_setup import standard_state
from rookery.protocol.arena import COMMIT, Arena, first_row
from rookery.protocol.schedule import RoundSchedule
from rookery.replay.buffer import ReplayReader
from rookery.replay.rewards import shaped
from rookery.replay.rows import Rows
from rookery.shm.counters import fence
from rookery.shm.heartbeat import Heartbeat


class LearnerWorker:
    """Trains groups of agents, one round at a time."""

    def __init__(
        self,
        groups: Sequence[Sequence[Agent]],
        arena: Arena,
        schedule: RoundSchedule,
        seed: int,
        turns_per_round: int,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._schedule, self._heartbeat = schedule, heartbeat or Heartbeat()
        self._groups = [_Group(agents, arena, seed, turns_per_round) for agents in groups]
        for group in self._groups:
            group.learner.beat = group.beat = self._heartbeat.beat

    def begin(self) -> int:
        """Take every agent's newest state; return the round that all have finished."""
        return min((group.begin() for group in self._groups), default=0)

    def learn_round(self, number: int) -> None:
        """Learn round `number` from all rows up to its boundary, and publish it."""
        for group in self._groups:
            if group.version < number:
                self._heartbeat.beat()
                boundary = self._schedule.await_learning(number, group.on_policy)
                with self._heartbeat.spending("work"):
                    group.learn(number, boundary)


class _Group:
    """Agents that are trained as one computation."""

    @standard_state()
    def __init__(
        self, agents: Sequence[Agent], arena: Arena, seed: int, turns: int
    ) -> None:
        self._agents, self._turns = agents, turns
        self._counters = arena.counters
        self.beat: Callable[[], None] = lambda: None
        self.learner: Learner = agents[0].learner(agents, seed)
        self.on_policy = self.learner.on_policy
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
        """Load the newest version that all agents have; whoever was further goes again.

        In async an agent may have been further by more than the one version that is kept:
        it goes on from that, and learns once more from rounds that it has learned from.
        """
        version = self.version
        kept = [max(version, states.version - 1) for states in self._states]
        both = zip(self._states, kept, strict=True)
        self.learner.load([states.read(number) for states, number in both])
        return version

    @standard_state()
    def learn(self, number: int, boundary: int) -> None:
        """Learn a round and publish it; stopped on the way, it has published nothing."""
        started = time.perf_counter()
        first = self._readers[0].boundary or max(0, boundary - self._turns)
        for reader in self._readers:
            reader.advance(boundary, self.beat)
        found = self.learner.learn(self._readers, number, first)
        self._check_untouched()
        seconds = (time.perf_counter() - started) / len(self._agents)
        for i, state in enumerate(self.learner.save()):
            if self._states[i].version < number:
                self._publish(i, number, state, found[i], seconds)

    def _publish(
        self, i: int, number: int, state: State, metrics: Metrics, seconds: float
    ) -> None:
        figures = {name: float(value) for name, value in metrics.items()}
        self._reports[i].write(number, {"metrics": figures, "seconds": seconds})
        self._states[i].publish(number, state)

    def _check_untouched(self) -> None:
        """See that no row was overtaken while it was learned from, before publishing."""
        fence()  # everything is read before the word is
        commit = self._counters.load(COMMIT)
        for reader in self._readers:
            reader.check_untouched(commit)


def reader_of(
    agent: Agent, rows: Rows, turns_per_round: int, first: int = 0
) -> ReplayReader:
    """Return the reader of an agent's rows, as its settings say."""
    settings = agent.settings
    learner = agent.learner
    return ReplayReader(
        agent.id,
        rows,
        capacity=capacity_of(agent, turns_per_round, rows.columns["age"].shape[1]),
        frames=settings.frames,
        n_step=learner.n_step(settings),
        discount=settings.discount,
        discount_per=settings.discount_per,
        first=first,
        shape_rewards=partial(shaped, settings=settings.reward),
    )
