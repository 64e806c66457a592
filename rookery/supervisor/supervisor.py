"""The supervisor: starts the processes of a run, watches them, and restarts them.

It touches no row and no gradient: all it reads are words. Every process computes from what
lies in shared memory alone, so one that died can simply be started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rookery import errors
from rookery.errors import RookeryError
from rookery.shm.counters import Counters
from rookery.supervisor.child import TOLD
from rookery.supervisor.launcher import Child
from rookery.supervisor.restarts import Restarts
from rookery.supervisor.silence import Silence
from rookery.supervisor.stalls import Stalls

LOADING_SECONDS = 300.0
"""A process gives its first sign of life when it has loaded what it needs."""
Launch = Callable[[str], Child]
"""Starts the process of a role."""
Tell = Callable[..., str | None]
"""Called with an event, its role, and more about it; returns the file it went to."""


class ProcessFailed(RookeryError):
    """A process of the run failed in a way that starting it again does not help."""

    exit_code = 1
    is_on_record = True


class CannotStart(RookeryError):
    """The system gives no processes, or they do not live long enough to work."""


@dataclass(frozen=True)
class Limits:
    """How much is too much."""

    deaths: int
    """In a row, without progress."""
    silence: float
    """Seconds without a sign of life, at least."""


class Supervisor:
    """The living processes of a run, by role."""

    def __init__(
        self,
        launch: Launch,
        counters: Counters,
        progress: Mapping[str, str],
        limits: Limits,
        tell: Tell,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Args are functions and names, so that any kind of process can be supervised.

        Args:
            launch: starts the process of a role.
            counters: where processes say how they are.
            progress: role to the word that grows as it gets on.
            limits: how much dying and silence is too much.
            tell: called with every event.
            about: role to how people know it, where its name says too little.
        """
        self._about = about or {}
        self._launch, self._counters, self._tell = launch, counters, tell
        self._progress = dict(progress)
        self._restarts, self._silence = Restarts(limits.deaths), Silence(limits.silence)
        self._loading = Silence(max(limits.silence, LOADING_SECONDS))
        self._children: dict[str, Child] = {}
        self._loading_roles: set[str] = set()
        """Who has not given its first sign of life."""
        self._due: dict[str, float] = {}
        """When a role that died is started again."""
        self._reached: dict[str, int] = {}
        self._has_begun = False
        self.stalls = Stalls()

    def start(self, roles: Iterable[str]) -> None:
        """Start everybody, or nobody.

        Raises:
            CannotStart: if the system refuses.
        """
        for role in roles:
            try:
                self._begin(role, "start")
            except OSError as error:
                self.close()
                raise CannotStart(f"{role} could not be started ({error})") from error

    @property
    def is_ready(self) -> bool:
        """Whether every process has reached its work loop."""
        beats = [self._counters.load(f"{role} beat") for role in self._children]
        return not self._due and all(beat > 0 for beat in beats)

    def begun(self) -> None:
        """The work begins: from now on, one who dies too often ends the run."""
        self._has_begun = True

    def watch(self) -> None:
        """See who died, and start again whose time has come.

        Raises:
            ProcessFailed: if one died too often, or said that it is of no use.
            CannotStart: if one died too often before the work began.
        """
        self._end_the_silent()
        for role, child in list(self._children.items()):
            if child.is_dead:
                self._bury(role, child)
            else:
                self._look_at(role, child)
        now = time.monotonic()
        for role in [role for role, when in self._due.items() if when <= now]:
            del self._due[role]
            try:
                self._begin(role, "restart")
            except OSError as error:  # the system may have more to give later
                self._put_off(role, f"it could not be started again ({error})")

    def _look_at(self, role: str, child: Child) -> None:
        if role in self._loading_roles and self._counters.load(f"{role} beat") > 0:
            self._loading_roles.remove(role)
            attempt = self._restarts.record(role).attempt
            self._tell("ready", role, pid=child.pid, attempt=attempt)
        if self._counters.load(self._progress[role]) > self._reached[role]:
            self._restarts.progressed(role)

    def _end_the_silent(self) -> None:
        """Kill who hangs, and let it be restarted like anybody else who died."""
        beats = {role: self._counters.load(f"{role} beat") for role in self._children}
        working = {role: beat for role, beat in beats.items() if beat > 0}
        loading = {role: beat for role, beat in beats.items() if beat == 0}
        silent = self._silence.look(working) | self._loading.look(loading)
        for role, seconds in silent.items():
            child = self._children[role]
            stacks = child.dump_stacks()
            child.kill()
            child.reason = f"it gave no sign of life for {seconds:.0f} s"
            self._tell("silent", role, pid=child.pid, line=child.reason, stacks=stacks)

    def look_for_stalls(self) -> None:
        """Tell who has stopped getting on, once."""
        roles = [*self._children, *self._due]
        reached = {role: self._counters.load(self._progress[role]) for role in roles}
        for stall in self.stalls.look(reached):
            child = self._children.get(stall.role)
            pid = child.pid if child else None
            attempt = self._restarts.record(stall.role).attempt
            self._tell("stalled", stall.role, pid=pid, attempt=attempt, line=str(stall))

    def _begin(self, role: str, event: str) -> None:
        self._counters.note(f"{role} beat", 0)
        self._silence.forget(role)
        self._loading.forget(role)
        self._loading_roles.add(role)
        self._reached[role] = self._counters.load(self._progress[role])
        child = self._children[role] = self._launch(role)
        attempt = self._restarts.record(role).attempt
        self._tell(event, role, pid=child.pid, attempt=attempt)

    def _bury(self, role: str, child: Child) -> None:
        del self._children[role]
        code, trouble = child.code(), child.trouble()
        file = self._record_end(role, child)
        child.close()
        if code == TOLD:
            raise error_of(trouble)
        if code != 0:
            self._put_off(role, trouble["line"], file)

    def _record_end(self, role: str, child: Child) -> str | None:
        """Put on record how a process ended; return the file with its traceback."""
        about = {"pid": child.pid, "attempt": self._restarts.record(role).attempt}
        if child.code() == 0:  # it has done all there was to do
            return self._tell("end", role, **about)
        return self._tell("death", role, **about, code=child.code(), **child.trouble())

    def _put_off(self, role: str, reason: str, file: str | None = None) -> None:
        """Start a role again after a while, if that may still help."""
        wait = self._restarts.died(role)
        if wait is None and not self._has_begun:
            raise CannotStart(f"{role} did not get as far as working: {reason}")
        if wait is None:
            deaths = self._restarts.record(role).deaths
            raise ProcessFailed(
                f"the {self._about.get(role, role)} died {deaths} times in a row, the last "
                f"time because {reason}: see {file or 'events.jsonl'} in the run's folder, "
                "and resume the run once that is mended."
            )
        self._due[role] = time.monotonic() + wait

    def processes(self) -> dict[str, int]:
        """Return the living processes, role to id."""
        return {role: child.pid for role, child in self._children.items()}

    def has_ended(self, role: str) -> bool:
        """Whether a process has done all there was to do; one that died has not."""
        return role not in self._children and role not in self._due

    def close(self) -> None:
        """End everybody who is left; whoever died since the last look is on record."""
        for role, child in self._children.items():
            if child.is_dead:
                self._record_end(role, child)
            child.kill()
            child.close()
        self._children.clear()


def error_of(trouble: Mapping[str, Any]) -> RookeryError:
    """Return the error that another process ended with."""
    kind = getattr(errors, str(trouble["kind"]), None)
    if not (isinstance(kind, type) and issubclass(kind, RookeryError)):
        kind = RookeryError
    error = kind(trouble["line"])
    error.is_on_record = True
    return error
