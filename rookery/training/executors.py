"""Who computes a run: this process alone, or several; it may change at any boundary.

Whoever takes over reads everything from shared memory, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rookery.actor.process import ActorProcess
from rookery.algorithms.base import Agent
from rookery.errors import RookeryError
from rookery.games.registry import Entry
from rookery.learner.process import worker_of
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import ProcessSpec
from rookery.protocol.schedule import RoundSchedule
from rookery.shm.heartbeat import Heartbeat
from rookery.stop import StopFlag
from rookery.supervisor.supervisor import CannotStart, Tell
from rookery.training.autoscale import Autoscaler, in_words
from rookery.training.process_pool import ProcessPool


@dataclass(frozen=True)
class Parts:
    """What every engine is made of."""

    entry: Entry
    process_spec: ProcessSpec
    agents: Sequence[Agent]
    arena: Arena
    schedule: RoundSchedule
    stop: StopFlag
    tell: Tell


class OneProcess:
    """Everything in this process: rounds are played and learned in turn."""

    def __init__(self, parts: Parts) -> None:
        process_spec, agents, arena = parts.process_spec, parts.agents, parts.arena
        heartbeat = Heartbeat(stop=parts.stop)
        self.actor_process = ActorProcess(
            parts.entry, process_spec, agents, arena, parts.schedule, heartbeat
        )
        everyone = range(len(agents))
        self.worker = worker_of(process_spec, agents, arena, everyone, heartbeat)
        self._played = self.actor_process.actor.begin()
        """The last round that had been played when this process took over."""
        self.worker.begin()

    def advance(self, number: int) -> None:
        """Play and learn a round, or what is left of it."""
        if number > self._played:
            self.actor_process.play_round(number)
        self.worker.learn_round(number)

    def finish(self) -> None:
        """Play the matches of the last boundary."""
        self.actor_process.finish()

    def close(self) -> None:
        """Let go of the game."""
        self.actor_process.close()


@dataclass
class Executor:
    """Whoever computes at present.

    With a number of workers it is a crew, or as many of it as can be had. With `auto` it is
    one process first, and the tuner decides.
    """

    parts: Parts
    autoscaler: Autoscaler | None
    notes: list[str] = field(default_factory=list)
    """What is worth telling: who computes from now on, and why."""
    now: OneProcess | ProcessPool | None = None
    _coming: ProcessPool | None = None
    """A crew that is starting while rounds go on."""

    def start(self, workers: int) -> None:
        """Start with some workers, or without."""
        self.now = self._pool(workers) if workers else None
        self.now = self.now or OneProcess(self.parts)

    def advance(self, number: int) -> None:
        """Go on to a boundary; if processes do not even start, go on without them."""
        assert self.now is not None
        try:
            self.now.advance(number)
        except CannotStart as error:
            self._say(f"{error}; the run goes on in one process.")
            self._replace(lambda: OneProcess(self.parts))
            self.now.advance(number)

    def _say(self, line: str) -> None:
        self.notes.append(line)
        self.parts.tell("note", line=line)

    def reconsider(self, played: float, learned: float, whole: float) -> None:
        """At a boundary: time the round that was, and change who computes if it pays.

        Args:
            played: seconds of playing.
            learned: seconds of learning; 0 if no update was made.
            whole: seconds from boundary to boundary.
        """
        if self.autoscaler is None:
            return
        if isinstance(self.now, ProcessPool):
            self.autoscaler.add_in_company(whole)
            if self.autoscaler.is_slower and self._settle():
                self._replace(lambda: OneProcess(self.parts))
                self._say("one process again: several turned out slower here.")
                self.autoscaler = None
        elif self._coming is not None:
            self._welcome()
        else:
            self.autoscaler.add(played, learned)
            if self.autoscaler.has_enough:
                self._decide()

    def _settle(self) -> bool:
        """Bring all to one boundary; return whether one may change who computes there."""
        assert isinstance(self.now, ProcessPool)
        self.now.settle()
        return self._can_go_back

    @property
    def _can_go_back(self) -> bool:
        """Whether the newest snapshot brings the game back, exactly.

        An episode that is too long to be repeated stays with whoever plays it.
        """
        snapshots = self.parts.arena.snapshots()
        newest = snapshots.read(snapshots.version)
        return bool(np.all(newest.get("game/exact", True)))

    def _decide(self) -> None:
        assert self.autoscaler is not None
        choice = self.autoscaler.decide(self.parts.process_spec.config.rounds)
        self._say(choice.reason)
        self._coming = self._pool(choice.workers) if choice.workers else None
        if self._coming is None:
            self.autoscaler = None

    def _welcome(self) -> None:
        """Hand over to the crew that was starting, once all of it is ready."""
        assert self._coming is not None
        coming = self._coming
        try:
            if coming.is_ready and self._can_go_back:
                self._coming = None
                self._replace(lambda: coming)
        except RookeryError as error:
            coming.close()
            self._coming = self.autoscaler = None
            self._say(f"{error}; the run goes on in one process.")

    def _pool(self, workers: int) -> ProcessPool | None:
        """Return a crew with as many workers as the system gives; tell what it refused."""
        parts = self.parts
        learning = sum(agent.learns for agent in parts.agents)
        for fewer in range(min(workers, learning), 0, -1):
            pool = ProcessPool(
                parts.process_spec,
                parts.agents,
                parts.arena,
                parts.schedule,
                fewer,
                parts.tell,
                parts.stop,
            )
            try:
                pool.start()
                return pool
            except CannotStart as error:
                self._say(f"{error}; the run goes on with {in_words(fewer - 1)}.")
        return None

    def _replace(self, make: Callable[[], OneProcess | ProcessPool]) -> None:
        assert self.now is not None
        self.now.close()
        self.now = make()

    def finish(self) -> None:
        """Let what is left to play at the end be played."""
        assert self.now is not None
        self.now.finish()

    def close(self) -> None:
        """End every process, and let go of the game."""
        for one in (self.now, self._coming):
            if one is not None:
                one.close()
