"""What the actor must remember from turn to turn, and the snapshot that it leaves of it."""

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
    """What the actor itself must remember: turns, episodes, hidden states, hashes."""

    def __init__(self, agents: Sequence[Agent], game: Game) -> None:
        self.turn = 0
        self.episodes = Episodes(game.worlds, len(agents), game.counts)
        self.steps = np.zeros(len(agents), np.int64)
        """Turns in which each agent was active, all worlds together."""
        self.hashes = np.zeros((len(agents), HASH_BYTES), np.uint8)
        self.hidden = {
            agent.number: np.zeros((game.worlds, agent.hidden), np.float32)
            for agent in agents
            if agent.hidden
        }
        """What recurrent agents carry from turn to turn, (worlds, numbers) each."""

    def state(self) -> dict[str, Array]:
        """Return everything as arrays."""
        arrays = {"turn": np.array([self.turn]), "steps": self.steps, "hashes": self.hashes}
        arrays |= {f"hidden/{i}": array for i, array in self.hidden.items()}
        return arrays | {f"episodes/{k}": v for k, v in self.episodes.state().items()}

    def carry(self, number: int, hidden: Array, active: Array) -> None:
        """Take what an agent carries on, in worlds in which it was active."""
        self.hidden[number][active] = hidden[active]

    def forget(self, starting: Array) -> None:
        """Let nothing be carried into episodes that start; `starting` is (worlds,)."""
        for hidden in self.hidden.values():
            hidden[starting] = 0

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go back to where a state was taken."""
        self.turn = int(arrays["turn"][0])
        self.steps, self.hashes = arrays["steps"].copy(), arrays["hashes"].copy()
        for number, hidden in self.hidden.items():
            hidden[...] = arrays[f"hidden/{number}"]
        self.episodes.restore(under("episodes/", arrays))


def snapshot_of(
    game: Game, state: ActorState, players: Mapping[int, Player]
) -> dict[str, Array]:
    """Return everything needed to play on from here, as named arrays."""
    arrays = {f"life/{name}": array for name, array in state.state().items()}
    for i, player in players.items():
        arrays |= {f"player {i}/{name}": array for name, array in player.memory.items()}
    if game.can_snapshot:
        arrays |= {f"game/{name}": array for name, array in game.snapshot().items()}
    return arrays
