"""Bookkeeping of episodes: which agents still play, for how long, with which returns."""

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
    """The world that it was played in."""
    number: int
    """Which episode of that world it is, from 0."""
    turns: int
    """How many turns it lasted."""
    returns: Array
    """(agents,) sums of rewards, or of scores where the game has them."""
    counts: dict[str, Array]
    """The game's own metrics, (agents,) each."""

    def to_json(self) -> list[Any]:
        """Return the episode as plain data."""
        counts = {name: count.tolist() for name, count in self.counts.items()}
        return [self.world, self.number, self.turns, self.returns.tolist(), counts]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Episode:
        """Return the episode that `to_json` returned."""
        world, number, turns, returns, counts = data
        arrays = {name: np.array(count) for name, count in counts.items()}
        return cls(world, number, turns, np.array(returns), arrays)


class Episodes:
    """The current episode of every world."""

    def __init__(self, worlds: int, agents: int, counts: Sequence[str] = ()) -> None:
        self.live = np.ones((worlds, agents), bool)
        """Which agents have not ended."""
        self.age = np.zeros(worlds, np.int32)
        """Rows since the first of the episode, including the closing row."""
        self.number = np.zeros(worlds, np.int64)
        self._returns = np.zeros((worlds, agents))
        self._starting = self.closing
        """Where the turn that is played is a closing turn."""
        self._counts = {name: np.zeros((worlds, agents)) for name in counts}

    @property
    def closing(self) -> Array:
        """(worlds,) bool: whether the current or next turn is a closing turn."""
        return ~np.logical_or.reduce(self.live, axis=1)

    def add(self, outcome: Outcome) -> tuple[Array, list[Episode]]:
        """Add a turn; return where the next episode starts, and the episodes that ended."""
        starting, ended = self._starting, []
        scores = outcome.scores
        self._returns += outcome.rewards if scores is None else scores
        for name, count in outcome.counts.items():
            self._counts[name] += count
        ends = outcome.terminated | outcome.truncated
        any_ends = np.count_nonzero(ends)
        if any_ends:
            self.live &= ~ends
            worlds = np.flatnonzero(self.closing & ~starting).tolist()
            ended = [self._episode(world, int(self.age[world]) + 1) for world in worlds]
        self.age += 1
        any_starting = np.count_nonzero(starting)
        if any_starting:
            self._begin(starting)
        if any_ends or any_starting:
            self._starting = self.closing
        return starting, ended

    def _episode(self, world: int, turns: int) -> Episode:
        counts = {name: sums[world].copy() for name, sums in self._counts.items()}
        number, returns = int(self.number[world]), self._returns[world].copy()
        return Episode(world, number, turns, returns, counts)

    def running_for(self, turns: int) -> list[Episode]:
        """Return the episodes that have run for exactly `turns` turns and not ended."""
        worlds = np.flatnonzero((self.age == turns) & ~self.closing)
        return [self._episode(world, turns) for world in worlds.tolist()]

    def _begin(self, starting: Array) -> None:
        self.live[starting] = True
        self.age[starting] = 0
        self.number += starting
        for sums in (self._returns, *self._counts.values()):
            sums[starting] = 0

    def state(self) -> dict[str, Array]:
        """Return the complete state, as (worlds, …) arrays."""
        arrays = {"live": self.live, "age": self.age, "number": self.number}
        arrays["returns"] = self._returns
        return arrays | {f"count.{name}": sums for name, sums in self._counts.items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from a state that `state` returned."""
        self.live, self.age = arrays["live"].copy(), arrays["age"].copy()
        self.number, self._returns = arrays["number"].copy(), arrays["returns"].copy()
        self._starting = self.closing
        self._counts = {
            name.removeprefix("count."): array.copy()
            for name, array in arrays.items()
            if name.startswith("count.")
        }
