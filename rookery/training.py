"""Training: builds every part and connects them, one line per edge.

    game ──▶ actor ──rows──▶ replay ──▶ learner ──states──▶ actor

In one process, rounds are played and learned in turn. `sync` learns round k from all
experience up to border k; `pipelined` from that up to border k - 1, just as if it were
learned while round k is played. So the result does not depend on who does it when.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rookery.acting import Cast
from rookery.actor import Actor, Life, Played, snapshot_of
from rookery.advice import advise
from rookery.algorithms.base import WEIGHTS
from rookery.company import (
    Member,
    assemble,
    capacity_of,
    check_company,
    groups_of,
)
from rookery.config.run import Config
from rookery.games.base import Game
from rookery.games.catalog import Entry
from rookery.games.guard import Guarded
from rookery.learner import Learned, Learner
from rookery.memory.arena import AgentMemory, Arena
from rookery.memory.replay import slots_needed
from rookery.players.base import Player
from rookery.playing import find_player
from rookery.probe import split_groups
from rookery.seeding import Purpose, Stream
from rookery.specs import Array
from rookery.stopping import StopFlag
from rookery.threads import use_one_thread


@dataclass
class Round:
    """What one round brought."""

    number: int
    played: Played
    learned: Learned
    seconds: float


class Training:
    """A run in one process."""

    def __init__(
        self,
        entry: Entry,
        config: Config,
        origins: Mapping[str, Mapping[str, Array]] | None = None,
        stop: StopFlag | None = None,
    ) -> None:
        use_one_thread()
        self._origins = origins or {}
        """Named weights that agents start with, by id, where they are not their own."""
        self.config = config
        self.game = Guarded(
            entry.build(config.game.settings, config.worlds, config.seed), entry.name
        )
        self.members = assemble(config, self.game.agents)
        check_company(self.members, config.worlds)
        self.players = seat_scripted(entry, self.game, self.members, config.seed)
        self._rules = {
            member.id: member.algorithm.rule([member.plan], config.seed)
            for member in self.members
            if member.algorithm is not None
        }
        together = groups_of(self.members)
        exact, self.warnings = split_groups(together, config.seed, config.worlds)
        self.warnings += advise(config, self.members)
        self.cast = Cast(exact, config.seed, config.worlds)
        groups = [[member for member in group if member.learns] for group in exact]
        self.arena = plan_memory(config, self.game, self.members, self.players)
        self.arena.allocate()
        self.actor = Actor(
            self.game,
            self.members,
            self.players,
            self.arena,
            self.cast,
            config.turns_per_round,
            stop,
        )
        self.learner = Learner(
            [group for group in groups if group],
            self.arena,
            config.seed,
            config.turns_per_round,
            stop,
        )

    def rounds(self) -> Iterator[Round]:
        """Play and learn, round by round."""
        for member in self.members:
            if member.algorithm is not None:
                self.arena.states(member.id).publish(0, self.first_state(member))
        self.learner.begin()
        lag = 1 if self.config.schedule == "pipelined" else 0
        for number in range(1, self.config.rounds + 1):
            started = time.perf_counter()
            played = self.actor.play_round(number, self.weights(number - 1))
            learned = self.learner.learn_round(number, number - lag)
            yield Round(number, played, learned, time.perf_counter() - started)

    def first_state(self, member: Member) -> dict[str, Array]:
        """Return the state an agent starts with: its own, or one trained elsewhere."""
        rule = self._rules[member.id]
        state = rule.initial(member.plan)
        if member.id in self._origins:
            weights = type(rule).flat_weights(member.plan, self._origins[member.id])
            state |= {"weights": weights}
            if "target" in state:
                state["target"] = weights
        return state

    def weights(self, version: int) -> dict[int, Array]:
        """Return the weights of a version, by agent number."""
        found = {}
        for member in self.members:
            if member.algorithm is not None:
                states = self.arena.states(member.id)
                found[member.plan.number] = states.read(version if member.learns else 0)[
                    WEIGHTS
                ]
        return found

    def named_state(self, member: Member, version: int) -> dict[str, Array]:
        """Return an agent's state at a version, by name and without padding."""
        states = self.arena.states(member.id)
        arrays = states.read(version if member.learns else 0)
        return self._rules[member.id].named(arrays)

    def close(self) -> None:
        """Let go of everything."""
        self.game.close()
        self.arena.close()


def seat_scripted(
    entry: Entry, game: Game, members: list[Member], seed: int
) -> dict[int, Player]:
    """Return the players of scripted agents, by agent number."""
    found: dict[int, Player] = {}
    for member in members:
        if member.player is not None:
            number = member.plan.number
            stream = Stream(seed, Purpose.PLAYER, number)
            make = find_player(entry, member.player)
            found[number] = make(member.plan.spec, game.settings, game.worlds, stream)
    return found


def plan_memory(
    config: Config, game: Game, members: list[Member], players: dict[int, Player]
) -> Arena:
    """Return all memory that a run needs, planned and not yet allocated."""
    agents = []
    for member in members:
        slots = slots_of(member, config)
        state = None
        if member.algorithm is not None:
            state = member.algorithm.rule.shapes(member.plan, slots, config.worlds)
        agents.append(AgentMemory(member.plan.spec, slots, state))
    snapshot = snapshot_of(game, Life(members, game), players)
    shapes = {name: (array.shape, array.dtype) for name, array in snapshot.items()}
    return Arena(config.worlds, agents, shapes)


def slots_of(member: Member, config: Config) -> int:
    """Return how many turns of an agent are kept."""
    frames, turns = member.plan.settings.frames, config.turns_per_round
    if not member.learns:
        return 2 * turns + frames - 1
    capacity = capacity_of(member, turns, config.worlds)
    return slots_needed(capacity, config.worlds, turns, frames)
