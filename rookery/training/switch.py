"""Which executor runs a training, and when another one takes over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from rookery.actor.parts import RunParts
from rookery.errors import RookeryError
from rookery.supervisor.supervisor import CannotStart
from rookery.training.autoscale import Autoscaler, Choice, TimedRound
from rookery.training.executors import Executor, InProcess, ProcessPool
from rookery.training.load import ProcessorClock, ProcessorTime
from rookery.training.round_model import ONE, Processes


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
    _clock: ProcessorClock = field(default_factory=ProcessorClock)
    _boundary_at: float = 0.0
    """When the last round ended."""

    def start(self, workers: int) -> None:
        """Start with so many workers, or in this process if it is 0."""
        processes = Processes(self.parts.process_spec.actors, workers)
        pool = self._start_pool(processes) if workers else None
        self.now = pool or self._in_process()
        self._lap()

    def _in_process(self) -> InProcess:
        shares = None if self.autoscaler is None else self.autoscaler.shares
        return InProcess(self.parts, shares)

    def advance(self, number: int) -> None:
        """Advance to a boundary; if the processes fail to start, do it in this one."""
        assert self.now is not None
        try:
            self.now.advance(number)
        except CannotStart as error:
            self._note(f"{error}; the run continues in one process.")
            self._replace(self._in_process)
            self.autoscaler = None  # it would judge these rounds as those of a pool
            self.now.advance(number)

    def _note(self, line: str) -> None:
        self.notes.append(line)
        self.parts.tell("note", line=line)

    def reconsider(self, played: float, learned: float) -> None:
        """Time the round that just ended, and change the executor if that pays off.

        Args:
            played: seconds spent playing.
            learned: seconds spent learning; 0 if no update was made.
        """
        if self.autoscaler is None:
            return
        total, processor = self._lap()
        if self._starting is not None:
            self._hand_over_when_ready(self._starting, self.autoscaler)
            return
        if not self._plays_other_shares(self.autoscaler):
            self.autoscaler.add(TimedRound(played, learned, total, processor))
        done = self.parts.arena.snapshots().version
        choice = self.autoscaler.decide(self.parts.process_spec.config.rounds - done)
        if choice is not None:
            self._follow(choice, self.autoscaler)
        elif self._plays_other_shares(self.autoscaler) and self._can_hand_over:
            self._replace(self._in_process)  # rounds until then are not timed

    def _plays_other_shares(self, autoscaler: Autoscaler) -> bool:
        return isinstance(self.now, InProcess) and self.now.actors != autoscaler.shares

    def _lap(self) -> tuple[float, ProcessorTime]:
        """Return the seconds since the last boundary, and the processor time in them."""
        now, last = time.perf_counter(), self._boundary_at
        self._boundary_at = now
        pids = [os.getpid()]
        if isinstance(self.now, ProcessPool):
            pids += self.now.supervisor.processes().values()
        return now - last, self._clock.lap(pids)

    def _follow(self, choice: Choice, autoscaler: Autoscaler) -> None:
        """Change the executor; several processes start while this one continues."""
        if isinstance(self.now, ProcessPool):
            self.now.settle()
            if not self._can_hand_over:
                return  # it is judged again
            self._replace(self._in_process)
        self._note(choice.reason)
        autoscaler.begin(ONE)
        if choice.processes != ONE:
            self._starting = self._start_pool(choice.processes)
            if self._starting is None:
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

    def _hand_over_when_ready(self, pool: ProcessPool, autoscaler: Autoscaler) -> None:
        try:
            is_ready = pool.is_ready
        except RookeryError as error:
            pool.close()
            self._starting = self.autoscaler = None
            self._note(f"{error}; the run continues in one process.")
            return
        if is_ready and self._can_hand_over:
            self._replace(lambda: pool)  # if the game cannot be closed, the run ends
            self._starting = None
            autoscaler.begin(pool.processes)

    def _start_pool(self, processes: Processes) -> ProcessPool | None:
        """Return a pool with as many of the workers as the system can start."""
        learning = sum(agent.learns for agent in self.parts.agents)
        for workers in range(min(processes.workers, learning), 0, -1):
            pool = ProcessPool(self.parts, replace(processes, workers=workers))
            try:
                pool.start()
                return pool
            except CannotStart as error:
                fewer = replace(processes, workers=workers - 1)
                self._note(f"{error}; the run continues with {fewer}.")
        return None

    def _replace(self, make: Callable[[], Executor]) -> None:
        assert self.now is not None
        self.now.close()
        self.now = make()
        self._lap()  # times are those of the new processes from here on

    def finish(self) -> None:
        """Finish the evaluations of the last boundary."""
        assert self.now is not None
        self.now.finish()

    def close(self) -> None:
        """End all processes and close the game."""
        for executor in (self._starting, self.now):  # closing a game can fail
            if executor is not None:
                executor.close()
