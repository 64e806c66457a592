"""Planning a run's memory: how much everybody needs, by formula, before anything is had."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.actor.state import ActorState, snapshot_of
from rookery.algorithms.agents import capacity_of
from rookery.algorithms.base import Agent
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


def plan_memory(entry: Entry, config: Config, game: Game, agents: Sequence[Agent]) -> Arena:
    """Return all memory that a run needs, planned and not yet allocated."""
    memory = []
    for agent in agents:
        slots = slots_of(agent, config)
        state = None
        if not agent.is_scripted:
            state = agent.learner.shapes(agent, slots, config.worlds)
        memory.append(AgentMemory(agent.spec, slots, state, agent.hidden))
    players = entry.seat_players(game, [agent.player for agent in agents], config.seed)
    snapshot = snapshot_of(game, ActorState(agents, game), players)
    shapes = {name: (array.shape, array.dtype) for name, array in snapshot.items()}
    reports = max(2, rounds_ahead(config))
    size = report_bytes(config, game)
    return Arena.planned(config.worlds, memory, shapes, reports, size)


def slots_of(agent: Agent, config: Config) -> int:
    """Return how many turns of an agent are kept."""
    frames, turns = agent.settings.frames, config.turns_per_round
    ahead = rounds_ahead(config)
    if not agent.learns:
        return (1 + ahead) * turns + frames - 1
    capacity = capacity_of(agent, turns, config.worlds)
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
