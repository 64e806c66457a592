"""The processes of `torn`: an actor, learners, an observer, and main, which starts them.

Started as `python -m tests.stress.torn_processes PARENT`. Every line of standard input is a
case, as JSON; its result is printed as a line of JSON. This is a separate process because
it forks, which only a process with a single thread should do.

Every process compares all of the data that it reads with what it should be, counts what is
wrong, and continues.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from rookery.protocol.arena import COMMIT, SNAPSHOT, Arena
from rookery.protocol.schedule import rounds_ahead
from rookery.replay.buffer import Batch, DamagedRow, ReplayWriter
from rookery.shm.block import Block
from rookery.shm.counters import Counters, version_of
from rookery.specs import Array
from rookery.supervisor.child import die_with
from tests.stress import torn_data as data
from tests.stress.torn_components import DELAY, Case, Components, components_of, reader_of

WRONG = ("torn", "stale", "foreign", "missing", "version")
"""Data that was used and should not have been; `version`: played with a wrong one."""
VIOLATIONS = (*WRONG, "refused", "died")
"""Refused: the product itself noticed."""
KINDS = (*VIOLATIONS, "compared", "discarded")
"""Discarded: overtaken while it was read, which is allowed."""
TICK = 0.05
"""Seconds that main waits for a boundary before it checks on the processes."""


class Findings:
    """What one process has found, counted by kind in memory that main can always read."""

    def __init__(self, counters: Counters, role: str) -> None:
        self._counters, self._role = counters, role
        self._counts: Counter[str] = Counter()

    def add(self, kind: str | None, times: int = 1) -> None:
        """Count a finding; None is nothing."""
        if kind is not None:
            self._counts[kind] += times
            self._counters.note(f"{self._role} {kind}", self._counts[kind])


class SharedFindings:
    """The findings of all processes, in shared memory."""

    def __init__(self, case: Case) -> None:
        learners = [f"learner {agent}" for agent in range(case.agents)]
        self._roles = ["main", "actor", "observer", *learners]
        names = [f"{role} {kind}" for role in self._roles for kind in KINDS]
        self._block = Block.create(Counters.layout(names))
        self._counters = Counters(self._block)

    def of(self, role: str) -> Findings:
        """Return the findings of one process, for it to add to."""
        return Findings(self._counters, role)

    def sums(self, kinds: Sequence[str] = KINDS) -> dict[str, int]:
        """Return the counts of all processes together, by kind."""
        return {
            kind: sum(self._counters.load(f"{role} {kind}") for role in self._roles)
            for kind in kinds
        }

    def raise_at_first(self) -> None:
        """Raise CaseOver if there is a violation."""
        if any(self.sums(VIOLATIONS).values()):
            raise CaseOver

    def close(self) -> None:
        """Free the memory."""
        self._block.close()


class Actor:
    """Reads weights, writes rows, commits turns and publishes snapshots."""

    def __init__(
        self, case: Case, components: Components, arena: Arena, findings: Findings
    ) -> None:
        self._case, self._components, self._arena = case, components, arena
        self._findings = findings
        agents = range(case.agents)
        self._schedule = components.schedule(case, arena.counters)
        self._states = [components.states(arena, agent) for agent in agents]
        self._rows = [components.written_rows(arena, agent) for agent in agents]
        self._writers = [ReplayWriter(rows) for rows in self._rows]
        self._versions = [-1] * case.agents
        self._weights: dict[int, dict[str, Array]] = {}
        """Weights of an exact version, in place, by agent."""
        self._worlds = np.arange(case.worlds)

    def play(self) -> None:
        """Play all rounds."""
        case, snapshots = self._case, self._arena.snapshots()
        snapshots.publish(0, data.snapshot(0))
        for number in range(1, case.rounds + 1):
            self._schedule.await_playing(number)
            if case.is_exact:
                self._read_exact(number - 1)
            for turn in range((number - 1) * case.turns, number * case.turns):
                if not case.is_exact:
                    self._read_newer()
                self.play_turn(turn)
            self._check_weights()
            self._arena.actor_reports().write(number, {"boundary": number})
            snapshots.publish(number, data.snapshot(number))

    def _read_exact(self, version: int) -> None:
        for agent, states in enumerate(self._states):
            try:
                exact, weights = self._components.read_exact(states, version)
            except AssertionError:
                self._findings.add("refused")
                continue
            self._versions[agent], self._weights[agent] = exact, weights
        self._check_weights()

    def _check_weights(self) -> None:
        """Check weights read in place, when a round starts and again when it ends."""
        for agent, weights in self._weights.items():
            self._findings.add(data.state_error(agent, self._versions[agent], weights))
            self._findings.add("compared")

    def _read_newer(self) -> None:
        for agent, states in enumerate(self._states):
            if states.version > self._versions[agent]:
                version, copies = states.newest(data.NAMES)
                self._versions[agent] = version
                self._findings.add(data.state_error(agent, version, copies))
                self._findings.add("compared")

    def play_turn(self, turn: int) -> None:
        """Write the rows of all agents and commit the turn."""

        def write() -> None:
            for agent, writer in enumerate(self._writers):
                self._write(agent, writer, turn)

        self._components.commit(write, self._arena.counters, self._rows, turn)

    def _write(self, agent: int, writer: ReplayWriter, turn: int) -> None:
        worlds = self._worlds
        turns = np.full(len(worlds), turn)
        views = {"view": data.observation(agent, turns, worlds)}
        active, age = data.is_active(turns, worlds), data.age(turns, worlds)
        writer.write_observation(turn, views, active, data.legal(turns, worlds), age)
        actions = data.action(agent, turns, worlds)
        writer.write_action(turn, actions, 1.0, self._versions[agent])
        writer.write_outcome(
            turn,
            data.reward(agent, turns, worlds),
            data.terminated(turns, worlds),
            data.truncated(turns, worlds),
        )


class RowChecker:
    """Reads the rows of one agent and compares them with what they should be."""

    def __init__(
        self,
        agent: int,
        case: Case,
        components: Components,
        arena: Arena,
        findings: Findings,
    ) -> None:
        self._agent, self._case, self._components = agent, case, components
        self._counters, self._findings = arena.counters, findings
        self._rows = components.rows(arena, agent)
        self._ahead = rounds_ahead(case.config())
        self._reader = reader_of(agent, self._rows, case)

    def check(self, boundary: int, delay: float, is_awaited: bool = True) -> None:
        """Read and check everything up to a boundary, unless the product refuses it.

        Args:
            boundary: rows before this turn are read.
            delay: seconds to wait while reading.
            is_awaited: whether the actor waits for this reader, which is then never
                overtaken; if it can be, the product is right to refuse overtaken rows.
        """
        reader = self._reader
        try:
            reader.advance(boundary)
            if delay:
                time.sleep(delay)
            batch = reader.batch(reader.usable)
            versions = self._rows.columns["version"][self._window() % self._rows.slots]
            self._components.check_untouched(reader, self._counters)
        except DamagedRow:
            is_overtaken = not is_awaited and self._is_overtaken(boundary)
            self._findings.add("discarded" if is_overtaken else "refused")
            self._reader = reader_of(self._agent, self._rows, self._case)
            return
        self._compare(batch, versions)

    def _window(self) -> Array:
        return np.arange(self._reader.oldest, self._reader.boundary)

    def _is_overtaken(self, boundary: int) -> bool:
        first = max(0, boundary - self._case.window - data.FRAMES + 1)
        return self._counters.load(COMMIT) - self._rows.slots >= first

    def _compare(self, batch: Batch, versions: Array) -> None:
        reader, case = self._reader, self._case
        self._findings.add("compared")
        expected = data.usable(reader.boundary, case.window, case.worlds)
        if not np.array_equal(reader.usable, expected):
            self._findings.add("missing")
            return
        error = data.batch_error(self._agent, reader.usable, case.worlds, batch)
        self._findings.add(error)
        if error is None:
            self._compare_versions(versions)

    def _compare_versions(self, versions: Array) -> None:
        """Check that rows were played with the right version, or one not too old."""
        newest = self._window() // self._case.turns + (0 if self._case.is_exact else 1)
        oldest = newest - (0 if self._case.is_exact else self._ahead)
        if ((versions < oldest) | (versions > newest)).any():
            self._findings.add("version")


def learn(
    agent: int, case: Case, components: Components, arena: Arena, findings: Findings
) -> None:
    """Do what an agent's learner does: read its rows, publish its versions."""
    schedule = components.schedule(case, arena.counters)
    states, reports = components.states(arena, agent), arena.reports(str(agent))
    checker = RowChecker(agent, case, components, arena, findings)
    states.publish(0, data.state(agent, 0))
    for number in range(1, case.rounds + 1):
        boundary = schedule.await_learning(number, on_policy=False)
        checker.check(boundary, components.learner_delay)
        schedule.await_publishing(number)
        reports.write(number, {"agent": agent, "boundary": number})
        states.publish(number, data.state(agent, number))


