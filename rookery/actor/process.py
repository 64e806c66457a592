"""The actor's process: the game, everybody who plays in it, and matches in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rookery.actor.actor import Actor
from rookery.actor.evaluations import Matches
from rookery.actor.policies import Cast
from rookery.actor.weights import Published
from rookery.algorithms.agents import Member, assemble, learning_ids
from rookery.algorithms.torch_setup import use_one_thread
from rookery.config.run import Config
from rookery.evaluation.play import find_player
from rookery.games.base import Game
from rookery.games.guard import Guarded
from rookery.games.players import Player
from rookery.games.registry import Entry, find
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import Brief, game_name
from rookery.protocol.schedule import Borders
from rookery.protocol.timing import time_protocol
from rookery.rng import Purpose, Stream
from rookery.shm.heartbeat import Status


class Stage:
    """One game, its players, and the actor who plays it round by round."""

    def __init__(
        self,
        entry: Entry,
        brief: Brief,
        members: Sequence[Member],
        arena: Arena,
        borders: Borders,
        status: Status | None = None,
    ) -> None:
        config = brief.config
        self.game = build_game(entry, config)
        players = seat_scripted(entry, self.game, members, config.seed)
        groups = [[members[i] for i in group] for group in brief.groups]
        self.cast = Cast(groups, config.seed, config.worlds)
        self.actor = Actor(
            self.game,
            members,
            players,
            arena,
            self.cast,
            config.turns_per_round,
            status,
        )
        self._published = Published(arena, members)
        self._exact, self._rounds = config.schedule != "async", config.rounds
        self._borders, self._status = borders, status or Status()
        self._matches = Matches(
            entry, brief, members, arena, self._published, self._status.beat
        )

    def play_round(self, number: int) -> None:
        """Play a round as soon as it may be; matches of the border before come first."""
        self._borders.await_playing(number)
        if self._matches.are_due(number - 1):
            self._borders.await_end(number - 1)
            self._matches.play(number - 1, self.actor.life.steps)
        with self._status.spending("work"):
            if self._exact:
                self.actor.play_round(number, self._published.exact(number - 1))
            else:
                weights = self._published.newest()
                self.actor.play_round(number, weights, self._published.newer)

    def finish(self) -> None:
        """Play the matches of the last border."""
        if self._matches.are_due(self._rounds):
            self._borders.await_end(self._rounds)
            self._matches.play(self._rounds, self.actor.life.steps)

    def close(self) -> None:
        """Let go of the game."""
        self.game.close()


def build_game(entry: Entry, config: Config) -> Guarded:
    """Return the game of a run."""
    built = entry.build(config.game.settings, config.worlds, config.seed)
    return Guarded(built, entry.name)


def seat_scripted(
    entry: Entry, game: Game, members: Sequence[Member], seed: int
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


def play(data: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """Be the actor: play all rounds that are left."""
    use_one_thread()
    entry = find(game_name(data))
    arena, brief = Arena.attach(memory), Brief.from_json(data, entry.settings)
    members = assemble(brief.config, brief.agents)
    status = Status(arena.words, brief.role)
    if brief.timed:
        time_protocol(status)
    borders = Borders(brief.config, arena.words, learning_ids(members), status)
    stage = Stage(entry, brief, members, arena, borders, status)
    status.beat()
    borders.await_begin(brief.generation)
    for number in range(stage.actor.begin() + 1, brief.config.rounds + 1):
        stage.play_round(number)
    stage.finish()
