"""How much memory a run needs, known before any of it is allocated.

Shared memory is planned to the byte. What processes need besides is estimated, so that a
run that cannot fit is refused before its first network is built: the system hands out
memory until none is left, and then kills.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from rookery.actor.state import ActorState, BoundaryState, snapshot_of
from rookery.algorithms.agents import capacity_of
from rookery.algorithms.base import Agent
from rookery.config.run import Config
from rookery.games.base import Game
from rookery.games.registry import Entry
from rookery.protocol.arena import REPORT_BYTES, AgentMemory, Arena
from rookery.protocol.schedule import rounds_ahead
from rookery.protocol.shares import most_shares
from rookery.replay.buffer import slots_needed
from rookery.shm.block import MemoryRefused
from rookery.training.autoscale import cores

PROBE_BYTES = 32_768
"""The result of a probe, or the traceback of its error."""
NUMBER_BYTES = 26
"""The longest number in JSON, with its comma."""
PROCESS_BYTES = 160 << 20
"""What a process needs before it computes anything: torch, mostly."""
FLOAT_BYTES = 4
HALVED = (
    "batch_size",
    "network.width",
    "network.quantiles",
    "network.depth",
    "network.channels",
    "recurrent.width",
    "recurrent.sequence",
    "tabular.entries",
    "replay.capacity",
)
"""The settings of an agent that the memory of its updates or its state can depend on."""


# Shared memory.


def plan_memory(entry: Entry, config: Config, game: Game, agents: Sequence[Agent]) -> Arena:
    """Return the shared memory of a run, planned and not yet allocated."""
    memory = []
    for agent in agents:
        slots = slots_of(agent, config)
        state = None
        if not agent.is_scripted:
            state = agent.learner.shapes(agent, slots, config.worlds)
        memory.append(AgentMemory(agent.spec, slots, state, agent.hidden))
    players = entry.seat_players(game, [agent.player for agent in agents], config.seed)
    snapshot = BoundaryState.initial(len(agents)).arrays()
    snapshot |= snapshot_of(game, ActorState(agents, game), players)
    shapes = {name: (array.shape, array.dtype) for name, array in snapshot.items()}
    reports = max(2, rounds_ahead(config))
    sizes = (report_bytes(config, game), world_report_bytes(config, game))
    return Arena.planned(config.worlds, memory, shapes, reports, *sizes)


def slots_of(agent: Agent, config: Config) -> int:
    """Return how many turns of an agent are stored."""
    frames, turns = agent.settings.frames, config.turns_per_round
    ahead = rounds_ahead(config)
    if not agent.learns:
        return (1 + ahead) * turns + frames - 1
    capacity = capacity_of(agent, turns, config.worlds)
    return slots_needed(capacity, config.worlds, turns, frames, ahead)


def report_bytes(config: Config, game: Game) -> int:
    """Return the largest possible size of the report of a round, of all worlds."""
    agents = len(game.agents)
    names = _count_names_bytes(game)
    ids = sum(6 * len(spec.id) for spec in game.agents)
    probe = PROBE_BYTES if config.probe.code else 0
    played = ids * 4 + 512 * agents + config.worlds * _episodes_bytes(config, game)
    means = ids + agents * (NUMBER_BYTES + 8)  # of the returns, or of one count
    evaluated = 2 * (256 + 8 * names + (1 + len(game.counts)) * means)
    return REPORT_BYTES + probe + max(played, evaluated)


def world_report_bytes(config: Config, game: Game) -> int:
    """Return the largest possible size of an actor's report of a round, per world."""
    agents = len(game.agents)
    sums = 4 * agents * NUMBER_BYTES
    lags = agents * NUMBER_BYTES  # once per report, which has at least one world
    return 256 + sums + lags + _episodes_bytes(config, game)