class SlowNames(tuple[str, ...]):
    """Names of arrays; iterating over them pauses in the middle.

    A copy of these arrays takes long and is often overtaken, without any change to the
    code that makes it.
    """

    passes = 0
    """How often they were iterated over."""

    def __iter__(self) -> Iterator[str]:
        self.passes += 1
        for i, name in enumerate(super().__iter__()):
            if i == len(self) // 2:
                time.sleep(DELAY)
            yield name


def observe(case: Case, components: Components, arena: Arena, findings: Findings) -> None:
    """Read all rows and states at any time, until the end; no process waits for this one.

    Rows and copies are often overtaken here, so this shows whether the product notices.
    """
    agents = range(case.agents)
    agent_states = [components.states(arena, agent) for agent in agents]
    checkers = [RowChecker(agent, case, components, arena, findings) for agent in agents]
    end = case.rounds * case.turns
    for agent in agents:
        while not arena.counters.wait(version_of(str(agent)), 1, 1.0):
            pass
    while (commit := arena.counters.load(COMMIT)) < end:
        for agent in agents:
            names = SlowNames(data.NAMES)
            version, copies = agent_states[agent].newest(names)
            findings.add(data.state_error(agent, version, copies))
            findings.add("compared")
            findings.add("discarded", names.passes - 1)
            checkers[agent].check(commit, components.observer_delay, is_awaited=False)


