"""Executors: run training in this process or in several.

Both kinds read and write everything in shared memory. So training can move from one to
the other at any boundary, and the bits are the same.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Protocol

from rookery.actor.parts import RunParts
from rookery.actor.process import ActorProcess, play
from rookery.learner.learner import LearnerWorker
from rookery.learner.process import learn
from rookery.protocol.arena import HANDED, actor_name, worker_name
from rookery.protocol.shares import shares_of, snapshot_counter
from rookery.shm.counters import version_of
from rookery.shm.heartbeat import Heartbeat
from rookery.supervisor.launcher import Child, start
from rookery.supervisor.supervisor import Limits, Supervisor
from rookery.training.assignment import assign_agents
from rookery.training.autoscale import cores
from rookery.training.round_model import Processes

POLL_SECONDS = 0.05
"""How long main waits for a round before it looks after the processes again."""


class Executor(Protocol):
    """Plays and learns rounds."""

    def advance(self, number: int) -> None:
        """Return when round `number` is played and learned."""

    def finish(self) -> None:
        """Return when the evaluations of the last boundary are done."""

    def close(self) -> None:
        """End all processes and close the game."""


class InProcess:
    """Plays and learns each round in this process, one after the other.

    With several actors their shares are played in turn, which is the reference for playing
    them in parallel.
    """

    def __init__(self, parts: RunParts, actors: int | None = None) -> None:
        """Take over a run; `actors` is the number of shares, by default as set."""
        heartbeat = Heartbeat(stop=parts.stop)
        if actors is not None:
            parts = replace(parts, process_spec=replace(parts.process_spec, actors=actors))
        self.actors = parts.process_spec.actors
        self.actor_processes = [
            ActorProcess(parts, heartbeat, share) for share in range(self.actors)
        ]
        hosts_all = replace(parts.process_spec, hosted=range(len(parts.agents)))
        self.worker = LearnerWorker(hosts_all, parts.agents, parts.arena, heartbeat)
        parts.arena.begin_shares()
        self._played = min(actor.begin() for actor in self.actor_processes)
        """The last round that was played before this executor took over."""
        self.actor_processes[0].complete(self._played)
        self.worker.begin()
        self._is_closed = False

    def advance(self, number: int) -> None:
        """Play and learn a round, or the rest of it."""
        if number > self._played:
            for actor in self.actor_processes:
                actor.play_round(number)
            self.actor_processes[0].complete(number)
        self.worker.learn_round(number)

    def finish(self) -> None:
        """Run the evaluations of the last boundary."""
        self.actor_processes[0].finish()

    def close(self) -> None:
        """Close the game, and let go of all shared memory."""
        if self._is_closed:
            return
        self._is_closed = True
        for actor in self.actor_processes:
            actor.close()
        del self.actor_processes, self.worker  # the run's arrays are freed with them


class ProcessPool:
    """Some actors that share out the worlds, and workers that host agents' learners."""

    def __init__(self, parts: RunParts, processes: Processes) -> None:
        """Plan the processes; `start` starts them.

        Args:
            parts: of the run.
            processes: how many actors and workers to have.
        """
        self._parts, self.processes = parts, processes
        generation = parts.arena.counters.load(HANDED) + 1
        actors, workers = processes.actors, processes.workers
        config = parts.process_spec.config
        self._process_spec = replace(
            parts.process_spec, generation=generation, actors=actors
        )
        shares = shares_of(config.worlds, actors)
        self.shares = {actor_name(share): share.number for share in shares}
        """The share that each actor plays, by role."""
        self._assignment = assign_agents(
            parts.agents, workers, config.schedule, spare_core=actors + workers <= cores()
        )
        self._workers = {worker_name(i): i for i in range(len(self._assignment.hosted))}
        self.hosted = {
            role: self._assignment.agents_of(i) for role, i in self._workers.items()
        }
        """The numbers of the agents that each worker trains, by role; some are shared."""
        self._has_begun = False
        progress = {role: snapshot_counter(share) for role, share in self.shares.items()}
        progress |= {role: version_of(self._own_id(role)) for role in self.hosted}
        restarts = parts.process_spec.config.restarts
        self.supervisor = Supervisor(
            self._launch,
            parts.arena.counters,
            progress,
            Limits(restarts.limit, restarts.silence),
            self._tell,
            {role: self._description(role) for role in self.hosted},
        )

    def _hosted_ids(self, role: str) -> list[str]:
        """Return the ids of the agents that a worker hosts."""
        return [self._parts.agents[i].id for i in self.hosted.get(role, ())]

    def _own_id(self, role: str) -> str:
        """Return the id of an agent that a worker trains alone: its version is progress."""
        return self._parts.agents[self._assignment.hosted[self._workers[role]][0]].id

    def _description(self, role: str) -> str:
        ids = self._hosted_ids(role)
        return f"{role} (agent{'s' if len(ids) > 1 else ''} {', '.join(ids)})"

    def _tell(self, event: str, role: str, **details: Any) -> str | None:
        """Report an event, with the agents it concerns."""
        agents = {"agents": self._hosted_ids(role)} if role in self.hosted else {}
        return self._parts.tell(event, role, **agents, **details)

    def _launch(self, role: str) -> Child:
        process_spec = replace(self._process_spec, role=role)
        if role in self.shares:
            process_spec = replace(process_spec, share=self.shares[role])
            memory = self._parts.arena.describe()
            return start(role, play, process_spec.to_json(), memory)
        worker = self._workers[role]
        process_spec = replace(
            process_spec,
            hosted=self._assignment.hosted[worker],
            shared=self._assignment.shared[worker],
        )
        memory = self._parts.arena.describe(self._hosted_ids(role))
        return start(role, learn, process_spec.to_json(), memory)

    def start(self) -> None:
        """Start all processes; they load what they need and wait for their first round.

        Raises:
            CannotStart: if the system refuses to start one.
        """
        self.supervisor.start([*self.shares, *self.hosted])

    @property
    def is_ready(self) -> bool:
        """Whether all processes are waiting for their first round.

        Raises:
            CannotStart: if one has died too often.
        """
        self.supervisor.watch()
        return self.supervisor.is_ready

    def advance(self, number: int) -> None:
        """Wait until round `number` is played and learned; restart what dies."""
        if not self._has_begun:
            self._begin()
        while not self._parts.schedule.wait_complete(number, POLL_SECONDS):
            self._parts.stop.check()
            self.supervisor.watch()
            self.supervisor.report_stalls()

    def settle(self) -> None:
        """Advance to the last round allowed, so that all processes are at one boundary."""
        self.advance(self._parts.schedule.last_allowed)

    def _begin(self) -> None:
        """Wait until all processes are ready, and hand the run over to them."""
        while not self.is_ready:
            self._parts.stop.check()
            time.sleep(POLL_SECONDS)
        self.supervisor.mark_begun()
        self._parts.arena.begin_shares()
        self._parts.arena.counters.store(HANDED, self._process_spec.generation)
        self._has_begun = True

    def finish(self) -> None:
        """Wait until actor 0 has run the last evaluations, and all processes ended."""
        while not self.supervisor.have_ended:
            self._parts.stop.check()
            self.supervisor.watch()
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """End all processes."""
        self.supervisor.close()
