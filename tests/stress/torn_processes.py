"""The processes of `torn`, and the one that starts them and plays main.

Started as `python -P -m tests.stress.torn_processes PARENT`. Every line of standard input
is a case, as JSON; what was found is printed as a line of JSON. It is a process of its own
because it forks, which only a process with one thread should do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rookery.protocol.arena import COMMIT, SNAPSHOT, Arena
from rookery.shm.block import Block
from rookery.shm.counters import Counters, version_of
from rookery.supervisor.child import die_with
from tests.stress import torn_stamps as stamps
from tests.stress.torn_bugs import parts_of
from tests.stress.torn_parts import KINDS, VIOLATIONS, Case, Findings, Parts
from tests.stress.torn_roles import Player, learn, look_on

TICK = 0.05
"""Seconds of waiting for a border from one look after the processes to the next."""


class Ended(Exception):
    """A process died, time is up, or enough was found: what was found until then counts."""


class Recorder:
    """Main: opens the gate, and reads every border in place before it goes on."""

    def __init__(self, case: Case, parts: Parts, arena: Arena, findings: Findings) -> None:
        self._case, self._parts, self._arena = case, parts, arena
        self._findings = findings
        self._schedule = parts.schedule(case, arena.counters)
        self._states = [parts.states(arena, agent) for agent in range(case.agents)]

    def record(self, watch: Callable[[], None], recorded: Callable[[], None]) -> None:
        """Record all borders; `watch` is called while waiting, `recorded` after each."""
        self._schedule.open(0)
        for boundary in range(1, self._case.rounds + 1):
            while not self._schedule.wait_complete(boundary, TICK):
                watch()
            if self._parts.record_nap:
                time.sleep(self._parts.record_nap)
            self._judge_states(boundary)
            self._judge_rest(boundary)
            self._schedule.open(boundary)
            recorded()

    def _judge_states(self, boundary: int) -> None:
        for agent, states in enumerate(self._states):
            try:
                if self._case.is_exact:
                    version, found = boundary, states.read(boundary)
                else:
                    version, found = states.newest(stamps.NAMES)
            except AssertionError:
                self._findings.add("refused")
            else:
                self._findings.add(stamps.judge_state(agent, version, found))
                self._findings.add("looked")

    def _judge_rest(self, boundary: int) -> None:
        """Look at the snapshot and at what everybody reports."""
        try:
            snapshot = self._arena.snapshots().read(boundary)
        except AssertionError:
            self._findings.add("refused")
        else:
            self._findings.add(stamps.judge_snapshot(boundary, snapshot))
        said = [(self._arena.actor_reports(), {"border": boundary})]
        for agent in range(self._case.agents):
            due = {"agent": agent, "border": boundary}
            said.append((self._arena.reports(str(agent)), due))
        for reports, due in said:
            try:
                right = reports.read(boundary) == due
            except ValueError:
                right = False
            self._findings.add(None if right else "torn")


class Processes:
    """The processes that were forked."""

    def __init__(self, findings: Findings, limit_seconds: float) -> None:
        self._findings = findings
        self._end = time.monotonic() + limit_seconds
        self._running: set[int] = set()

    def fork(self, work: Callable[[], None]) -> None:
        """Let another process do something and end."""
        parent = os.getpid()
        child = os.fork()
        if child:
            self._running.add(child)
            return
        try:
            die_with(parent)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def watch(self) -> None:
        """Collect who has ended.

        Raises:
            Ended: if somebody did not end well, or time is up.
        """
        for child in tuple(self._running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                self._running.discard(child)
            if status or time.monotonic() > self._end:
                self._findings.add("died")
                raise Ended

    def wait(self, counters: Counters) -> None:
        """Wait until all have ended."""
        while self._running:
            self.watch()
            counters.wait(SNAPSHOT, 2**62, TICK / 10)

    def close(self) -> None:
        """End those who are left."""
        for child in self._running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


class Counts:
    """What all processes have found, in memory that they share."""

    def __init__(self, case: Case) -> None:
        learners = [f"learner {agent}" for agent in range(case.agents)]
        self._roles = ["main", "actor", "onlooker", *learners]
        names = [f"{role} {kind}" for role in self._roles for kind in KINDS]
        self._block = Block.create(Counters.layout(names))
        self._counters = Counters(self._block)

    def of(self, role: str) -> Findings:
        """Return where one process counts."""
        return Findings(self._counters, role)

    def sums(self, kinds: Sequence[str] = KINDS) -> dict[str, int]:
        """Return how often each kind was found."""
        return {
            kind: sum(self._counters.load(f"{role} {kind}") for role in self._roles)
            for kind in kinds
        }

    def end_if_found(self) -> None:
        """Raise Ended if something is wrong."""
        if any(self.sums(VIOLATIONS).values()):
            raise Ended

    def close(self) -> None:
        """Give the memory back."""
        self._block.close()


def run_case(case: Case) -> dict[str, Any]:
    """Run a case, and return what was found and how much was done."""
    parts, counts = parts_of(case.name), Counts(case)
    arena = parts.arena(case)
    arena.allocate()
    started = time.perf_counter()
    try:
        _run_processes(case, parts, arena, counts)
        seconds = time.perf_counter() - started
        return {"found": counts.sums(), "seconds": seconds, **_amounts(case, parts, arena)}
    finally:
        arena.close()
        counts.close()


def _run_processes(case: Case, parts: Parts, arena: Arena, counts: Counts) -> None:
    """Let everybody do their part, and be main meanwhile."""
    findings = counts.of("main")
    processes = Processes(findings, case.limit_seconds)
    recorded = counts.end_if_found if case.until_found else lambda: None
    try:
        _start(case, parts, arena, counts, processes)
        Recorder(case, parts, arena, findings).record(processes.watch, recorded)
        processes.wait(arena.counters)
    except Ended:
        pass
    finally:
        processes.close()


def _start(
    case: Case,
    parts: Parts,
    arena: Arena,
    counts: Counts,
    processes: Processes,
) -> None:
    processes.fork(lambda: Player(case, parts, arena, counts.of("actor")).play())
    for agent in range(case.agents):
        findings = counts.of(f"learner {agent}")
        processes.fork(partial(learn, agent, case, parts, arena, findings))
    if not case.is_exact:
        processes.fork(lambda: look_on(case, parts, arena, counts.of("onlooker")))


def _amounts(case: Case, parts: Parts, arena: Arena) -> dict[str, int]:
    """Return how much was committed and published, by what the words say."""
    turns = arena.counters.load(COMMIT)
    states = [arena.counters.load(version_of(str(agent))) for agent in range(case.agents)]
    return {
        "rows": turns * case.worlds * case.agents,
        "publications": sum(states),
        "snapshots": arena.counters.load(SNAPSHOT),
        "wraps": turns // parts.slots(case),
    }


def main() -> None:
    """Run the cases that standard input names, one after the other."""
    die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to act on
    for line in sys.stdin:
        print(json.dumps(run_case(Case(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
