"""Who takes part in `torn`: they play, learn and look on as the processes of a run do.

Whoever reads rows or a state compares all of it with what is due. What is wrong is counted,
and everybody goes on.
"""

from __future__ import annotations

import time

import numpy as np

from rookery.protocol.arena import COMMIT, Arena
from rookery.protocol.schedule import rounds_ahead
from rookery.replay.buffer import Batch, DamagedRow, ReplayWriter
from rookery.shm.counters import version_of
from rookery.specs import Array
from tests.stress import torn_stamps as stamps
from tests.stress.torn_parts import Case, Findings, Parts, Slowly, reader_of


class Player:
    """The actor: takes weights, writes rows, commits turns, leaves snapshots."""

    def __init__(self, case: Case, parts: Parts, arena: Arena, findings: Findings) -> None:
        self._case, self._parts, self._arena = case, parts, arena
        self._findings = findings
        agents = range(case.agents)
        self._schedule = parts.schedule(case, arena.counters)
        self._states = [parts.states(arena, agent) for agent in agents]
        self._rows = [parts.written(arena, agent) for agent in agents]
        self._writers = [ReplayWriter(rows) for rows in self._rows]
        self._versions = [-1] * case.agents
        self._held: dict[int, dict[str, Array]] = {}
        """Weights of an exact version, in place, by agent."""
        self._worlds = np.arange(case.worlds)

    def play(self) -> None:
        """Play all rounds."""
        case, snapshots = self._case, self._arena.snapshots()
        snapshots.publish(0, stamps.snapshot(0))
        for number in range(1, case.rounds + 1):
            self._schedule.await_playing(number)
            if case.is_exact:
                self._take_exact(number - 1)
            for turn in range((number - 1) * case.turns, number * case.turns):
                if not case.is_exact:
                    self._take_newer()
                self._play_turn(turn)
            self._judge_held()
            self._arena.actor_reports().write(number, {"border": number})
            snapshots.publish(number, stamps.snapshot(number))

    def _take_exact(self, version: int) -> None:
        for agent, states in enumerate(self._states):
            try:
                taken, held = self._parts.exact(states, version)
            except AssertionError:
                self._findings.add("refused")
                continue
            self._versions[agent], self._held[agent] = taken, held
        self._judge_held()

    def _judge_held(self) -> None:
        """See that weights read in place are whole: as the round starts, and as it ends."""
        for agent, held in self._held.items():
            version = self._versions[agent]
            self._findings.add(stamps.judge_state(agent, version, held))
            self._findings.add("looked")

    def _take_newer(self) -> None:
        for agent, states in enumerate(self._states):
            if states.version > self._versions[agent]:
                version, copies = states.newest(stamps.NAMES)
                self._versions[agent] = version
                self._findings.add(stamps.judge_state(agent, version, copies))
                self._findings.add("looked")

    def _play_turn(self, turn: int) -> None:
        def write() -> None:
            for agent, writer in enumerate(self._writers):
                self._write(agent, writer, turn)

        self._parts.commit(write, self._arena.counters, self._rows, turn)

    def _write(self, agent: int, writer: ReplayWriter, turn: int) -> None:
        worlds = self._worlds
        turns = np.full(len(worlds), turn)
        seen = {"sight": stamps.observation(agent, turns, worlds)}
        active, age = stamps.is_active(turns, worlds), stamps.age(turns, worlds)
        writer.write_observation(turn, seen, active, stamps.legal(turns, worlds), age)
        actions = stamps.action(agent, turns, worlds)
        writer.write_action(turn, actions, 1.0, self._versions[agent])
        writer.write_outcome(
            turn,
            stamps.reward(agent, turns, worlds),
            stamps.terminated(turns, worlds),
            stamps.truncated(turns, worlds),
        )


