"""Scripted players of cleanup: both eat, one of them also cleans the river."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.games.gridworld.walker import Walker
from rookery.games.players import Observation
from rookery.specs import Array

WEST, EAST = -1, 1
ENOUGH = 3
"""So much dirt in sight, and a cleaner leaves its apples."""


class Eater(Walker):
    """Goes for the nearest apple it sees; without one, waits in the orchard."""

    blocks = ("wall", "water")

    def act(self, observation: Observation, turn: int) -> Array:
        """Eat, or go where apples grow."""
        draws = self.draw(turn)[:, 0]
        return self._eat(observation, draws)

    def _eat(self, observation: Observation, draws: Array) -> Array:
        """Go to an apple; without one go east, and wander there."""
        there = self._is_east(observation)
        to_apple, any_apple = self.towards(
            observation, self.sees(observation, "apple"), draws
        )
        east = self.go(observation, 0 * there, 0 * there + EAST, draws)
        idle = np.where(there, self.wander(observation, draws), east)
        return np.where(any_apple, to_apple, idle)

    def _is_east(self, observation: Observation) -> Array:
        """Return where the eastern wall is near."""
        walls = self.sees(observation, "wall") & (self.down == 0)
        return np.asarray((walls & (self.right > 0) & (self.right <= 3)).any(axis=(1, 2)))


class Cleaner(Eater):
    """Cleans when it sees the river dirty, and looks after it when apples are few."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        settings: Any = self.settings
        self._length = settings.length
        self.memory["inspects"] = np.zeros(self.worlds, np.bool_)

    def act(self, observation: Observation, turn: int) -> Array:
        """Clean, eat, or go and look at the river."""
        draws = self.draw(turn)[:, 0]
        dirt = self.sees(observation, "dirt")
        dirty = dirt.sum(axis=(1, 2)) >= ENOUGH
        inspects = self._inspects(observation, dirty)
        west = self.go(observation, 0 * draws, 0 * draws + WEST, draws)
        eats = self._eat(observation, draws)
        idle = np.where(inspects, west, eats)
        return np.where(dirty, self._clean(observation, dirt, draws), idle)

    def _inspects(self, observation: Observation, dirty: Array) -> Array:
        """Return where it is on its way to the river: no apple seen in the orchard."""
        apples = self.sees(observation, "apple").any(axis=(1, 2))
        inspects = self.memory["inspects"]
        inspects |= ~apples & self._is_east(observation)
        inspects &= ~(self.sees(observation, "water")[self.ahead(3, 1)] | dirty)
        return inspects.copy()

    def _clean(self, observation: Observation, dirt: Array, draws: Array) -> Array:
        """Clean if there is dirt straight ahead, else get into line with some."""
        facing = observation.parts["self"][:, :4].argmax(axis=1)
        lines = np.stack(
            [self._in_line(observation, dirt, way) for way in range(4)], axis=1
        )
        ahead = lines[np.arange(self.worlds), facing]
        to_dirt, _ = self.towards(observation, dirt, draws)
        turned = np.where(lines.any(axis=1), lines.argmax(axis=1), to_dirt)
        return np.where(ahead, self.does["clean"], turned)

    def _in_line(self, observation: Observation, dirt: Array, way: int) -> Array:
        """Return where a beam that way would reach dirt, and nobody is in between."""
        found = np.zeros(self.worlds, np.bool_)
        open_ = ~found
        others = self.sees(observation, self.spec.role)
        for steps in range(1, min(self._length, self.reach) + 1):
            place = self.ahead(way, steps)
            open_ &= ~others[place]
            found |= open_ & dirt[place]
        return found