class Main:
    """Opens the gate, and reads every boundary in place before it opens the next."""

    def __init__(
        self, case: Case, components: Components, arena: Arena, findings: Findings
    ) -> None:
        self._case, self._components, self._arena = case, components, arena
        self._findings = findings
        self._schedule = components.schedule(case, arena.counters)
        self._states = [components.states(arena, agent) for agent in range(case.agents)]

    def run(
        self, while_waiting: Callable[[], None], after_each: Callable[[], None]
    ) -> None:
        """Check all boundaries, calling back while waiting for one and after each."""
        self._schedule.open(0)
        for boundary in range(1, self._case.rounds + 1):
            while not self._schedule.wait_complete(boundary, TICK):
                while_waiting()
            if self._components.main_delay:
                time.sleep(self._components.main_delay)
            self._check_states(boundary)
            self._check_snapshot(boundary)
            self._check_reports(boundary)
            self._schedule.open(boundary)
            after_each()

    def _check_states(self, boundary: int) -> None:
        for agent, states in enumerate(self._states):
            try:
                if self._case.is_exact:
                    version, arrays = boundary, states.read(boundary)
                else:
                    version, arrays = states.newest(data.NAMES)
            except AssertionError:
                self._findings.add("refused")
            else:
                self._findings.add(data.state_error(agent, version, arrays))
                self._findings.add("compared")

    def _check_snapshot(self, boundary: int) -> None:
        try:
            snapshot = self._arena.snapshots().read(boundary)
        except AssertionError:
            self._findings.add("refused")
        else:
            self._findings.add(data.snapshot_error(boundary, snapshot))

    def _check_reports(self, boundary: int) -> None:
        expected = [(self._arena.actor_reports(), {"boundary": boundary})]
        for agent in range(self._case.agents):
            report = {"agent": agent, "boundary": boundary}
            expected.append((self._arena.reports(str(agent)), report))
        for reports, report in expected:
            try:
                is_right = reports.read(boundary) == report
            except ValueError:
                is_right = False
            self._findings.add(None if is_right else "torn")


class CaseOver(Exception):
    """A process died, time is up, or a violation was found; what was counted stands."""


class Processes:
    """The forked processes."""

    def __init__(self, findings: Findings, limit_seconds: float) -> None:
        self._findings = findings
        self._end = time.monotonic() + limit_seconds
        self._running: set[int] = set()

    def fork(self, work: Callable[[], None]) -> None:
        """Run a function in a new process, which then ends."""
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

    def check(self) -> None:
        """Collect the processes that have ended.

        Raises:
            CaseOver: if one failed, or time is up.
        """
        for child in tuple(self._running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                self._running.discard(child)
            if status or time.monotonic() > self._end:
                self._findings.add("died")
                raise CaseOver

    def wait(self, counters: Counters) -> None:
        """Wait until all have ended."""
        while self._running:
            self.check()
            counters.wait(SNAPSHOT, 2**62, TICK / 10)

    def close(self) -> None:
        """Kill the processes that are still running."""
        for child in self._running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def run_case(case: Case) -> dict[str, Any]:
    """Run a case; return what was counted, as `torn.Outcome` has it."""
    components, findings = components_of(case.name), SharedFindings(case)
    arena = components.arena(case)
    arena.allocate()
    started = time.perf_counter()
    try:
        _run_processes(case, components, arena, findings)
        seconds = time.perf_counter() - started
        turns = arena.counters.load(COMMIT)
        versions = [arena.counters.load(f"version {i}") for i in range(case.agents)]
        return {
            "findings": findings.sums(),
            "seconds": seconds,
            "rows": turns * case.worlds * case.agents,
            "publications": sum(versions),
            "snapshots": arena.counters.load(SNAPSHOT),
            "wraps": turns // components.slots(case),
        }
    finally:
        arena.close()
        findings.close()


def _run_processes(
    case: Case, components: Components, arena: Arena, findings: SharedFindings
) -> None:
    """Start all processes, and be main."""
    main_findings = findings.of("main")
    processes = Processes(main_findings, case.limit_seconds)
    after_each = findings.raise_at_first if case.stop_at_first else lambda: None
    try:
        actor = findings.of("actor")
        processes.fork(lambda: Actor(case, components, arena, actor).play())
        for agent in range(case.agents):
            learner = findings.of(f"learner {agent}")
            processes.fork(partial(learn, agent, case, components, arena, learner))
        if not case.is_exact:
            observer = findings.of("observer")
            processes.fork(partial(observe, case, components, arena, observer))
        Main(case, components, arena, main_findings).run(processes.check, after_each)
        processes.wait(arena.counters)
    except CaseOver:
        pass
    finally:
        processes.close()


def main() -> None:
    """Run the cases of standard input, one after the other."""
    die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    for line in sys.stdin:
        print(json.dumps(run_case(Case(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
