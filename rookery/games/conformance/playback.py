"""Playing a game for its checks: random legal actions, every word of the game kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rookery.games.base import Game, Observations, Outcome
from rookery.games.players import pick
from rookery.rng import Purpose, Stream
from rookery.specs import Array


class Broken(Exception):
    """A check failed; the message says where."""


@dataclass
class PlayedTurn:
    """Everything a game said in one turn, as named arrays with the world axis first."""

    turn: int
    said: dict[str, Array] = field(default_factory=dict)

    def hear(self, game: Game, agents: tuple[int, ...], seen: Observations) -> None:
        """Keep copies of an observation."""
        for place, i in enumerate(agents):
            who = f"agent '{game.agents[i].id}'"
            for name, part in seen.parts[place].items():
                self.said[f"part '{name}' of {who}"] = part.copy()
            self.said[f"active of {who}"] = seen.active[place].copy()
            legal = seen.legal[place]
            if legal is not None:
                self.said[f"legal actions of {who}"] = legal.copy()

    def close(self, outcome: Outcome) -> None:
        """Keep copies of an outcome."""
        named = {"rewards": outcome.rewards, "terminated": outcome.terminated}
        named["truncated"] = outcome.truncated
        named |= {f"count '{name}'": count for name, count in outcome.counts.items()}
        if outcome.scores is not None:
            named["scores"] = outcome.scores
        self.said |= {name: array.copy() for name, array in named.items()}


class Playback:
    """Plays a game with random legal actions that depend on place alone."""

    def __init__(
        self, game: Game, seed: int, first_world: int = 0, luck: float | None = None
    ) -> None:
        self.game = game
        self._luck = luck
        """In place of every draw: 0 is always the first legal action."""
        self._numbers = np.arange(first_world, first_world + game.worlds)
        self._stream = Stream(seed, Purpose.PLAYER)

    def turn(self, number: int) -> PlayedTurn:
        """Play one turn; its number decides the actions."""
        played = PlayedTurn(number)
        for phase in self.game.begin_turn():
            seen = self.game.observe(phase)
            played.hear(self.game, phase, seen)
            self.game.act(phase, self.actions(number, phase, seen))
        played.close(self.game.end_turn())
        return played

    def turns(self, first: int, last: int) -> list[PlayedTurn]:
        """Play the turns numbered from `first` up to, not including, `last`."""
        return [self.turn(number) for number in range(first, last)]

    def actions(self, turn: int, phase: tuple[int, ...], seen: Observations) -> Array:
        """Return random legal actions, (worlds, agents of the phase)."""
        agents = len(self.game.agents)
        draws = self._stream.uniform((self._numbers, turn), 0, agents)
        if self._luck is not None:
            draws[...] = self._luck
        return np.stack(
            [
                _pick(self.game.agents[i].num_actions, seen.legal[place], draws[:, i])
                for place, i in enumerate(phase)
            ],
            axis=1,
        )


def _pick(num_actions: int, legal: Array | None, draws: Array) -> Array:
    if legal is None:
        return (draws * num_actions).astype(np.int64)
    return pick(legal, draws)


def compare(one: PlayedTurn, other: PlayedTurn, world: int | None, when: str) -> None:
    """Raise `Broken` where two moments differ; `world` picks that of `one`."""
    for name in sorted(one.said.keys() ^ other.said.keys()):
        raise Broken(f"{name} is not always there in turn {one.turn} {when}")
    for name, array in one.said.items():
        mine = array if world is None else array[world : world + 1]
        theirs = other.said[name]
        if mine.tobytes() != theirs.tobytes():
            differs = mine.reshape(len(mine), -1) != theirs.reshape(len(theirs), -1)
            found = int(differs.any(axis=1).argmax()) if world is None else world
            raise Broken(f"{name} of world {found} differs in turn {one.turn} {when}")
