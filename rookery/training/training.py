"""Training: builds a run's parts and connects them.

    game ──▶ actor ──rows──▶ replay ──▶ learner ──states──▶ actor

Everything that passes between them is in shared memory, so the result does not depend on
whether they run in this process, one after the other, or in parallel in several: `sync`
learns round k from all experience up to boundary k, `pipelined` from that up to boundary
k - 1, and round k is played with exactly version k - 1.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rookery.actor.parts import RunParts
from rookery.actor.policies import PublishedWeights
from rookery.actor.reports import PlayedRound
from rookery.algorithms.agents import (
    build_agents,
    check_agents,
    learning_ids,
    weight_shapes,
)
from rookery.algorithms.base import Agent, Learner, Metrics
from rookery.algorithms.grouping import groups_of
from rookery.algorithms.torch_setup import standard_state, use_one_thread
from rookery.config.run import Config
from rookery.errors import ConfigError, RookeryError
from rookery.evaluation.probes import probe_of
from rookery.games.registry import Entry
from rookery.learner.exactness import split_groups
from rookery.protocol.arena import MATCHES, Arena, first_row
from rookery.protocol.process_spec import ProcessSpec
from rookery.protocol.schedule import RoundSchedule, rounds_ahead
from rookery.protocol.user_files import file_sums
from rookery.shm.block import available
from rookery.specs import Array
from rookery.stop import StopFlag
from rookery.storage.arrays import shapes_of
from rookery.supervisor.supervisor import Tell
from rookery.training.actors import possible_actors, resolve_actors
from rookery.training.autoscale import Autoscaler
from rookery.training.bits import bits_of
from rookery.training.compile_ahead import compile_ahead
from rookery.training.memory_plan import check_run, plan_memory
from rookery.training.switch import ExecutorSwitch
from rookery.training.warnings import advise

MEMORY = "memory"
"""The folder within a run that holds its memory with storage=disk."""
LISTED_RETURNS = 8
"""Returns of up to so many agents are listed one by one."""
NEW_MEMORY = ".memory-new"
"""The name of that folder until it holds something that a run can be resumed from."""


@dataclass(frozen=True)
class InitialState:
    """What an agent starts with that was trained in another run."""

    weights: Mapping[str, Array]
    """By name, without padding."""
    state: Mapping[str, Array] | None = None
    """The whole training state, to continue learning where the other run ended."""
    rows: Array | None = None
    """The agent's replay, if it comes along: whole slots as bytes, (turns, bytes)."""


@dataclass
class LearnedRound:
    """The learners' reports of one round."""

    metrics: dict[str, Metrics] = field(default_factory=dict)
    """Agent id to metric name to value."""
    seconds: float = 0.0


