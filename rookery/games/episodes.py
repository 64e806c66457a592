"""Keeping count of episodes: who still plays, how old each is, what it has brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.games.base import Outcome
from rookery.specs import Array


@dataclass
class Episode:
    """One finished episode."""

    world: int
    number: int
    turns: int
    returns: Array
    """(agents,) sums of rewards, or of scores where the game has them."""
    counts: dict[str, Array]
    """The game's own metrics, (agents,) each."""

    def to_json(self) -> list[Any]:
        """Return everything as plain data."""
        counts = {name: count.tolist() for name, count in self.counts.items()}
        return [self.world, self.number, self.turns, self.returns.tolist(), counts]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Episode:
        """Return what `to_json` described."""
        world, number, turns, returns, counts = data
        arrays = {name: np.array(count) for name, count in counts.items()}
        return cls(world, number, turns, np.array(returns), arrays)


class Episodes:
    """The present episode of every world."""

    def __init__(self, worlds: int, agents: int, counts: Sequence[str] = ()) -> None:
        self.live = np.ones((worlds, agents), bool)
        """Who has not ended yet."""
        self.age = np.zeros(worlds, np.int32)
        """Rows since the episode's first; the closing row counts."""
        self.number = np.zeros(worlds, np.int64)
        self._returns = np.zeros((worlds, agents))
        self._counts = {name: np.zeros((worlds, agents)) for name in counts}

    @property
    def closing(self) -> Array:
        """(worlds,) bool: the turn to come, or at hand, is only there to close."""
        return ~np.logical_or.reduce(self.live, axis=1)

    def add(self, outcome: Outcome) -> tuple[Array, list[Episode]]:
        """Take in a turn; return where the next episode starts, and those that ended."""
        starting, found = self.closing, []
        scores = outcome.scores
        self._returns += outcome.rewards if scores is None else scores
        for name, count in outcome.counts.items():
            self._counts[name] += count
        ends = outcome.terminated | outcome.truncated
        if np.count_nonzero(ends):
            self.live &= ~ends
            ended = self.closing & ~starting
            found = [self._finished(world) for world in np.flatnonzero(ended).tolist()]
        self.age += 1
        self._begin(starting)
        return starting, found

    def _finished(self, world: int) -> Episode:
        return self._so_far(world, int(self.age[world]) + 1)

    def _so_far(self, world: int, turns: int) -> Episode:
        counts = {name: sums[world].copy() for name, sums in self._counts.items()}
        number, returns = int(self.number[world]), self._returns[world].copy()
        return Episode(world, number, turns, returns, counts)

    def lasting(self, turns: int) -> list[Episode]:
        """Return the episodes that go on after just so many turns, as far as they got."""
        worlds = np.flatnonzero((self.age == turns) & ~self.closing)
        return [self._so_far(world, turns) for world in worlds.tolist()]

    def _begin(self, starting: Array) -> None:
        if np.count_nonzero(starting):
            self.live[starting] = True
            self.age[starting] = 0
            self.number += starting
            for sums in (self._returns, *self._counts.values()):
                sums[starting] = 0

    def state(self) -> dict[str, Array]:
        """Return everything needed to go on from here, as (worlds, …) arrays."""
        arrays = {"live": self.live, "age": self.age, "number": self.number}
        arrays["returns"] = self._returns
        return arrays | {f"count.{name}": sums for name, sums in self._counts.items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go back to where a state was taken."""
        self.live, self.age = arrays["live"].copy(), arrays["age"].copy()
        self.number, self._returns = arrays["number"].copy(), arrays["returns"].copy()
        self._counts = {
            name.removeprefix("count."): array.copy()
            for name, array in arrays.items()
            if name.startswith("count.")
        }
