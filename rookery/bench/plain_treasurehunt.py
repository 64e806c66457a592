"""Treasurehunt written by hand in numpy, to measure the overhead of the grid engine.

It has one map and three kinds of treasure; no snapshots, no layers, no lifetimes, and one
random generator for all worlds.
"""

from __future__ import annotations

import numpy as np

from rookery.specs import Array

SIDE, VISION, SPAWN, TURNS = 21, 2, 0.005, 100
NOTHING, WALL, GEM, FOOD, BONE, AGENT = range(6)
WORTH = np.array([0, -1, 10, 5, -10, 0], np.float32)
PADDED = SIDE + 2 * VISION
STEPS = np.array([-PADDED, 1, PADDED, -1])


class PlainTreasurehunt:
    """Agents in many worlds of treasurehunt."""

    def __init__(self, agents: int, worlds: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.agents, self.worlds = agents, worlds
        cells = np.arange(PADDED**2).reshape(PADDED, PADDED)
        self._field = cells[VISION:-VISION, VISION:-VISION]
        self._free = self._field[1:-1, 1:-1].ravel()
        window = np.arange(-VISION, VISION + 1)
        self._window = (window[:, None] * PADDED + window).ravel()
        self._rows = np.arange(worlds)
        self._reset()

    def _reset(self) -> None:
        self._turn = 0
        self._map = np.zeros((self.worlds, PADDED**2), np.uint8)
        self._map[:, self._field.ravel()] = WALL
        self._map[:, self._free] = NOTHING
        draws = self._random.random((self.worlds, len(self._free)))
        self._cells = self._free[draws.argsort(axis=1)[:, : self.agents]]
        self._map[self._rows[:, None], self._cells] = AGENT

    def observe(self) -> Array:
        """Spawn treasures; return observations (worlds, agents, kinds, window), uint8."""
        hits = self._random.random((self.worlds, len(self._free))) < SPAWN
        rows, columns = hits.nonzero()
        cells = self._free[columns]
        empty = self._map[rows, cells] == NOTHING
        kinds = self._random.integers(GEM, BONE + 1, len(rows))
        self._map[rows[empty], cells[empty]] = kinds[empty]
        windows = self._cells[:, :, None] + self._window
        kinds_seen = self._map[self._rows[:, None, None], windows]
        return (kinds_seen[:, :, None] == np.arange(1, 6)[:, None]).view(np.uint8)

    def act(self, actions: Array) -> Array:
        """Move all agents in random order; return rewards (worlds, agents)."""
        rewards = np.empty((self.worlds, self.agents), np.float32)
        for agent in self._random.permutation(self.agents):
            here = self._cells[:, agent]
            target = here + STEPS[actions[:, agent]]
            kinds = self._map[self._rows, target]
            rewards[:, agent] = WORTH[kinds]
            moves = (kinds != WALL) & (kinds != AGENT)
            rows = self._rows[moves]
            self._map[rows, here[moves]] = NOTHING
            self._map[rows, target[moves]] = AGENT
            self._cells[moves, agent] = target[moves]
        self._turn += 1
        if self._turn == TURNS:
            self._reset()
        return rewards
