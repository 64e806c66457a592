"""What a run takes of memory in all its processes, and whether there is enough of it.

Estimated before the first network is built: the system gives memory away until it has
none left, and then kills. What is shared is known to the byte; the rest is about right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from rookery.algorithms.base import Agent, Learner
from rookery.config.run import Config
from rookery.protocol.arena import Arena
from rookery.shm.block import MemoryRefused
from rookery.training.autoscale import cores

PROCESS_BYTES = 160 << 20
"""What a process takes before it computes anything: torch, mostly."""
FLOAT = 4
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
"""Settings of an agent that its updates or its state may grow with."""


@dataclass(frozen=True)
class Need:
    """What one purpose takes, and which settings make it less."""

    what: str
    bytes: int
    lower: str | Callable[[], str]


@dataclass(frozen=True)
class Size:
    """What an agent's memory depends on."""

    learner: type[Learner]
    agent: Agent
    worlds: int
    turns: int
    """Of a round."""


def check_run(
    arena: Arena, config: Config, groups: Sequence[Sequence[Agent]], free: int
) -> str:
    """Refuse a run that does not fit; say why `auto` has to keep it in one process.

    Raises:
        MemoryRefused: in one line.
    """
    learning = sum(agent.learns for group in groups for agent in group)
    if config.workers != "auto":
        workers = min(config.workers, learning)
        check_memory(needs_of(arena, config, groups, workers), free)
        return ""
    check_memory(needs_of(arena, config, groups), free)
    side_by_side = needs_of(arena, config, groups, min(cores(), learning))
    lacking = what_lacks(side_by_side, free)
    return lacking and (
        f"several processes would need {lacking}: the run stays in one process."
    )


def check_memory(needs: Sequence[Need], free: int) -> None:
    """Refuse a run for which there is not enough memory.

    Raises:
        MemoryRefused: in one line.
    """
    if lacking := what_lacks(needs, free):
        most = max(needs, key=lambda need: need.bytes)
        lower = most.lower if isinstance(most.lower, str) else most.lower()
        raise MemoryRefused(f"the run needs {lacking}: lower {lower}.")


def what_lacks(needs: Sequence[Need], free: int) -> str:
    """Return how much is needed for what and how much there is; '' if it is enough."""
    total = sum(need.bytes for need in needs)
    if total <= free:
        return ""
    most = max(needs, key=lambda need: need.bytes)
    return (
        f"about {total >> 20:,} MiB of memory, {most.bytes >> 20:,} MiB of it for "
        f"{most.what}, but only {free >> 20:,} MiB is free"
    )


def needs_of(
    arena: Arena, config: Config, groups: Sequence[Sequence[Agent]], workers: int = 0
) -> list[Need]:
    """Return what a run takes at its peak.

    Args:
        arena: the memory that processes share, planned.
        config: of the run.
        groups: agents that are trained as one computation.
        workers: how many processes learn; 0: everything is done in one.
    """
    planned = arena.sizes()
    shared = planned if config.storage == "memory" else dict.fromkeys(planned, 0)
    sizes = [[_size(agent, config) for agent in group] for group in groups]
    updates = _update_bytes(sizes, workers)
    copies = _saving_bytes(arena) if config.checkpoints.replay else 0
    if not workers:
        copies = max(0, copies - updates)  # nothing is learned meanwhile
    acting = sum(_acting_bytes(size) for group in sizes for size in group)
    # Main has a state of every agent, its learner another, and the actor its weights.
    states = shared["states"] + planned["states"] * 3 // 2
    return [
        _replays(shared["replays"], copies),
        Need("states of agents", states, lambda: _advice(sizes, _state_bytes)),
        Need("updates", updates, lambda: _advice(sizes, _working_bytes)),
        Need("acting", acting, "worlds, network.width or iqn.acting_quantiles"),
        Need("reports and snapshots", shared["the rest"], "worlds or turns_per_round"),
        Need("processes", PROCESS_BYTES * (workers + 1) if workers else 0, "workers"),
    ]


def _replays(kept: int, copies: int) -> Need:
    """Return what replays take where they are kept, and their copies for checkpoints."""
    lower = "replay.capacity or worlds"
    if not copies:
        return Need("replays", kept, lower)
    lower += ", or leave replays out of checkpoints (checkpoints.replay=false)"
    return Need("replays and their copies for checkpoints", kept + copies, lower)


def _size(agent: Agent, config: Config) -> Size:
    return Size(agent.learner, agent, config.worlds, config.turns_per_round)


def _saving_bytes(arena: Arena) -> int:
    """Return what writing a checkpoint takes: all rows, and two copies for one file."""
    return arena.sizes()["replays"] + 2 * arena.largest_replay


def _update_bytes(groups: Sequence[Sequence[Size]], workers: int) -> int:
    """Return what updates take beside the states, which are there all the time.

    Workers learn side by side; in one process groups learn one after the other.
    """
    found = [
        sum(max(0, _working_bytes(size) - _state_bytes(size)) for size in group)
        for group in groups
    ]
    return min(sum(found), max(1, workers) * max(found, default=0))


def _working_bytes(size: Size) -> int:
    """Return what an agent's learning takes at its peak, with two states."""
    return size.learner.working_bytes(size.agent, size.worlds, size.turns)


def _state_bytes(size: Size) -> int:
    shapes = size.learner.shapes(size.agent, 1, 1).values()
    return sum(prod(shape) * np.dtype(dtype).itemsize for shape, dtype in shapes)


def _acting_bytes(size: Size) -> int:
    """Return what acting in all worlds at once takes."""
    spec, settings = size.agent.spec, size.agent.settings
    seen = settings.frames * sum(prod(part.shape) for part in spec.parts.values())
    looks = settings.iqn.acting_quantiles if settings.algorithm == "iqn" else 1
    numbers = 2 * seen + 2 * (looks + 1) * settings.network.width + 3 * spec.num_actions
    return FLOAT * size.worlds * numbers


# Which settings to lower.


def _advice(groups: Sequence[Sequence[Size]], cost: Callable[[Size], int]) -> str:
    """Return the settings that save most if they are halved, for the heaviest agent."""
    heaviest = max((size for group in groups for size in group), key=cost)
    before = cost(heaviest)
    saved = {name: before - cost(less) for name, less in _halved(heaviest).items()}
    telling = [name for name in saved if saved[name] > before / 5]
    telling.sort(key=lambda name: -saved[name])
    *some, last = telling[:3] or ["network.width"]
    return f"{', '.join(some)} or {last}" if some else last


def _halved(size: Size) -> dict[str, Size]:
    """Return the same agent with less of one thing, by the setting's name."""
    found = {
        "worlds": Size(size.learner, size.agent, size.worlds // 2, size.turns),
        "turns_per_round": Size(size.learner, size.agent, size.worlds, size.turns // 2),
    }
    for name in HALVED:
        settings = _with_half(size.agent.settings, name.split("."))
        agent = replace(size.agent, settings=settings)
        found[name] = Size(size.learner, agent, size.worlds, size.turns)
    return found


def _with_half(settings: Any, path: Sequence[str]) -> Any:
    value = getattr(settings, path[0])
    half = _with_half(value, path[1:]) if len(path) > 1 else value - value // 2
    return settings.model_copy(update={path[0]: half})
