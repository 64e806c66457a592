"""Playing a game turn by turn, without learning.

`play_turn` is the one turn loop of this package; the actor has its own, which also writes
rows. `GameLoop` plays a game with one `Player` per agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.errors import PlayerError
from rookery.games.base import Game, Observations, Outcome
from rookery.games.episodes import Episode, Episodes
from rookery.games.guard import player_errors
from rookery.games.players import Observation, Player
from rookery.specs import Array

Choose = Callable[[tuple[int, ...], Observations], Array]
"""Called with a phase and its observations; returns actions, (worlds, len(phase))."""


def play_turn(game: Game, choose: Choose) -> Outcome:
    """Play one turn of a game, with the actions that `choose` returns for each phase."""
    for phase in game.begin_turn():
        game.act(phase, choose(phase, game.observe(phase)))
    return game.end_turn()


@dataclass(slots=True)
class Turn:
    """One turn that was played; arrays are (worlds, agents) unless noted otherwise."""

    number: int
    active: Array
    actions: Array
    outcome: Outcome
    ended: list[Episode]
    """Episodes that ended in this turn; the next turn closes them."""
    closing: Array
    """(worlds,) bool: whether this was the closing turn that follows an episode."""


class GameLoop:
    """Plays a game with one player per agent."""

    def __init__(self, game: Game, players: Sequence[Player]) -> None:
        self.game, self.players = game, players
        self._turn = 0
        self._episodes = Episodes(game.worlds, len(players), game.counts)

    def running_for(self, turns: int) -> list[Episode]:
        """Return the episodes that have run for exactly `turns` turns and not ended."""
        return self._episodes.running_for(turns) if self._turn >= turns else []

    def turns(self) -> Iterator[Turn]:
        """Play without end, and yield every turn."""
        while True:
            yield self._play_turn()

    def _play_turn(self) -> Turn:
        shape = (self.game.worlds, len(self.players))
        active, actions = np.zeros(shape, bool), np.zeros(shape, np.int64)

        def choose(phase: tuple[int, ...], observations: Observations) -> Array:
            for i, observation in zip(phase, split(observations), strict=True):
                active[:, i] = observation.active
                actions[:, i] = actions_of(self.players[i], observation, self._turn)
            return actions[:, phase]

        outcome = play_turn(self.game, choose)
        closing, ended = self._episodes.add(outcome)
        if closing.any():
            for player in self.players:
                player.forget(closing)
        self._turn += 1
        return Turn(self._turn - 1, active, actions, outcome, ended, closing)


def actions_of(player: Player, observation: Observation, turn: int) -> Array:
    """Return the actions of a player, which must be legal; 0 where it is inactive."""
    spec = player.spec
    with player_errors(spec.id, "act"):
        actions = np.asarray(player.act(observation, turn))
    if actions.shape != observation.active.shape or actions.dtype.kind not in "biu":
        raise PlayerError(
            f"the player of agent '{spec.id}' returned {actions.shape} {actions.dtype}, "
            f"expected {observation.active.shape} integers: return one action per world."
        )
    wrong = (actions < 0) | (actions >= spec.num_actions)
    if observation.legal is not None:
        rows = np.arange(len(actions))
        wrong |= ~observation.legal[rows, np.where(wrong, 0, actions)]
    wrong &= observation.active
    if wrong.any():
        world = int(wrong.argmax())
        raise PlayerError(
            f"the player of agent '{spec.id}' chose action {actions[world]} in world "
            f"{world}: choose integers from 0 to {spec.num_actions - 1} that are legal in "
            "the observation."
        )
    return np.where(observation.active, actions, 0)


def split(observations: Observations) -> Iterator[Observation]:
    """Yield the observation of each agent."""
    return map(Observation, observations.parts, observations.active, observations.legal)
