"""Training: builds every part and connects them, one line per edge.

    game ──▶ actor ──rows──▶ replay ──▶ learner ──states──▶ actor

Everything that passes between them lies in the arena. So it makes no difference to the
result whether they run in this process, one after the other, or side by side in several:
`sync` learns round k from all experience up to boundary k, `pipelined` from that up to
boundary k - 1, and round k is played with exactly version k - 1.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rookery.actor.actor import Played
from rookery.actor.weights import PublishedWeights
from rookery.algorithms.agents import (
    build_agents,
    check_agents,
    groups_of,
    learning_ids,
    weight_shapes,
)
from rookery.algorithms.base import Agent, Metrics
from rookery.algorithms.torch_setup import standard_state, use_one_thread
from rookery.config.run import Config
from rookery.errors import ConfigError, RookeryError
from rookery.evaluation.probes import probe_of
from rookery.games.registry import Entry
from rookery.learner.exactness import split_groups
from rookery.protocol.arena import MATCHES, first_row
from rookery.protocol.process_spec import ProcessSpec, file_sums
from rookery.protocol.schedule import RoundSchedule, rounds_ahead
from rookery.shm.block import available
from rookery.specs import Array
from rookery.stop import StopFlag
from rookery.storage.arrays import shapes_of
from rookery.supervisor.supervisor import Tell
from rookery.training.autoscale import Autoscaler
from rookery.training.executors import Executor, Parts
from rookery.training.memory_needs import check_run
from rookery.training.memory_plan import plan_memory
from rookery.training.warnings import advise

MEMORY = "memory"
"""The folder of a run in which its memory lies with storage=disk."""
NEW_MEMORY = ".memory-new"
"""Its name as long as it holds nothing that could be gone on from."""


@dataclass(frozen=True)
class Origin:
    """What an agent starts with that was trained elsewhere."""

    weights: Mapping[str, Array]
    """By name, without padding."""
    state: Mapping[str, Array] | None = None
    """With moments and counts, to go on learning as if nothing had happened."""
    rows: Array | None = None
    """Whole slots of its replay as bytes, (turns, bytes), if it brings that along."""


@dataclass
class Learned:
    """What a round of learning brought."""

    metrics: dict[str, Metrics] = field(default_factory=dict)
    """Agent id to metric name to value."""
    seconds: float = 0.0


@dataclass
class Round:
    """What one round brought."""

    number: int
    played: Played
    learned: Learned
    seconds: float
    matches: list[dict[str, Any]]
    """Evaluations and recordings that were finished meanwhile."""


class Training:
    """A run: who learns from what, where it lies, and who computes it."""

    def __init__(
        self,
        entry: Entry,
        config: Config,
        origins: Mapping[str, Origin] | None = None,
        stop: StopFlag | None = None,
        folder: Path | None = None,
        tell: Tell = lambda *about, **more: None,
        timed: bool = False,
    ) -> None:
        use_one_thread()
        self._origins = origins or {}
        """What agents start with, by id, where it is not their own."""
        self.config = config
        game = entry.build_guarded(config.game.settings, config.worlds, config.seed)
        self.agents = build_agents(config, game.agents)
        check_agents(self.agents, config.worlds)
        probe_of(config)  # a mistake in naming it is told before anything starts
        self.arena = plan_memory(entry, config, game, self.agents)
        together = groups_of(self.agents)
        lacking = check_run(self.arena, config, together, available())
        self.warnings = [lacking] if lacking else []
        can_change = config.workers == "auto" and not lacking and game.can_snapshot
        with standard_state():
            self._learners = {
                agent.id: agent.learner([agent], config.seed)
                for agent in self.agents
                if not agent.is_scripted
            }
            exact, lines = split_groups(
                together, config.seed, config.worlds, config.turns_per_round
            )
        self.warnings += [*lines, *advise(config, self.agents)]
        groups = [[agent.number for agent in group] for group in exact]
        self.process_spec = ProcessSpec(
            config,
            game.agents,
            groups,
            str(folder or ""),
            timed=timed,
            sums=file_sums(config),
        )
        game.close()
        self._get_memory(folder if config.storage == "disk" else None)
        learning = learning_ids(self.agents)
        self.schedule = RoundSchedule(config, self.arena.counters, learning)
        self.parts = Parts(
            entry,
            self.process_spec,
            self.agents,
            self.arena,
            self.schedule,
            stop or StopFlag(),
            tell,
        )
        autoscaler = Autoscaler(config, self.agents) if can_change else None
        self.executor = Executor(self.parts, autoscaler)
        self.matches = 0
        """Evaluations and recordings that main has been told of."""
        self.boundary: int | None = None
        """Where it goes on from; None if it starts anew."""

    def _get_memory(self, folder: Path | None) -> None:
        """Get new memory, or what an earlier process has left in a run's folder."""
        if folder is not None and (folder / MEMORY).exists():
            self.arena.reopen(folder / MEMORY)
        elif folder is not None:
            shutil.rmtree(folder / NEW_MEMORY, ignore_errors=True)
            self.arena.allocate(folder / NEW_MEMORY)
        else:
            self.arena.allocate()

    def go_on_from(self, boundary: int, matches: int) -> None:
        """Go on from a boundary whose states, rows and snapshot are in memory."""
        self.boundary, self.matches = boundary, matches
        if self.arena.counters.load(MATCHES) < matches:
            self.arena.counters.store(MATCHES, matches)

    def rounds(self) -> Iterator[Round]:
        """Play and learn, round by round; a round that is yielded is complete."""
        if self.boundary is None:
            self.publish_first()
        workers = self.config.workers
        left = range((self.boundary or 0) + 1, self.config.rounds + 1)
        # Nobody is started for the matches of the last boundary alone.
        self.executor.start(0 if workers == "auto" or not left else workers)
        for number in left:
            started = time.perf_counter()
            self.schedule.open(number - 1)
            try:
                self.executor.advance(number)
            except BaseException:
                with suppress(RookeryError):  # a game that cannot be closed either
                    self.executor.close()  # nobody writes any more
                if self.schedule.is_complete(number):
                    yield self._round(number, started)
                raise
            one = self._round(number, started)
            yield one
            updated = any(m.get("updates", 0) > 0 for m in one.learned.metrics.values())
            learned = one.learned.seconds if updated else 0.0
            self.executor.reconsider(one.played.seconds, learned, one.seconds)
        self.executor.finish()

    def _round(self, number: int, started: float) -> Round:
        """Return what everybody reported of a round."""
        played = Played.from_json(self.arena.actor_reports().read(number))
        learned = Learned()
        for agent in self.agents:
            if agent.learns:
                report = self.arena.reports(agent.id).read(number)
                learned.metrics[agent.id] = report["metrics"]
                learned.seconds += report["seconds"]
        seconds = time.perf_counter() - started
        return Round(number, played, learned, seconds, self.new_matches())

    def new_matches(self) -> list[dict[str, Any]]:
        """Return what the actor reported of matches since the last time."""
        newest, reports = self.arena.counters.load(MATCHES), self.arena.match_reports()
        new = range(self.matches + 1, newest + 1)
        self.matches = newest
        return [reports.read(number) for number in new if reports.has(number)]

    @standard_state()
    def publish_first(self) -> None:
        """Publish version 0 of every state: the agent's own, or one trained elsewhere."""
        for agent in self.agents:
            if not agent.is_scripted:
                state = self.first_state(agent)
                origin = self._origins.get(agent.id)
                if origin is not None and origin.rows is not None:
                    self._bring_rows(agent, state, origin.rows)
                self.arena.states(agent.id).publish(0, state)

    def _bring_rows(self, agent: Agent, state: dict[str, Array], data: Array) -> None:
        """Give an agent the experience that it has from another run."""
        rows, config = self.arena.rows(agent.id), self.config
        most = rows.slots - rounds_ahead(config) * config.turns_per_round - 1
        first = rows.prepend(data[-most:])
        self.arena.counters.store(first_row(agent.id), first)
        if "priorities" in state:  # all alike; what cannot be drawn is dropped at once
            places = np.zeros((rows.slots, config.worlds))
            places[np.arange(first, 0) % rows.slots] = 1.0
            state["priorities"] = places.ravel()

    def first_state(self, agent: Agent) -> dict[str, Array]:
        """Return the state an agent starts with."""
        learner = self._learners[agent.id]
        state = learner.initial(agent)
        origin = self._origins.get(agent.id)
        if origin is None:
            return state
        if set(origin.weights) != set(weight_shapes(agent)):
            raise ConfigError(
                f"agent '{agent.id}' cannot start from there: that network has other "
                "layers than this one; use the same network settings."
            )
        if origin.state is not None:
            first = learner.named(state)
            given = first | dict(origin.state)
            if shapes_of(given) != shapes_of(first):
                raise ConfigError(
                    f"agent '{agent.id}' cannot start from there: what it learned is of "
                    "another shape; use the same settings, or export with --weights-only."
                )
            return state | learner.unnamed(given)
        weights = type(learner).flat_weights(agent, origin.weights)
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
        else:  # there is no common boundary, but everybody is whole
            _, arrays = states.newest(states.names)
        return self.named(agent, arrays)

    def named(self, agent: Agent, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state by name and without padding."""
        return self._learners[agent.id].named(arrays)

    def unnamed_state(self, agent: Agent, named: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state as it lies in memory from what `named_state` gave."""
        return self._learners[agent.id].unnamed(named)

    def snapshot(self, recorded: int) -> tuple[int, dict[str, Array]]:
        """Return the boundary that a checkpoint is of, and the actor's snapshot there.

        In async the actor may be ahead of what is recorded, and plays on meanwhile.
        """
        snapshots = self.arena.snapshots()
        if self._is_exact:
            return recorded, dict(snapshots.read(recorded))
        return snapshots.newest(snapshots.names)

    @property
    def _is_exact(self) -> bool:
        return self.config.schedule != "async"

    def close(self) -> None:
        """Let go of everything."""
        self.executor.close()
        self.arena.close()
