"""What scripted players of grid games share: reading a window, and walking in it.

For bodies that move by `grid.MOVES` and see a window, `view`, that does not turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.games.players import Observation, Player, pick
from rookery.specs import Array

WAYS = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Up, right, down and left, as (down, right)."""
FAR = 1_000


class Walker(Player):
    """Finds its way to what it sees; `memory["heading"]` is the way it wanders."""

    blocks: tuple[str, ...] = ("wall",)
    """Kinds that are in the way, besides other agents."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        part = self.spec.parts["view"]
        self._labels = part.labels
        self.reach = part.shape[1] // 2
        """How many cells away it sees."""
        down, right = np.mgrid[: part.shape[1], : part.shape[2]]
        self.down, self.right = down - self.reach, right - self.reach
        """How far down and right of the agent each cell of the window is."""
        self._steps = abs(self.down) + abs(self.right)
        self.does = {name: i for i, name in enumerate(self.spec.action_names)}
        self.memory["heading"] = np.zeros(self.worlds, np.int8)

    def sees(self, observation: Observation, kind: str) -> Array:
        """Return where things of a kind are in the window, (worlds, rows, columns) bool."""
        there = observation.parts["view"][:, self._labels.index(kind)] > 0
        if kind == self.spec.role:
            there[self.ahead(0, 0)] = False  # oneself
        return there

    def blocked(self, observation: Observation) -> Array:
        """Return which of the four moves lead into something, (worlds, 4) bool."""
        solid = self.sees(observation, self.spec.role)
        for kind in self.blocks:
            solid |= self.sees(observation, kind)
        return np.stack([solid[self.ahead(way, 1)] for way in range(4)], axis=1)

    def ahead(self, way: int, steps: int) -> tuple[slice, int, int]:
        """Return the index of the cell some steps that way, in arrays like the window."""
        down, right = WAYS[way]
        return slice(None), self.reach + steps * down, self.reach + steps * right

    def towards(
        self, observation: Observation, goals: Array, draws: Array
    ) -> tuple[Array, Array]:
        """Return the move to the nearest goal, and where there is a goal at all."""
        distance = np.where(goals, self._steps, FAR).reshape(self.worlds, -1)
        nearest = distance.argmin(axis=1)
        down, right = self.down.ravel()[nearest], self.right.ravel()[nearest]
        return self.go(observation, down, right, draws), distance.min(axis=1) < FAR

    def go(
        self, observation: Observation, down: Array, right: Array, draws: Array
    ) -> Array:
        """Return a move that gets nearer to a place, or around what is in the way."""
        nearer = np.stack([down * a + right * b > 0 for a, b in WAYS], axis=1)
        free = ~self.blocked(observation)
        # A step to the side where there is none nearer; never one back.
        aside = free & ~np.roll(nearer, 2, axis=1)
        choice = np.where((nearer & free).any(axis=1, keepdims=True), nearer & free, aside)
        choice[~choice.any(axis=1)] = True
        return pick(choice, draws)

    def wander(self, observation: Observation, draws: Array) -> Array:
        """Return the move straight on, or now and then and at walls another."""
        free = ~self.blocked(observation)
        free[~free.any(axis=1)] = True
        heading = self.memory["heading"].astype(np.int64)
        goes_on = free[np.arange(self.worlds), heading] & (draws < 0.9)
        chosen = np.where(goes_on, heading, pick(free, draws * 10 % 1))
        self.memory["heading"][...] = chosen
        return chosen
