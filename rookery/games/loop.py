"""Players at a game: the loop that takes turns.

It is the actor's loop, less the rows: begin the turn, let each phase see and act, end the
turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.errors import PlayerError
from rookery.games.base import Game, Outcome
from rookery.games.episodes import Episode, Episodes
from rookery.games.players import Observation, Player
from rookery.specs import Array


@dataclass(slots=True)
class Turn:
    """What happened in one turn; arrays are (worlds, agents) unless they say so."""

    number: int
    active: Array
    actions: Array
    outcome: Outcome
    ended: list[Episode]
    """Episodes that are over; the next turn closes them."""
    closing: Array
    """(worlds,) bool: this was no turn of an episode, but the one after its last."""


class GameLoop:
    """Players at a game: takes turns, and tells players when an episode starts."""

    def __init__(self, game: Game, players: Sequence[Player]) -> None:
        self.game, self.players = game, players
        self._turn = 0
        self._episodes = Episodes(game.worlds, len(players), game.counts)

    def lasting(self, turns: int) -> list[Episode]:
        """Return the episodes that go on after just so many turns, as far as they got."""
        return self._episodes.lasting(turns) if self._turn >= turns else []

    def turns(self) -> Iterator[Turn]:
        """Play on, turn by turn."""
        while True:
            yield self._play_turn()

    def _play_turn(self) -> Turn:
        shape = (self.game.worlds, len(self.players))
        active, actions = np.zeros(shape, bool), np.zeros(shape, np.int64)
        for phase in self.game.begin_turn():
            seen = self.game.observe(phase)
            for place, i in enumerate(phase):
                observation = Observation(
                    seen.parts[place], seen.active[place], seen.legal[place]
                )
                active[:, i] = observation.active
                actions[:, i] = self._choice(i, observation)
            self.game.act(phase, actions[:, phase])
        outcome = self.game.end_turn()
        closing, ended = self._episodes.add(outcome)
        if closing.any():
            for player in self.players:
                player.forget(closing)
        self._turn += 1
        return Turn(self._turn - 1, active, actions, outcome, ended, closing)

    def _choice(self, i: int, observation: Observation) -> Array:
        """Ask a player, and refuse what is no action of its agent."""
        chosen = np.asarray(self.players[i].act(observation, self._turn))
        spec = self.players[i].spec
        if chosen.shape != observation.active.shape or chosen.dtype.kind not in "biu":
            raise PlayerError(
                f"the player of agent '{spec.id}' chose {chosen.shape} {chosen.dtype}, "
                f"expected {observation.active.shape} whole numbers: return one action per "
                "world."
            )
        wrong = (chosen < 0) | (chosen >= spec.num_actions)
        if observation.legal is not None:
            rows = np.arange(len(chosen))
            wrong |= ~observation.legal[rows, np.where(wrong, 0, chosen)]
        wrong &= observation.active
        if wrong.any():
            world = int(wrong.argmax())
            raise PlayerError(
                f"the player of agent '{spec.id}' chose action {chosen[world]} in world "
                f"{world}: legal are whole numbers below {spec.num_actions} that the "
                "game allows."
            )
        return np.where(observation.active, chosen, 0)