@dataclass(repr=False)
class Round:
    """Everything reported about one round; the callback of `rookery.train` gets it."""

    number: int
    """Which round, from 1."""
    played: PlayedRound
    """The episodes that ended in it, in `played.episodes`, and more."""
    learned: LearnedRound
    seconds: float
    """How long it took."""
    matches: list[dict[str, Any]]
    """Reports of evaluations, recordings and probes that finished in the meantime."""
    rounds: int = 0
    """How many rounds the run has."""
    elapsed: float = 0.0
    """Seconds since this process began to train."""

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of every agent, by id and name, such as `reward` and `loss`."""
        played, learned = self.played.metrics, self.learned.metrics
        return {agent: {**played[agent], **learned.get(agent, {})} for agent in played}

    @property
    def returns(self) -> dict[str, float]:
        """The mean return of every agent over the episodes that ended in this round.

        It is empty if none ended.
        """
        if not self.played.episodes:
            return {}
        means = np.mean([episode.returns for episode in self.played.episodes], axis=0)
        return dict(zip(self.played.metrics, means.tolist(), strict=True))

    def __repr__(self) -> str:
        returns = ", ".join(f"{agent}: {x:.4g}" for agent, x in self.returns.items())
        if len(self.returns) > LISTED_RETURNS:
            values = list(self.returns.values())
            returns = f"{np.mean(values):.4g} on average, of {len(values)} agents"
        text = f"returns {returns}" if returns else "no episode ended"
        return f"<Round {self.number} of {self.rounds}: {text}; {self.elapsed:.1f} s>"


class Training:
    """A run in memory: its agents, its shared memory, and what executes it.

    `build` makes one. `rounds` then trains, round by round.
    """

    def __init__(
        self,
        parts: RunParts,
        learners: Mapping[str, Learner],
        executor: ExecutorSwitch,
        initial_states: Mapping[str, InitialState] | None = None,
        warnings: Sequence[str] = (),
        bits: str = "",
    ) -> None:
        """Connect parts that `build` has built.

        Args:
            parts: of the run; the arena is allocated.
            learners: one per agent that is not scripted, by id; they convert states.
            executor: plays and learns the rounds.
            initial_states: of agents that do not start from scratch, by id.
            warnings: lines to show before training starts.
            bits: a hash of what this machine computes at the shapes of the run.
        """
        self.parts, self.executor = parts, executor
        self.process_spec, self.agents = parts.process_spec, parts.agents
        self.config = parts.process_spec.config
        self.arena, self.schedule = parts.arena, parts.schedule
        self._learners, self._initial_states = learners, initial_states or {}
        self.warnings, self.bits = list(warnings), bits
        self.matches = 0
        """The number of boundaries, from 0, whose match reports main has read."""
        self.boundary: int | None = None
        """The boundary to continue from; None for a new run."""
        self._started = time.perf_counter()

    @classmethod
    def build(
        cls,
        entry: Entry,
        config: Config,
        initial_states: Mapping[str, InitialState] | None = None,
        stop: StopFlag | None = None,
        folder: Path | None = None,
        tell: Tell = lambda *event, **details: None,
        timed: bool = False,
    ) -> Training:
        """Check a run, compare stacked agents with separate ones, and allocate memory.

        Args:
            entry: the game.
            config: of the run.
            initial_states: of agents that do not start from scratch, by id.
            stop: asks the run to stop.
            folder: of the run; needed for recordings and with storage=disk.
            tell: called with every event.
            timed: whether to measure the cost of the protocol.
        """
        use_one_thread()
        game = entry.build_guarded(config.game.settings, config.worlds, config.seed)
        agents = build_agents(config, game.agents)
        check_agents(agents, config.worlds)
        probe_of(config)  # a mistake in its name is reported before anything starts
        arena = plan_memory(entry, config, game, agents)
        groups = groups_of(agents)
        shortage = check_run(arena, config, groups, available())
        with standard_state():
            learners = {
                agent.id: agent.learner([agent], config.seed)
                for agent in agents
                if not agent.is_scripted
            }
            with compile_ahead(entry, game, groups, config):
                stacked = split_groups(
                    groups, config.seed, config.worlds, config.turns_per_round
                )
            actors, fewer = resolve_actors(config, stacked.exact)
            possible = possible_actors(config, stacked.exact, actors)
        warnings = [
            *filter(None, [shortage, fewer]),
            *stacked.warnings,
            *advise(config, agents),
        ]
        process_spec = ProcessSpec(
            config,
            game.agents,
            [[agent.number for agent in group] for group in stacked.exact],
            str(folder or ""),
            actors=actors,
            timed=timed,
            sums=file_sums(config),
        )
        can_switch = config.workers == "auto" and not shortage and game.can_snapshot
        try:
            _allocate(arena, folder if config.storage == "disk" else None)
            bits = bits_of(stacked.digests, entry, game, config.seed)
        finally:
            game.close()
        schedule = RoundSchedule(config, arena.counters, learning_ids(agents))
        parts = RunParts(
            entry, process_spec, agents, arena, schedule, stop or StopFlag(), tell
        )
        autoscaler = Autoscaler(config, agents, possible) if can_switch else None
        executor = ExecutorSwitch(parts, autoscaler)
        return cls(parts, learners, executor, initial_states, warnings, bits)

    def resume_from(self, boundary: int, matches: int) -> None:
        """Continue from a boundary whose states, rows and snapshot are in memory.

        Args:
            boundary: which one.
            matches: how many boundaries' match reports have been read.
        """
        self.boundary, self.matches = boundary, matches

    def rounds(self) -> Iterator[Round]:
        """Play and learn all remaining rounds; yield each one when it is complete."""
        if self.boundary is None:
            self.publish_initial_states()
        self._started = time.perf_counter()
        workers = self.config.workers
        remaining = range((self.boundary or 0) + 1, self.config.rounds + 1)
        # No process is started for the evaluations of the last boundary alone.
        self.executor.start(0 if workers == "auto" or not remaining else workers)
        for number in remaining:
            started = time.perf_counter()
            self.schedule.open(number - 1)
            try:
                self.executor.advance(number)
            except BaseException:
                with suppress(RookeryError):  # closing the game may fail, too
                    self.executor.close()  # from here on no process writes
                if self.schedule.is_complete(number):
                    yield self._round(number, started)
                raise
            completed = self._round(number, started)
            yield completed
            learned = completed.learned
            updated = any(m.get("updates", 0) > 0 for m in learned.metrics.values())
            self.executor.reconsider(
                completed.played.seconds, learned.seconds if updated else 0.0
            )
        self.executor.finish()

    def _round(self, number: int, started: float) -> Round:
        """Collect all reports of a round."""
        played = PlayedRound.from_json(self.arena.actor_reports().read(number))
        learned = LearnedRound()
        for agent in self.agents:
            if agent.learns:
                report = self.arena.reports(agent.id).read(number)
                learned.metrics[agent.id] = report["metrics"]
                learned.seconds += report["seconds"]
        now = time.perf_counter()
        return Round(
            number,
            played,
            learned,
            now - started,
            self.new_matches(),
            self.config.rounds,
            now - self._started,
        )

    def new_matches(self) -> list[dict[str, Any]]:
        """Return the match reports written since the last call."""
        finished, reports = self.arena.counters.load(MATCHES), self.arena.match_reports()
        boundaries = range(self.matches, finished)
        self.matches = finished
        return [report for k in boundaries if (report := reports.read_round(k))]

    @standard_state()
    def publish_initial_states(self) -> None:
        """Publish version 0 of every agent's state, and the replay it starts with."""
        for agent in self.agents:
            if not agent.is_scripted:
                state = self.initial_state(agent)
                initial = self._initial_states.get(agent.id)
                if initial is not None and initial.rows is not None:
                    self._prepend_rows(agent, state, initial.rows)
                self.arena.states(agent.id).publish(0, state)

    def _prepend_rows(self, agent: Agent, state: dict[str, Array], data: Array) -> None:
        """Put rows of another run before the agent's first turn."""
        rows, config = self.arena.rows(agent.id), self.config
        most = rows.slots - rounds_ahead(config) * config.turns_per_round - 1
        first = rows.prepend(data[-most:])
        self.arena.counters.store(first_row(agent.id), first)
        if "priorities" in state:  # all equal; rows that cannot be drawn are dropped later
            priorities = np.zeros((rows.slots, config.worlds))
            priorities[np.arange(first, 0) % rows.slots] = 1.0
            state["priorities"] = priorities.ravel()

    def initial_state(self, agent: Agent) -> dict[str, Array]:
        """Return the state an agent starts with.

        Raises:
            ConfigError: if it was trained with settings that do not fit.
        """
        learner = self._learners[agent.id]
        state = learner.initial(agent)
        initial = self._initial_states.get(agent.id)
        if initial is None:
            return state
        if set(initial.weights) != set(weight_shapes(agent)):
            raise ConfigError(
                f"agent '{agent.id}' cannot start from these weights: their network has "
                "other layers than this one; use the same network settings."
            )
        if initial.state is not None:
            own = learner.named(state)
            loaded = own | dict(initial.state)
            if shapes_of(loaded) != shapes_of(own):
                raise ConfigError(
                    f"agent '{agent.id}' cannot start from this state: its arrays are of "
                    "another shape; use the same settings, or export with --weights-only."
                )
            return state | learner.unnamed(loaded)
        weights = type(learner).flat_weights(agent, initial.weights)
        state |= {"weights": weights}
        return state | ({"target": weights} if "target" in state else {})

    def named_weights(self, version: int) -> dict[str, dict[str, Array]]:
        """Return the weights of a version by agent id, by name and without padding."""
        published = PublishedWeights(self.arena, self.agents)
        weights = published.exact(version) if self._is_exact else published.newest()
        return {
            agent.id: agent.learner.named_weights(agent, weights.arrays[agent.number])
            for agent in self.agents
            if not agent.is_scripted
        }

    def named_state(self, agent: Agent, version: int) -> dict[str, Array]:
        """Return an agent's state at a version, by name and without padding."""
        states = self.arena.states(agent.id)
        if self._is_exact:
            arrays = states.read(version if agent.learns else 0)
        else:  # agents are at different rounds, but each state is complete
            _, arrays = states.newest(states.names)
        return self.named(agent, arrays)

    def named(self, agent: Agent, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state by name and without padding."""
        return self._learners[agent.id].named(arrays)

    def unnamed_state(self, agent: Agent, named: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state as it is stored in memory; the inverse of `named`."""
        return self._learners[agent.id].unnamed(named)

    def snapshot(self, recorded: int) -> tuple[int, dict[str, Array]]:
        """Return the boundary of a checkpoint, and the actor's snapshot there.

        In async that is the newest: the actor may be ahead of the round recorded last.
        """
        snapshots = self.arena.snapshots()
        if self._is_exact:
            return recorded, dict(snapshots.read(recorded))
        return snapshots.newest(snapshots.names)

    @property
    def _is_exact(self) -> bool:
        return self.config.schedule != "async"

    def close(self) -> None:
        """End all processes and free all memory."""
        self.executor.close()
        self.arena.close()


def _allocate(arena: Arena, folder: Path | None) -> None:
    """Allocate memory, or with a run's folder, reopen what an earlier process left."""
    if folder is not None and (folder / MEMORY).exists():
        arena.reopen(folder / MEMORY)
    elif folder is not None:
        shutil.rmtree(folder / NEW_MEMORY, ignore_errors=True)
        arena.allocate(folder / NEW_MEMORY)
    else:
        arena.allocate()