def _episodes_bytes(config: Config, game: Game) -> int:
    """Return the largest possible size of a world's episodes in a round.

    An episode takes at least two turns: one that is played and one that closes it.
    """
    numbers = NUMBER_BYTES * len(game.agents) * (1 + len(game.counts))
    episode = 80 + _count_names_bytes(game) + numbers
    return (config.turns_per_round // 2 + 2) * episode


def _count_names_bytes(game: Game) -> int:
    return sum(len(name.encode()) + 8 for name in game.counts)


# All memory.


@dataclass(frozen=True)
class MemoryNeed:
    """How much memory one purpose needs, and which settings to lower to need less."""

    purpose: str
    bytes: int
    lower: str | Callable[[], str]


@dataclass(frozen=True)
class AgentSize:
    """What an agent's need for memory depends on."""

    agent: Agent
    worlds: int
    turns: int
    """Turns per round."""

    def working_bytes(self) -> int:
        """Return what the agent's learning needs at its peak, including two states."""
        return self.agent.learner.working_bytes(self.agent, self.worlds, self.turns)

    def state_bytes(self) -> int:
        """Return the size of the agent's state."""
        shapes = self.agent.learner.shapes(self.agent, 1, 1).values()
        return sum(prod(shape) * np.dtype(dtype).itemsize for shape, dtype in shapes)

    def acting_bytes(self) -> int:
        """Return what acting in all worlds at once needs."""
        spec, settings = self.agent.spec, self.agent.settings
        inputs = settings.frames * sum(prod(part.shape) for part in spec.parts.values())
        passes = settings.iqn.acting_quantiles if settings.algorithm == "iqn" else 1
        hidden = 2 * (passes + 1) * settings.network.width
        return FLOAT_BYTES * self.worlds * (2 * inputs + hidden + 3 * spec.num_actions)


def check_run(
    arena: Arena, config: Config, groups: Sequence[Sequence[Agent]], free: int
) -> str:
    """Refuse a run that does not fit into memory.

    Returns:
        With `workers=auto`, a warning if several processes do not fit; otherwise ''.

    Raises:
        MemoryRefused: if the run does not fit, in one line.
    """
    learning = sum(agent.learns for group in groups for agent in group)
    wanted = 1 if config.actors == "auto" else config.actors
    actors = min(wanted, most_shares(config.worlds))
    if config.workers != "auto":
        workers = min(config.workers, learning)
        check_memory(needs_of(arena, config, groups, workers, actors), free)
        return ""
    check_memory(needs_of(arena, config, groups, 0, actors), free)
    in_parallel = needs_of(arena, config, groups, min(cores(), learning), actors)
    shortage = shortage_of(in_parallel, free)
    return shortage and (
        f"several processes would need {shortage}: the run stays in one process."
    )


def check_memory(needs: Sequence[MemoryNeed], free: int) -> None:
    """Refuse a run for which there is not enough memory.

    Raises:
        MemoryRefused: in one line.
    """
    if shortage := shortage_of(needs, free):
        largest = max(needs, key=lambda need: need.bytes)
        lower = largest.lower if isinstance(largest.lower, str) else largest.lower()
        raise MemoryRefused(f"the run needs {shortage}: lower {lower}.")


def shortage_of(needs: Sequence[MemoryNeed], free: int) -> str:
    """Return how much memory is needed, for what, and how much is free; '' if enough."""
    total = sum(need.bytes for need in needs)
    if total <= free:
        return ""
    largest = max(needs, key=lambda need: need.bytes)
    return (
        f"about {total >> 20:,} MiB of memory, {largest.bytes >> 20:,} MiB of it for "
        f"{largest.purpose}, but only {free >> 20:,} MiB is free"
    )


def needs_of(
    arena: Arena,
    config: Config,
    groups: Sequence[Sequence[Agent]],
    workers: int = 0,
    actors: int = 1,
) -> list[MemoryNeed]:
    """Return what a run needs at its peak.

    Args:
        arena: the planned shared memory.
        config: of the run.
        groups: agents that are trained as one computation.
        workers: how many processes learn; with 0, one process does everything.
        actors: how many processes play, if others learn.
    """
    planned = arena.sizes()
    shared = planned if config.storage == "memory" else dict.fromkeys(planned, 0)
    sizes = [
        [AgentSize(agent, config.worlds, config.turns_per_round) for agent in group]
        for group in groups
    ]
    updates = _update_bytes(sizes, workers)
    copies = 0
    if config.checkpoints.replay:  # all rows, and two copies of the largest file
        copies = planned["replays"] + 2 * arena.largest_replay
    if not workers:
        copies = max(0, copies - updates)  # nothing is learned in the meantime
    processes = workers + actors if workers else 0
    lower = "workers" if actors == 1 else "workers or actors"
    acting = sum(size.acting_bytes() for group in sizes for size in group)
    # Main has a state of every agent, its learner another, and every actor its weights.
    states = shared["states"] + planned["states"] * (2 + actors) // 2
    return [
        _replay_need(shared["replays"], copies),
        MemoryNeed(
            "states of agents", states, lambda: _advice(sizes, AgentSize.state_bytes)
        ),
        MemoryNeed("updates", updates, lambda: _advice(sizes, AgentSize.working_bytes)),
        MemoryNeed("acting", acting, "worlds, network.width or iqn.acting_quantiles"),
        MemoryNeed(
            "reports and snapshots", shared["the rest"], "worlds or turns_per_round"
        ),
        MemoryNeed("processes", processes * PROCESS_BYTES, lower),
    ]


def _replay_need(stored: int, copies: int) -> MemoryNeed:
    lower = "replay.capacity or worlds"
    if not copies:
        return MemoryNeed("replays", stored, lower)
    lower += ", or leave replays out of checkpoints (checkpoints.replay=false)"
    return MemoryNeed("replays and their copies for checkpoints", stored + copies, lower)


def _update_bytes(groups: Sequence[Sequence[AgentSize]], workers: int) -> int:
    """Return what updates need in addition to the states.

    Workers learn in parallel; in one process, groups learn one after the other.
    """
    per_group = [
        sum(max(0, size.working_bytes() - size.state_bytes()) for size in group)
        for group in groups
    ]
    return min(sum(per_group), max(1, workers) * max(per_group, default=0))


# Which settings to lower.


def _advice(
    groups: Sequence[Sequence[AgentSize]], bytes_of: Callable[[AgentSize], int]
) -> str:
    """Return the settings that save most if halved, for the agent that needs most."""
    largest = max((size for group in groups for size in group), key=bytes_of)
    before = bytes_of(largest)
    saved = {name: before - bytes_of(size) for name, size in _halved(largest).items()}
    effective = [name for name in saved if saved[name] > before / 5]
    effective.sort(key=lambda name: -saved[name])
    *others, last = effective[:3] or ["network.width"]
    return f"{', '.join(others)} or {last}" if others else last


def _halved(size: AgentSize) -> dict[str, AgentSize]:
    """Return the same agent with each setting halved in turn, by the setting's name."""
    sizes = {
        "worlds": replace(size, worlds=size.worlds // 2),
        "turns_per_round": replace(size, turns=size.turns // 2),
    }
    for name in HALVED:
        settings = _with_half(size.agent.settings, name.split("."))
        sizes[name] = replace(size, agent=replace(size.agent, settings=settings))
    return sizes


def _with_half(settings: Any, path: Sequence[str]) -> Any:
    value = getattr(settings, path[0])
    half = _with_half(value, path[1:]) if len(path) > 1 else value - value // 2
    return settings.model_copy(update={path[0]: half})
