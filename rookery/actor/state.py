"""An actor's state, and its part of the snapshot: all arrays are per world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.algorithms.base import Agent
from rookery.games.base import Game
from rookery.games.episodes import Episodes
from rookery.games.players import Player
from rookery.protocol.arena import BOUNDARY_ARRAYS
from rookery.specs import Array, under

HASH_BYTES = 32


@dataclass
class BoundaryState:
    """What all worlds have in common at a boundary."""

    turn: int
    steps: Array
    """(agents,) the number of turns each agent was active in, summed over worlds."""
    hashes: Array
    """(agents, 32) row hashes: chains over the rows of all rounds so far."""

    @classmethod
    def initial(cls, agents: int) -> BoundaryState:
        """Return the state at boundary 0."""
        hashes = np.zeros((agents, HASH_BYTES), np.uint8)
        return cls(0, np.zeros(agents, np.int64), hashes)

    @classmethod
    def of_snapshot(cls, arrays: Mapping[str, Array]) -> BoundaryState:
        """Return copies of the state that a snapshot holds."""
        turn, steps, hashes = (arrays[name] for name in BOUNDARY_ARRAYS)
        return cls(int(turn[0]), steps.copy(), hashes.copy())

    def arrays(self) -> dict[str, Array]:
        """Return everything by its name in a snapshot."""
        values = (np.array([self.turn]), self.steps, self.hashes)
        return dict(zip(BOUNDARY_ARRAYS, values, strict=True))


class ActorState:
    """What the actor carries from turn to turn, apart from the game and its players."""

    def __init__(self, agents: Sequence[Agent], game: Game) -> None:
        self.turn = 0
        self.episodes = Episodes(game.worlds, len(agents), game.counts)
        self.hidden = {
            agent.number: np.zeros((game.worlds, agent.hidden), np.float32)
            for agent in agents
            if agent.hidden
        }
        """The hidden states of recurrent agents, (worlds, units) each."""

    def state(self) -> dict[str, Array]:
        """Return everything but the turn as named arrays, (worlds, …) each."""
        arrays = {f"hidden/{i}": array for i, array in self.hidden.items()}
        return arrays | {f"episodes/{k}": v for k, v in self.episodes.state().items()}

    def carry(self, number: int, hidden: Array, active: Array) -> None:
        """Store an agent's new hidden state in the worlds in which it was active."""
        self.hidden[number][active] = hidden[active]

    def forget(self, starting: Array) -> None:
        """Reset hidden states in worlds whose episode starts; `starting` is (worlds,)."""
        for hidden in self.hidden.values():
            hidden[starting] = 0

    def restore(self, turn: int, arrays: Mapping[str, Array]) -> None:
        """Restore what `state` returned at the start of a turn."""
        self.turn = turn
        for number, hidden in self.hidden.items():
            hidden[...] = arrays[f"hidden/{number}"]
        self.episodes.restore(under("episodes/", arrays))


def snapshot_of(
    game: Game, state: ActorState, players: Mapping[int, Player]
) -> dict[str, Array]:
    """Return what is needed to continue in the worlds of a game, (worlds, …) arrays."""
    arrays = {f"life/{name}": array for name, array in state.state().items()}
    for i, player in players.items():
        arrays |= {f"player {i}/{name}": array for name, array in player.memory.items()}
    if game.can_snapshot:
        arrays |= {f"game/{name}": array for name, array in game.snapshot().items()}
    return arrays
