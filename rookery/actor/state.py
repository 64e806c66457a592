"""The actor's state and its snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.algorithms.base import Agent
from rookery.games.base import Game
from rookery.games.episodes import Episodes
from rookery.games.players import Player
from rookery.specs import Array, under

HASH_BYTES = 32


class ActorState:
    """What the actor carries from turn to turn, apart from the game and its players."""

    def __init__(self, agents: Sequence[Agent], game: Game) -> None:
        self.turn = 0
        self.episodes = Episodes(game.worlds, len(agents), game.counts)
        self.steps = np.zeros(len(agents), np.int64)
        """The number of turns each agent was active in, summed over worlds."""
        self.hashes = np.zeros((len(agents), HASH_BYTES), np.uint8)
        """Each agent's row hash: a chain over the rows of all rounds so far."""
        self.hidden = {
            agent.number: np.zeros((game.worlds, agent.hidden), np.float32)
            for agent in agents
            if agent.hidden
        }
        """The hidden states of recurrent agents, (worlds, units) each."""

    def state(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        arrays = {"turn": np.array([self.turn]), "steps": self.steps, "hashes": self.hashes}
        arrays |= {f"hidden/{i}": array for i, array in self.hidden.items()}
        return arrays | {f"episodes/{k}": v for k, v in self.episodes.state().items()}

    def carry(self, number: int, hidden: Array, active: Array) -> None:
        """Store an agent's new hidden state in the worlds in which it was active."""
        self.hidden[number][active] = hidden[active]

    def forget(self, starting: Array) -> None:
        """Reset hidden states in worlds whose episode starts; `starting` is (worlds,)."""
        for hidden in self.hidden.values():
            hidden[starting] = 0

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what `state` returned."""
        self.turn = int(arrays["turn"][0])
        self.steps, self.hashes = arrays["steps"].copy(), arrays["hashes"].copy()
        for number, hidden in self.hidden.items():
            hidden[...] = arrays[f"hidden/{number}"]
        self.episodes.restore(under("episodes/", arrays))


def snapshot_of(
    game: Game, state: ActorState, players: Mapping[int, Player]
) -> dict[str, Array]:
    """Return everything needed to continue from here, as named arrays."""
    arrays = {f"life/{name}": array for name, array in state.state().items()}
    for i, player in players.items():
        arrays |= {f"player {i}/{name}": array for name, array in player.memory.items()}
    if game.can_snapshot:
        arrays |= {f"game/{name}": array for name, array in game.snapshot().items()}
    return arrays
