"""Playing a game with random legal actions, and keeping copies of all it returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rookery.games.base import Game, Observations, Outcome
from rookery.games.loop import play_turn
from rookery.games.players import random_actions
from rookery.rng import Purpose, Stream
from rookery.specs import Array


class Broken(Exception):
    """A check failed; the message says where."""


class Explained(Broken):
    """A check failed; the message also gives the cause and what to do."""


def restore_turn(turns: int) -> int:
    """Return the turn to restore in: the largest prime up to half of the turns.

    State that a snapshot misses is back at its first value then. If it repeats after some
    turns, such as a counter modulo 2, it is right by chance in every multiple of them.
    """
    numbers = range(turns // 2, 1, -1)
    return next(n for n in numbers if all(n % divisor for divisor in range(2, n)))


@dataclass
class PlayedTurn:
    """Copies of all arrays a game returned in one turn, by name, world axis first."""

    turn: int
    arrays: dict[str, Array] = field(default_factory=dict)

    def add_observations(
        self, game: Game, phase: tuple[int, ...], observations: Observations
    ) -> None:
        """Copy the observations of a phase."""
        for i, parts, active, legal in zip(
            phase, observations.parts, observations.active, observations.legal, strict=True
        ):
            agent = f"agent '{game.agents[i].id}'"
            for name, part in parts.items():
                self.arrays[f"part '{name}' of {agent}"] = part.copy()
            self.arrays[f"active of {agent}"] = active.copy()
            if legal is not None:
                self.arrays[f"legal actions of {agent}"] = legal.copy()

    def add_outcome(self, outcome: Outcome) -> None:
        """Copy an outcome."""
        arrays = {"rewards": outcome.rewards, "terminated": outcome.terminated}
        arrays["truncated"] = outcome.truncated
        arrays |= {f"count '{name}'": count for name, count in outcome.counts.items()}
        if outcome.scores is not None:
            arrays["scores"] = outcome.scores
        self.arrays |= {name: array.copy() for name, array in arrays.items()}


class Playback:
    """Plays a game with random legal actions, keyed by seed, world and turn."""

    def __init__(
        self, game: Game, seed: int, first_world: int = 0, draw: float | None = None
    ) -> None:
        self.game = game
        self.observations: list[tuple[tuple[int, ...], Observations]] = []
        """The observations of the last turn themselves, by phase."""
        self._draw = draw
        """Used instead of every random number: 0 always takes the first legal action."""
        self._numbers = np.arange(first_world, first_world + game.worlds)
        self._stream = Stream(seed, Purpose.PLAYER)

    def turn(self, number: int) -> PlayedTurn:
        """Play one turn; its number decides the actions."""
        played = PlayedTurn(number)
        self.observations = []

        def choose(phase: tuple[int, ...], observations: Observations) -> Array:
            self.observations.append((phase, observations))
            played.add_observations(self.game, phase, observations)
            return self.actions(number, phase, observations)

        played.add_outcome(play_turn(self.game, choose))
        return played

    def turns(self, first: int, last: int) -> list[PlayedTurn]:
        """Play the turns numbered from `first` up to, not including, `last`."""
        return [self.turn(number) for number in range(first, last)]

    def actions(
        self, turn: int, phase: tuple[int, ...], observations: Observations
    ) -> Array:
        """Return random legal actions, (worlds, len(phase))."""
        agents = self.game.agents
        draws = self._stream.uniform((self._numbers, turn), 0, len(agents))
        if self._draw is not None:
            draws[...] = self._draw
        columns = [
            random_actions(agents[i].num_actions, legal, draws[:, i])
            for i, legal in zip(phase, observations.legal, strict=True)
        ]
        return np.stack(columns, axis=1)


def compare(left: PlayedTurn, right: PlayedTurn, world: int | None, when: str) -> None:
    """Raise `Broken` where two turns differ.

    Args:
        left: a turn of all worlds.
        right: the same turn of all worlds, or of a single one.
        world: the world of `left` that `right` consists of; None if it has them all.
        when: what is different about `right`, for the message.
    """
    for name in sorted(left.arrays.keys() ^ right.arrays.keys()):
        raise Broken(f"{name} is missing from one of two games in turn {left.turn} {when}")
    for name, array in left.arrays.items():
        mine = array if world is None else array[world : world + 1]
        theirs = right.arrays[name]
        if mine.tobytes() != theirs.tobytes():
            differs = mine.reshape(len(mine), -1) != theirs.reshape(len(theirs), -1)
            number = int(differs.any(axis=1).argmax()) if world is None else world
            raise Broken(f"{name} in world {number} differed in turn {left.turn} {when}")