class Looker:
    """Reads the rows of one agent, and compares them with what is due."""

    def __init__(
        self, agent: int, case: Case, parts: Parts, arena: Arena, findings: Findings
    ) -> None:
        self._agent, self._case, self._parts = agent, case, parts
        self._counters, self._findings = arena.counters, findings
        self._rows = parts.rows(arena, agent)
        self._ahead = rounds_ahead(case.config())
        self._reader = reader_of(agent, self._rows, case)

    def look(self, boundary: int, nap: float, is_bound: bool = True) -> None:
        """Read everything up to a border; it counts unless the product refuses it.

        Args:
            border: rows before this turn.
            nap: seconds to dawdle while reading.
            is_bound: whether the actor waits for this reader, so that it is never
                overtaken; if it may be, being refused then is right.
        """
        reader = self._reader
        try:
            reader.advance(boundary)
            if nap:
                time.sleep(nap)
            batch = reader.batch(reader.usable)
            versions = self._rows.columns["version"][self._window() % self._rows.slots]
            self._parts.check(reader, self._counters)
        except DamagedRow:
            overtaken = not is_bound and self._is_overtaken(boundary)
            self._findings.add("thrown away" if overtaken else "refused")
            self._reader = reader_of(self._agent, self._rows, self._case)
            return
        self._judge(batch, versions)

    def _window(self) -> Array:
        return np.arange(self._reader.oldest, self._reader.boundary)

    def _is_overtaken(self, boundary: int) -> bool:
        first = max(0, boundary - self._case.window - stamps.FRAMES + 1)
        return self._counters.load(COMMIT) - self._rows.slots >= first

    def _judge(self, batch: Batch, versions: Array) -> None:
        reader, case = self._reader, self._case
        self._findings.add("looked")
        if not np.array_equal(
            reader.usable, stamps.usable(reader.boundary, case.window, case.worlds)
        ):
            self._findings.add("missing")
            return
        found = stamps.judge_batch(self._agent, reader.usable, case.worlds, batch)
        self._findings.add(found)
        if found is None:
            self._judge_versions(versions)

    def _judge_versions(self, versions: Array) -> None:
        """See that rows were played with the version that was due, or one not too old."""
        newest = self._window() // self._case.turns + (0 if self._case.is_exact else 1)
        oldest = newest - (0 if self._case.is_exact else self._ahead)
        if ((versions < oldest) | (versions > newest)).any():
            self._findings.add("version")


def learn(agent: int, case: Case, parts: Parts, arena: Arena, findings: Findings) -> None:
    """Be the learner of an agent: read its rows, publish its versions."""
    schedule, states = parts.schedule(case, arena.counters), parts.states(arena, agent)
    reports, looker = arena.reports(str(agent)), Looker(agent, case, parts, arena, findings)
    states.publish(0, stamps.state(agent, 0))
    for number in range(1, case.rounds + 1):
        looker.look(schedule.await_learning(number, on_policy=False), parts.learn_nap)
        reports.write(number, {"agent": agent, "border": number})
        states.publish(number, stamps.state(agent, number))


def look_on(case: Case, parts: Parts, arena: Arena, findings: Findings) -> None:
    """Be one for whom nobody waits: look at everything, at any time, until the end.

    Rows and copies are often overtaken here, so this is where it shows whether the product
    knows when they were.
    """
    agents = range(case.agents)
    all_states = [parts.states(arena, agent) for agent in agents]
    lookers = [Looker(agent, case, parts, arena, findings) for agent in agents]
    end = case.rounds * case.turns
    for agent in agents:
        while not arena.counters.wait(version_of(str(agent)), 1, 1.0):
            pass
    while (commit := arena.counters.load(COMMIT)) < end:
        for agent in agents:
            names = Slowly(stamps.NAMES)
            version, copies = all_states[agent].newest(names)
            findings.add(stamps.judge_state(agent, version, copies))
            findings.add("looked")
            findings.add("thrown away", names.times - 1)
            lookers[agent].look(commit, parts.look_nap, is_bound=False)
