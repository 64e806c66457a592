"""A run in several processes: one that plays, and workers that learn.

Who hosts whom is decided here, by what each agent's updates cost. The result does not
depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rookery.actor.process import play
from rookery.algorithms.base import Agent
from rookery.learner.process import learn
from rookery.protocol.arena import ACTOR, HANDED, SNAPSHOT, Arena, worker_name
from rookery.protocol.process_spec import ProcessSpec
from rookery.protocol.schedule import RoundSchedule
from rookery.shm.counters import version_of
from rookery.stop import StopFlag
from rookery.supervisor.launcher import Child, start
from rookery.supervisor.supervisor import Limits, Supervisor, Tell

LOOK_SECONDS = 0.05
"""How long main waits for anything before it looks after the processes."""


class ProcessPool:
    """The processes of a run."""

    def __init__(
        self,
        process_spec: ProcessSpec,
        agents: Sequence[Agent],
        arena: Arena,
        schedule: RoundSchedule,
        workers: int,
        tell: Tell,
        stop: StopFlag | None = None,
    ) -> None:
        self._arena, self._schedule = arena, schedule
        self._stop = stop or StopFlag()
        self._process_spec = replace(
            process_spec, generation=arena.counters.load(HANDED) + 1
        )
        hosted = share_out(agents, workers)
        self.hosted = {worker_name(i): numbers for i, numbers in enumerate(hosted)}
        self._agents = agents
        self._is_handed_over = False
        progress = {ACTOR: SNAPSHOT} | {
            role: version_of(agents[numbers[0]].id) for role, numbers in self.hosted.items()
        }
        restarts = process_spec.config.restarts
        limits = Limits(restarts.limit, restarts.silence)
        about = {role: self._in_words(role) for role in self.hosted}

        def tell_with_agents(event: str, role: str, **more: Any) -> str | None:
            agents = {"agents": self._hosted_ids(role)} if role in self.hosted else {}
            return tell(event, role, **agents, **more)

        self.supervisor = Supervisor(
            self._launch, arena.counters, progress, limits, tell_with_agents, about
        )

    def _hosted_ids(self, role: str) -> list[str]:
        """Return the ids of the agents that a worker hosts."""
        return [self._agents[i].id for i in self.hosted.get(role, ())]

    def _in_words(self, role: str) -> str:
        agents = self._hosted_ids(role)
        return f"{role} (agent{'s' if len(agents) > 1 else ''} {', '.join(agents)})"

    def start(self) -> None:
        """Start everybody; they load what they need, and wait to be let begin."""
        self.supervisor.start([ACTOR, *self.hosted])

    @property
    def is_ready(self) -> bool:
        """Whether everybody waits to begin.

        Raises:
            CannotStart: if somebody died too often meanwhile.
        """
        self.supervisor.watch()
        return self.supervisor.is_ready

    def advance(self, number: int) -> None:
        """See that round `number` is played and learned."""
        if not self._is_handed_over:
            self._hand_over()
        while not self._schedule.wait_complete(number, LOOK_SECONDS):
            self._stop.check()
            self.supervisor.watch()
            self.supervisor.report_stalls()

    def settle(self) -> None:
        """Wait until all have done what they may, so that all are at one boundary."""
        self.advance(self._schedule.last_allowed)

    def _hand_over(self) -> None:
        """Wait until everybody is ready, and let them begin."""
        while not self.is_ready:
            self._stop.check()
            time.sleep(LOOK_SECONDS)
        self.supervisor.mark_begun()
        self._arena.counters.store(HANDED, self._process_spec.generation)
        self._is_handed_over = True

    def finish(self) -> None:
        """Wait until the actor has played the last matches and left."""
        while not self.supervisor.has_ended(ACTOR):
            self._stop.check()
            self.supervisor.watch()
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """End everybody."""
        self.supervisor.close()

    def _launch(self, role: str) -> Child:
        process_spec = replace(
            self._process_spec, role=role, hosted=self.hosted.get(role, ())
        )
        memory = self._arena.describe(None if role == ACTOR else self._hosted_ids(role))
        entry_point = play if role == ACTOR else learn
        return start(role, entry_point, process_spec.to_json(), memory)


def share_out(agents: Sequence[Agent], workers: int) -> list[list[int]]:
    """Return the agents of each worker, so that all have about as much to do."""
    learning = [agent for agent in agents if agent.learns]
    loads = [0.0] * min(workers, len(learning))
    hosted: list[list[int]] = [[] for _ in loads]
    for agent in sorted(learning, key=cost_of, reverse=True):
        least = loads.index(min(loads))
        loads[least] += cost_of(agent)
        hosted[least].append(agent.number)
    return [sorted(numbers) for numbers in hosted]


def cost_of(agent: Agent) -> float:
    """Return about how much work an agent's updates of a round are."""
    agent, settings = agent, agent.settings
    learner = agent.learner
    (size,), _ = learner.shapes(agent, 1, 1)["weights"]
    return float(size * settings.batch_size * max(1, learner.updates(settings)))
