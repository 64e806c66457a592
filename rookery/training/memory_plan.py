"""Planning a run's memory: how much everybody needs, by formula, before anything is had."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.actor.process import seat_scripted
from rookery.actor.state import ActorState, snapshot_of
from rookery.algorithms.agents import Member, capacity_of
from rookery.config.run import Config
from rookery.games.base import Game
from rookery.games.registry import Entry
from rookery.protocol.arena import REPORT_BYTES, AgentMemory, Arena
from rookery.protocol.schedule import rounds_ahead
from rookery.replay.buffer import slots_needed

PROBE_BYTES = 32_768
"""What a probe found, or the traceback of what it raised."""
NUMBER_BYTES = 26
"""The longest number that JSON writes, with its comma."""


def plan_memory(
    entry: Entry, config: Config, game: Game, members: Sequence[Member]
) -> Arena:
    """Return all memory that a run needs, planned and not yet allocated."""
    agents = []
    for member in members:
        slots = slots_of(member, config)
        state = None
        if member.algorithm is not None:
            state = member.algorithm.rule.shapes(member.plan, slots, config.worlds)
        agents.append(AgentMemory(member.plan.spec, slots, state, member.hidden))
    players = seat_scripted(entry, game, members, config.seed)
    snapshot = snapshot_of(game, ActorState(members, game), players)
    shapes = {name: (array.shape, array.dtype) for name, array in snapshot.items()}
    reports = max(2, rounds_ahead(config))
    size = report_bytes(config, game)
    return Arena.planned(config.worlds, agents, shapes, reports, size)


def slots_of(member: Member, config: Config) -> int:
    """Return how many turns of an agent are kept."""
    frames, turns = member.plan.settings.frames, config.turns_per_round
    ahead = rounds_ahead(config)
    if not member.learns:
        return (1 + ahead) * turns + frames - 1
    capacity = capacity_of(member, turns, config.worlds)
    return slots_needed(capacity, config.worlds, turns, frames, ahead)


def report_bytes(config: Config, game: Game) -> int:
    """Return how long the actor's report of a round can be.

    An episode takes two turns at least: one to play, and one to close.
    """
    agents = len(game.agents)
    names = sum(len(name.encode()) + 8 for name in game.counts)
    episode = 64 + names + NUMBER_BYTES * agents * (1 + len(game.counts))
    ids = sum(6 * len(spec.id) for spec in game.agents)
    episodes = config.worlds * (config.turns_per_round // 2 + 2)
    probe = PROBE_BYTES if config.probe.code else 0
    return REPORT_BYTES + probe + ids * 4 + 512 * agents + episodes * episode
