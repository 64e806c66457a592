"""The forager of treasurehunt: plans four moves within what it sees."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from rookery.games.players import Observation, Player, pick
from rookery.specs import Array

DEPTH = 4
PATIENCE = 0.9
"""What a reward one move later is worth beside one now."""


class Forager(Player):
    """Takes the first of the four moves that bring the most; else goes straight on."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        part = self.spec.parts["view"]
        settings: Any = self.settings
        worth = {"gem": settings.gem, "food": settings.food, "bone": settings.bone}
        self._worth = np.array([worth.get(name, 0.0) for name in part.labels])
        self._bump = settings.bump
        self._wall = part.labels.index("wall")
        self._agents = part.labels.index(self.spec.role)
        radius = part.shape[1] // 2
        self._edge = max(0, DEPTH - radius)  # what lies beyond the window is unknown
        self._side = 2 * (radius + self._edge) + 1
        self._plans = np.array(list(product(range(4), repeat=DEPTH)))
        self._offsets = np.array([-self._side, 1, self._side, -1])
        self.memory["heading"] = np.zeros(self.worlds, np.int8)

    def act(self, observation: Observation, turn: int) -> Array:
        """Compare all plans, keep the best first moves, prefer the present heading."""
        gains = (
            self._gains(observation.parts["view"]).reshape(self.worlds, 4, -1).max(axis=2)
        )
        best = gains >= gains.max(axis=1, keepdims=True) - 1e-9
        heading = self.memory["heading"].astype(np.int64)
        goes_on = np.take_along_axis(best, heading[:, None], axis=1)[:, 0]
        chosen = np.where(goes_on, heading, pick(best, self.draw(turn)[:, 0]))
        self.memory["heading"][...] = chosen
        return chosen

    def _gains(self, view: Array) -> Array:
        """Return what each plan would bring, (worlds, plans)."""
        worth, wall, agent = self._read(view)
        rows = np.arange(self.worlds)[:, None]
        centre = self._side**2 // 2
        agent[:, centre] = False
        spot = np.full((self.worlds, len(self._plans)), centre)
        been: list[Array] = []
        total = np.zeros(spot.shape)
        for depth in range(DEPTH):
            target = spot + self._offsets[self._plans[:, depth]]
            bumps = wall[rows, target]
            again = np.logical_or.reduce([target == old for old in been] or [bumps & False])
            gain = np.where(bumps, self._bump, worth[rows, target] * ~again)
            total += PATIENCE**depth * gain
            spot = np.where(bumps | agent[rows, target], spot, target)
            been.append(spot)
        return total

    def _read(self, view: Array) -> tuple[Array, Array, Array]:
        """Return what each cell is worth, walls and agents, as (worlds, cells)."""
        edge = self._edge
        wide = np.pad(view, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
        flat = wide.reshape(*wide.shape[:2], -1)
        worth = np.tensordot(flat, self._worth, axes=([1], [0]))
        return worth, flat[:, self._wall] > 0, flat[:, self._agents] > 0
