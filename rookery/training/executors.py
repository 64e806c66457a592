"""Executors: run training in this process or in several.

Both kinds read and write everything in shared memory. So training can move from one to
the other at any boundary, and the bits are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rookery.actor.parts import RunParts
from rookery.actor.process import ActorProcess, play
from rookery.errors import RookeryError
from rookery.learner.learner import LearnerWorker
from rookery.learner.process import learn
from rookery.protocol.arena import ACTOR, HANDED, SNAPSHOT, worker_name
from rookery.shm.counters import version_of
from rookery.shm.heartbeat import Heartbeat
from rookery.supervisor.launcher import Child, start
from rookery.supervisor.supervisor import CannotStart, Limits, Supervisor
from rookery.training.assignment import assign_agents
from rookery.training.autoscale import Autoscaler, processes_text

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
    """Plays and learns each round in this process, one after the other."""

    def __init__(self, parts: RunParts) -> None:
        heartbeat = Heartbeat(stop=parts.stop)
        self.actor_process = ActorProcess(parts, heartbeat)
        hosts_all = replace(parts.process_spec, hosted=range(len(parts.agents)))
        self.worker = LearnerWorker(hosts_all, parts.agents, parts.arena, heartbeat)
        self._played = self.actor_process.actor.begin()
        """The last round that was played before this executor took over."""
        self.worker.begin()
        self._is_closed = False

    def advance(self, number: int) -> None:
        """Play and learn a round, or the rest of it."""
        if number > self._played:
            self.actor_process.play_round(number)
        self.worker.learn_round(number)

    def finish(self) -> None:
        """Run the evaluations of the last boundary."""
        self.actor_process.finish()

    def close(self) -> None:
        """Close the game, and let go of all shared memory."""
        if self._is_closed:
            return
        self._is_closed = True
        self.actor_process.close()
        del self.actor_process, self.worker  # the run's arrays are freed with them


class ProcessPool:
    """One actor process and some workers, each hosting the learners of some agents."""

    def __init__(self, parts: RunParts, workers: int) -> None:
        """Plan the processes; `start` starts them.

        Args:
            parts: of the run.
            workers: how many worker processes to have.
        """
        self._parts = parts
        generation = parts.arena.counters.load(HANDED) + 1
        self._process_spec = replace(parts.process_spec, generation=generation)
        hosted = assign_agents(parts.agents, workers)
        self.hosted = {worker_name(i): numbers for i, numbers in enumerate(hosted)}
        """The numbers of the agents whose learners each worker hosts, by role."""
        self._has_begun = False
        progress = {ACTOR: SNAPSHOT} | {
            role: version_of(self._hosted_ids(role)[0]) for role in self.hosted
        }
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

    def _description(self, role: str) -> str:
        ids = self._hosted_ids(role)
        return f"{role} (agent{'s' if len(ids) > 1 else ''} {', '.join(ids)})"

    def _tell(self, event: str, role: str, **details: Any) -> str | None:
        """Report an event, with the agents it concerns."""
        agents = {"agents": self._hosted_ids(role)} if role in self.hosted else {}
        return self._parts.tell(event, role, **agents, **details)

    def _launch(self, role: str) -> Child:
        process_spec = replace(
            self._process_spec, role=role, hosted=self.hosted.get(role, ())
        )
        ids = None if role == ACTOR else self._hosted_ids(role)
        entry_point = play if role == ACTOR else learn
        memory = self._parts.arena.describe(ids)
        return start(role, entry_point, process_spec.to_json(), memory)

    def start(self) -> None:
        """Start all processes; they load what they need and wait for their first round.

        Raises:
            CannotStart: if the system refuses to start one.
        """
        self.supervisor.start([ACTOR, *self.hosted])

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
        self._parts.arena.counters.store(HANDED, self._process_spec.generation)
        self._has_begun = True

    def finish(self) -> None:
        """Wait until the actor has run the last evaluations, and all processes ended."""
        while not self.supervisor.have_ended:
            self._parts.stop.check()
            self.supervisor.watch()
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """End all processes."""
        self.supervisor.close()


@dataclass
class ExecutorSwitch:
    """Selects the executor of a run, and replaces it at boundaries.

    With a fixed number of workers it is a process pool, as large as the system allows.
    With `auto` it starts in this process, and the autoscaler decides.
    """

    parts: RunParts
    autoscaler: Autoscaler | None
    """None if the number of workers is fixed."""
    notes: list[str] = field(default_factory=list)
    """Messages for the user: which executor is used from now on, and why."""
    now: Executor | None = None
    """The executor in use."""
    _starting: ProcessPool | None = None
    """A pool whose processes are starting while the run continues in this process."""

    def start(self, workers: int) -> None:
        """Start with so many workers, or in this process if it is 0."""
        pool = self._start_pool(workers) if workers else None
        self.now = pool or InProcess(self.parts)

    def advance(self, number: int) -> None:
        """Advance to a boundary; if the processes fail to start, do it in this one."""
        assert self.now is not None
        try:
            self.now.advance(number)
        except CannotStart as error:
            self._note(f"{error}; the run continues in one process.")
            self._replace(lambda: InProcess(self.parts))
            self.now.advance(number)

    def _note(self, line: str) -> None:
        self.notes.append(line)
        self.parts.tell("note", line=line)

    def reconsider(self, played: float, learned: float, total: float) -> None:
        """Time the round that just ended, and change the executor if that pays off.

        Args:
            played: seconds spent playing.
            learned: seconds spent learning; 0 if no update was made.
            total: seconds from boundary to boundary.
        """
        if self.autoscaler is None:
            return
        if isinstance(self.now, ProcessPool):
            self.autoscaler.add_pooled(total)
            if self.autoscaler.is_slower:
                self._give_up_pool(self.now)
        elif self._starting is not None:
            self._hand_over_when_ready(self._starting)
        else:
            self.autoscaler.add(played, learned)
            if self.autoscaler.has_enough:
                self._decide(self.autoscaler)

    def _give_up_pool(self, pool: ProcessPool) -> None:
        pool.settle()
        if self._can_hand_over:
            self._replace(lambda: InProcess(self.parts))
            self._note("back to one process: several turned out to be slower here.")
            self.autoscaler = None

    @property
    def _can_hand_over(self) -> bool:
        """Whether the newest snapshot restores the game exactly.

        A game that can only be restored by repeating its episodes cannot be handed over
        in an episode that is too long for that.
        """
        snapshots = self.parts.arena.snapshots()
        newest = snapshots.read(snapshots.version)
        return bool(np.all(newest.get("game/exact", True)))

    def _decide(self, autoscaler: Autoscaler) -> None:
        done = self.parts.arena.snapshots().version
        choice = autoscaler.decide(self.parts.process_spec.config.rounds - done)
        self._note(choice.reason)
        self._starting = self._start_pool(choice.workers) if choice.workers else None
        if self._starting is None:
            self.autoscaler = None

    def _hand_over_when_ready(self, pool: ProcessPool) -> None:
        try:
            if pool.is_ready and self._can_hand_over:
                self._starting = None
                self._replace(lambda: pool)
        except RookeryError as error:
            pool.close()
            self._starting = self.autoscaler = None
            self._note(f"{error}; the run continues in one process.")

    def _start_pool(self, workers: int) -> ProcessPool | None:
        """Return a pool with as many workers as the system can start, up to `workers`."""
        learning = sum(agent.learns for agent in self.parts.agents)
        for count in range(min(workers, learning), 0, -1):
            pool = ProcessPool(self.parts, count)
            try:
                pool.start()
                return pool
            except CannotStart as error:
                self._note(f"{error}; the run continues with {processes_text(count - 1)}.")
        return None

    def _replace(self, make: Callable[[], Executor]) -> None:
        assert self.now is not None
        self.now.close()
        self.now = make()

    def finish(self) -> None:
        """Finish the evaluations of the last boundary."""
        assert self.now is not None
        self.now.finish()

    def close(self) -> None:
        """End all processes and close the game."""
        for executor in (self.now, self._starting):
            if executor is not None:
                executor.close()
