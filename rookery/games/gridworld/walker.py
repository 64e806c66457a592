"""The base class of scripted players of grid games: reads a window, and walks in it.

For bodies whose actions include `grid.MOVES` and that observe a `Window` called 'view'
which is not rotated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.errors import nearest
from rookery.games.hints import Advice
from rookery.games.players import Observation, Player, pick
from rookery.specs import Array

WAYS = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Up, right, down and left, as (down, right)."""
FAR = 1_000


class Walker(Player):
    """Finds its way in its window; `memory["heading"]` is the direction it wanders in.

    Subclass it and write `act`, which combines `sees`, `towards`, `go` and `wander`. Its
    agent must observe a part called 'view', a `Window` with a radius that is not rotated,
    and its actions must begin with `grid.MOVES`. `draws` is always (worlds,) random numbers
    in [0, 1).

        class Picker(Walker):
            '''Walks to the nearest berry, around thorns; wanders if it sees none.'''

            blocks = ("wall", "thorn")

            def act(self, observation, turn):
                draws = self.draw(turn)[:, 0]
                berries = self.sees(observation, "berry")
                move, has_goal = self.towards(observation, berries, draws)
                return np.where(has_goal, move, self.wander(observation, draws))
    """

    blocks: tuple[str, ...] = ("wall",)
    """Kinds that it walks around, besides other agents; it walks across all others. The
    game must have all of them: write `blocks = ()` if it has no kind called 'wall'."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        part = self.spec.parts["view"]
        self._labels = part.labels
        self.reach = part.shape[1] // 2
        """How many cells it sees in each direction."""
        down, right = np.mgrid[: part.shape[1], : part.shape[2]]
        self.down, self.right = down - self.reach, right - self.reach
        """How far below and right of the agent each cell of the window is."""
        self._steps = abs(self.down) + abs(self.right)
        self.does = {name: i for i, name in enumerate(self.spec.action_names)}
        self.memory["heading"] = np.zeros(self.worlds, np.int8)

    def sees(self, observation: Observation, kind: str) -> Array:
        """Return where things of a kind are in the window, (worlds, rows, columns) bool."""
        if kind not in self._labels:
            raise Advice(self._unknown(kind))
        present = observation.parts["view"][:, self._labels.index(kind)] > 0
        if kind == self.spec.role:
            present[self.ahead(0, 0)] = False  # the agent itself
        return present

    def _unknown(self, kind: str) -> str:
        known = f"it has {', '.join(self._labels)}"
        if kind in self.blocks:
            return f"the view has no '{kind}', which is in blocks: {known}."
        similar = nearest(kind, self._labels)
        end = f"; {similar}" if similar.endswith("?") else "."
        return f"the view has no '{kind}': {known}{end}"

    def blocked(self, observation: Observation) -> Array:
        """Return which of the four moves are blocked, (worlds, 4) bool."""
        solid = self.sees(observation, self.spec.role)
        for kind in self.blocks:
            solid |= self.sees(observation, kind)
        return np.stack([solid[self.ahead(way, 1)] for way in range(4)], axis=1)

    def ahead(self, way: int, steps: int) -> tuple[slice, int, int]:
        """Return the index, in arrays like the window, of the cell some steps that way."""
        down, right = WAYS[way]
        return slice(None), self.reach + steps * down, self.reach + steps * right

    def towards(
        self, observation: Observation, goals: Array, draws: Array
    ) -> tuple[Array, Array]:
        """Return a move to the nearest goal, and where there is a goal in the window.

        Args:
            observation: what the agent observes.
            goals: where the goals are in the window, (worlds, rows, columns) bool, such as
                `self.sees(observation, "berry")`.
            draws: (worlds,) in [0, 1), such as `self.draw(turn)[:, 0]`; they choose between
                moves that are equally good.

        Returns:
            (worlds,) actions, and (worlds,) bool; where there is no goal, ignore the move.
        """
        distance = np.where(goals, self._steps, FAR).reshape(self.worlds, -1)
        nearest = distance.argmin(axis=1)
        down, right = self.down.ravel()[nearest], self.right.ravel()[nearest]
        return self.go(observation, down, right, draws), distance.min(axis=1) < FAR

    def go(
        self, observation: Observation, down: Array, right: Array, draws: Array
    ) -> Array:
        """Return a move that gets nearer to a cell, or around an obstacle.

        `down` and `right` are how far below and right of the agent the cell is, (worlds,).
        """
        nearer = np.stack([down * a + right * b > 0 for a, b in WAYS], axis=1)
        free = ~self.blocked(observation)
        # A step to the side if none gets nearer; never one back.
        aside = free & ~np.roll(nearer, 2, axis=1)
        choice = np.where((nearer & free).any(axis=1, keepdims=True), nearer & free, aside)
        choice[~choice.any(axis=1)] = True
        return pick(choice, draws)

    def wander(self, observation: Observation, draws: Array) -> Array:
        """Return a move straight ahead, or another at walls and now and then."""
        free = ~self.blocked(observation)
        free[~free.any(axis=1)] = True
        heading = self.memory["heading"].astype(np.int64)
        straight = free[np.arange(self.worlds), heading] & (draws < 0.9)
        moves = np.where(straight, heading, pick(free, draws * 10 % 1))
        self.memory["heading"][...] = moves
        return moves
