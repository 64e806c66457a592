"""The supervisor: starts the processes of a run, watches them, and restarts them.

All it reads are counters. Every process computes only from what is in shared memory, so a
process that died can simply be started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rookery import errors
from rookery.errors import RookeryError
from rookery.shm.counters import Counters, beat_of
from rookery.supervisor.child import USER_ERROR
from rookery.supervisor.launcher import Child
from rookery.supervisor.policies import RestartPolicy, SilencePolicy, StallPolicy

LOADING_SECONDS = 300.0
"""How long a process can take to import its modules, before its first sign of life."""
Launch = Callable[[str], Child]
"""Starts the process of a role."""
Tell = Callable[..., str | None]
"""Logs an event, given its name, role and details; returns the file of its traceback."""


class ProcessFailed(RookeryError):
    """A process of the run failed, and restarting it does not help."""

    exit_code = 1
    is_on_record = True


class CannotStart(RookeryError):
    """The system refuses processes, or they die before they have started to work."""


@dataclass(frozen=True)
class Limits:
    """When a process is given up, and when it is treated as hung."""

    deaths: int
    """Deaths in a row, without progress."""
    silence: float
    """Seconds without a sign of life; longer if it was silent for long before."""


class Supervisor:
    """Keeps the processes of a run alive."""

    def __init__(
        self,
        launch: Launch,
        counters: Counters,
        progress: Mapping[str, str],
        limits: Limits,
        tell: Tell,
        descriptions: Mapping[str, str] | None = None,
    ) -> None:
        """Set up the supervision; any kind of process can be supervised.

        Args:
            launch: starts the process of a role.
            counters: with the beats and the progress of all roles.
            progress: role to the name of the counter that grows with its progress.
            limits: when a process is given up, and when it is treated as hung.
            tell: called with every event.
            descriptions: role to what messages call it, if not by its role.
        """
        self._descriptions = descriptions or {}
        self._launch, self._counters, self._tell = launch, counters, tell
        self._progress = dict(progress)
        self._restarts = RestartPolicy(limits.deaths)
        self._silence = SilencePolicy(limits.silence)
        self._loading = SilencePolicy(max(limits.silence, LOADING_SECONDS))
        self._children: dict[str, Child] = {}
        self._loading_roles: set[str] = set()
        """Roles that have not given their first sign of life."""
        self._due: dict[str, float] = {}
        """When roles that died are restarted."""
        self._progress_at_start: dict[str, int] = {}
        self._has_begun = False
        self.stalls = StallPolicy()

    def start(self, roles: Iterable[str]) -> None:
        """Start all processes, or none.

        Raises:
            CannotStart: if the system refuses one.
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
        beats = [self._counters.load(beat_of(role)) for role in self._children]
        return not self._due and all(beat > 0 for beat in beats)

    def mark_begun(self) -> None:
        """Note that the work has begun: a process that dies too often now ends the run."""
        self._has_begun = True

    def watch(self) -> None:
        """Check all processes once, and restart those that are due.

        Raises:
            ProcessFailed: if a process died too often.
            CannotStart: if a process died too often before the work began.
            RookeryError: if a process reported an error that the user can fix.
        """
        self._kill_hung()
        for role, child in list(self._children.items()):
            if child.is_dead:
                self._handle_end(role, child)
            else:
                self._update_progress(role, child)
        now = time.monotonic()
        for role in [role for role, when in self._due.items() if when <= now]:
            del self._due[role]
            try:
                self._begin(role, "restart")
            except OSError as error:  # the system may allow it later
                self._schedule_restart(role, f"it could not be restarted ({error})")

    def _update_progress(self, role: str, child: Child) -> None:
        if role in self._loading_roles and self._counters.load(beat_of(role)) > 0:
            self._loading_roles.remove(role)
            attempt = self._restarts.record(role).attempt
            self._tell("ready", role, pid=child.pid, attempt=attempt)
        if self._counters.load(self._progress[role]) > self._progress_at_start[role]:
            self._restarts.add_progress(role)

    def _kill_hung(self) -> None:
        """Kill processes that hang; they are restarted like any other that died."""
        beats = {role: self._counters.load(beat_of(role)) for role in self._children}
        working = {role: beat for role, beat in beats.items() if beat > 0}
        loading = {role: beat for role, beat in beats.items() if beat == 0}
        hung = self._silence.check(working) | self._loading.check(loading)
        for role, seconds in hung.items():
            child = self._children[role]
            stacks = child.dump_stacks()
            child.kill()
            child.reason = f"it gave no sign of life for {seconds:.0f} s"
            self._tell("silent", role, pid=child.pid, line=child.reason, stacks=stacks)

    def report_stalls(self) -> None:
        """Report processes that make no progress, each once."""
        roles = [*self._children, *self._due]
        progress = {role: self._counters.load(self._progress[role]) for role in roles}
        for stall in self.stalls.check(progress):
            child = self._children.get(stall.role)
            pid = child.pid if child else None
            attempt = self._restarts.record(stall.role).attempt
            self._tell("stalled", stall.role, pid=pid, attempt=attempt, line=str(stall))

    def _begin(self, role: str, event: str) -> None:
        self._counters.note(beat_of(role), 0)
        self._silence.forget(role)
        self._loading.forget(role)
        self._loading_roles.add(role)
        self._progress_at_start[role] = self._counters.load(self._progress[role])
        child = self._children[role] = self._launch(role)
        attempt = self._restarts.record(role).attempt
        self._tell(event, role, pid=child.pid, attempt=attempt)

    def _handle_end(self, role: str, child: Child) -> None:
        del self._children[role]
        code, error = child.code(), child.error()
        file = self._log_end(role, child)
        child.close()
        if code == USER_ERROR:
            raise error_of(error)
        if code != 0:
            self._schedule_restart(role, error["line"], file)

    def _log_end(self, role: str, child: Child) -> str | None:
        """Log how a process ended; return the file with its traceback."""
        process = {"pid": child.pid, "attempt": self._restarts.record(role).attempt}
        if child.code() == 0:  # it has finished its work
            return self._tell("end", role, **process)
        return self._tell("death", role, **process, code=child.code(), **child.error())

    def _schedule_restart(self, role: str, reason: str, file: str | None = None) -> None:
        delay = self._restarts.add_death(role)
        if delay is None and not self._has_begun:
            raise CannotStart(f"{role} died before it started to work: {reason}")
        if delay is None:
            deaths = self._restarts.record(role).deaths
            name = self._descriptions.get(role, role)
            raise ProcessFailed(
                f"the {name} died {deaths} times in a row, the last time because {reason}: "
                f"see {file or 'events.jsonl'} in the run's folder, and resume the run "
                "once the cause is fixed."
            )
        self._due[role] = time.monotonic() + delay

    def processes(self) -> dict[str, int]:
        """Return the process ids of all living processes, by role."""
        return {role: child.pid for role, child in self._children.items()}

    @property
    def have_ended(self) -> bool:
        """Whether all processes have finished their work; one that died has not."""
        return not self._children and not self._due

    def close(self) -> None:
        """Kill all processes that are left; log those that died since the last check."""
        for role, child in self._children.items():
            if child.is_dead:
                self._log_end(role, child)
            child.kill()
            child.close()
        self._children.clear()


def error_of(report: Mapping[str, Any]) -> RookeryError:
    """Return the error that another process reported."""
    kind = getattr(errors, str(report["kind"]), None)
    if not (isinstance(kind, type) and issubclass(kind, RookeryError)):
        kind = RookeryError
    error = kind(report["line"])
    error.is_on_record = True
    return error
